// pad_0: pad
// S0[i < 64, j < 132]: y[i, j] = (x[j - 1, i] if j - 1 >= 0 and -j + 130 >= 0 else 0)
#include "loom.cuh"

enum : int {
  ELEMENTS = 8448,
  BLOCK_ELEMENTS = 256,
  STEPS = 1,
  VECTOR = 4,
  OWNED = 4,
  BLOCKS = 33,
  THREADS = 64,
};
static_assert(BLOCKS * BLOCK_ELEMENTS >= ELEMENTS, "every element has a block");
static_assert(STEPS * THREADS * OWNED >= BLOCK_ELEMENTS, "every element of a block has a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
pad_0(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 8320);  // 130 x 64
  const Global<float> y(y_, 8448);  // 64 x 132
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int strip = block * 64 + thread;
  const int i_strip = strip / 132;
  const int j = strip % 132;
  const bool inside = j >= 1 && j < 131;
  const Pack<float, 4> x_value = inside ? x.load<4>(j * 64 + i_strip * 4 - 64) : Pack<float, 4>{};
  float y_value[4];
  #pragma unroll
  for (int v = 0; v < 4; ++v) {
    y_value[v] = x_value[v];
  }
  #pragma unroll
  for (int v = 0; v < 4; ++v) {
    y.store(i_strip * 528 + v * 132 + j, y_value[v]);
  }
}
