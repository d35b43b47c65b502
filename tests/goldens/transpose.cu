// neg_0: neg
// S0[i < 40, j < 20]: y[i, j] = neg(x[j, i])
#include "loom.cuh"

enum : int {
  TILE = 32,
  READ = 4,
  WRITE = 4,
  TURNS = 1,
  ACROSS = 40,
  ALONG = 20,
  BLOCKS = 2,
  THREADS = 64,
  SHARED_BYTES = 4208,
};
static_assert(TILE * TILE == TURNS * THREADS * READ * WRITE, "every element of the tile has a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
neg_0(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 800);  // 20 x 40
  const Global<float> y(y_, 800);  // 40 x 20
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> x_tile(shared_memory, 1052);  // bytes 0 to 4207
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int column = (thread % 8) * 4;
  const int first = (thread / 8) * 4;
  Pack<float, 4> x_rows[4];
  #pragma unroll
  for (int x_row = 0; x_row < 4; ++x_row) {
    const int i_read = block * 32 + column;
    const int j_read = first + x_row;
    const bool inside_1 = i_read < 37 && j_read < 20;
    x_rows[x_row] = inside_1 ? x.load<4>(j_read * 40 + i_read) : Pack<float, 4>{};
  }
  Pack<float, 4> x_columns[4];
  turn_rows(x_columns, x_rows);
  #pragma unroll
  for (int x_column = 0; x_column < 4; ++x_column) {
    x_tile.store<4>(column * 32 + x_column * 32 + (column / 4) * 4 + first, x_columns[x_column]);
  }
  barrier();
  const int written = (thread % 8) * 4;
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    const int row = step * 8 + thread / 8;
    const int i = block * 32 + row;
    const bool inside_2 = i < 40 && written < 17;
    const Pack<float, 4> x_turned = x_tile.load<4>(row * 32 + (row / 4) * 4 + written);
    Pack<float, 4> y_value;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      y_value[v] = fn_neg(x_turned[v]);
    }
    if (inside_2) y.store<4>(i * 20 + written, y_value);
  }
}
