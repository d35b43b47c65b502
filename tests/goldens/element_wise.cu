// add_0: add + relu
// S0[i < 5, j < 12]: s_2[i, j] = (x[i, j] + b_2[j])
// S1[i < 5, j < 12]: y[i, j] = max(s_2[i, j], 0)
#include "loom.cuh"

enum : int {
  ELEMENTS = 60,
  BLOCK_ELEMENTS = 256,
  STEPS = 1,
  VECTOR = 4,
  BLOCKS = 1,
  THREADS = 64,
};
static_assert(BLOCKS * BLOCK_ELEMENTS >= ELEMENTS, "every element has a block");
static_assert(STEPS * THREADS * VECTOR >= BLOCK_ELEMENTS, "every element of a block has a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
add_0(const float* __restrict__ x_, const float* __restrict__ b_2_, float* __restrict__ y_)
{
  const Global<const float> x(x_, 60);  // 5 x 12
  const Global<const float> b_2(b_2_, 12);  // 12
  const Global<float> y(y_, 60);  // 5 x 12
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int element = block * 256 + thread * 4;
  const bool inside = element < 60;
  if (inside) {
    const int i = element / 12;
    const int j = element % 12;
    const Pack<float, 4> x_value = x.load<4>(i * 12 + j);
    const Pack<float, 4> b_2_value = b_2.load<4>(j);
    Pack<float, 4> y_value;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float s_2 = (x_value[v] + b_2_value[v]);
      y_value[v] = fn_max(s_2, 0.0f);
    }
    y.store<4>(i * 12 + j, y_value);
  }
}
