// mul_0: mul
// S0[i < 16, j < 5, k < 5]: y[i, j, k] = (x[i, j, k] * s_2[i])
#include "loom.cuh"

enum : int {
  ELEMENTS = 400,
  BLOCK_ELEMENTS = 256,
  STEPS = 1,
  VECTOR = 4,
  BLOCKS = 2,
  THREADS = 64,
};
static_assert(BLOCKS * BLOCK_ELEMENTS >= ELEMENTS, "every element has a block");
static_assert(STEPS * THREADS * VECTOR >= BLOCK_ELEMENTS, "every element of a block has a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
mul_0(const float* __restrict__ x_, const float* __restrict__ s_2_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 400);  // 16 x 5 x 5
  const Global<const float> s_2(s_2_, 16);  // 16
  const Global<float> y(y_, 400);  // 16 x 5 x 5
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int element = block * 256 + thread * 4;
  const bool inside = element < 400;
  if (inside) {
    const Pack<float, 4> x_value = x.load<4>(element);
    float s_2_value[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      s_2_value[v] = s_2.load(((element + v) / 5) / 5);
    }
    Pack<float, 4> y_value;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      y_value[v] = (x_value[v] * s_2_value[v]);
    }
    y.store<4>(element, y_value);
  }
}
