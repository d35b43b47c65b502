// neg_0: neg
// S0[i < 40, j < 20]: y[i, j] = neg(x[j, i])
#include "loom.cuh"

enum : int {
  TILE = 32,
  ACROSS = 40,
  ALONG = 20,
  BLOCKS = 2,
  THREADS = 256,
  SHARED_BYTES = 4224,
};
static_assert(THREADS == TILE * 8, "a thread moves 4 rows of the tile");

extern "C" __global__ void __launch_bounds__(THREADS)
neg_0(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 800);  // 20 x 40
  const Global<float> y(y_, 800);  // 40 x 20
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> x_tile(shared_memory, 1056);  // bytes 0 to 4223
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int lane = thread % 32;
  const int warp = thread / 32;
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    const int row = step * 8 + warp;
    const int i_read = block * 32 + lane;
    const bool inside_1 = i_read < 40 && row < 20;
    const float x_element = inside_1 ? x.load(row * 40 + i_read) : 0.0f;
    x_tile.store(row * 33 + lane, x_element);
  }
  barrier();
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    const int row = step * 8 + warp;
    const int i = block * 32 + row;
    const bool inside_2 = i < 40 && lane < 20;
    const float x_turned = x_tile.load(lane * 33 + row);
    const float y_value = fn_neg(x_turned);
    if (inside_2) y.store(i * 20 + lane, y_value);
  }
}
