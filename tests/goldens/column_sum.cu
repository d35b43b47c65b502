// reducesum_0: reducesum
// S0[i < 6, j < 70]: y[i] = sum(j) x[j, i]
#include "loom.cuh"

enum : int {
  ROWS = 6,
  COLUMNS = 70,
  SHARERS = 8,
  CHUNKS = 9,
  VECTOR = 1,
  BLOCKS = 1,
  THREADS = 256,
  SHARED_BYTES = 1024,
};
static_assert(CHUNKS * SHARERS >= COLUMNS, "the sharers of a row reach all of it");
static_assert(BLOCKS * 32 * VECTOR >= ROWS, "every row has a block");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
reducesum_0(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 420);  // 70 x 6
  const Global<float> y(y_, 6);  // 6
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> y_parts(shared_memory, 256);  // bytes 0 to 1023
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int warp = thread / 32;
  const int column_of_thread = block * 32 + (thread % 32);
  const bool row_exists = column_of_thread < 6;
  const int row = fn_min(column_of_thread, 5);
  float y_acc = 0.0f;
  #pragma unroll
  for (int chunk = 0; chunk < 9; ++chunk) {
    const int column = chunk * 8 + warp;
    const bool inside = column < 70;
    const float x_value = inside ? x.load(column * 6 + row) : 0.0f;
    y_acc += (inside ? x_value : 0.0f);
  }
  const int lane_of_warp = thread % 32;
  y_parts.store(warp * 32 + lane_of_warp, y_acc);
  barrier();
  y_acc = 0.0f;
  #pragma unroll
  for (int part = 0; part < 8; ++part) {
    const float y_acc_part = y_parts.load(part * 32 + lane_of_warp);
    y_acc += y_acc_part;
  }
  const bool writes_row_1 = row_exists && warp == 0;
  if (writes_row_1) y.store(row, y_acc);
}
