// z = x + y for 1000 elements, four a thread, 128 threads a block; the last block is not full.
#include "loom.cuh"

constexpr int ELEMENTS = 1000;
constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(128)
vector_add(const float* __restrict__ x_, const float* __restrict__ y_, float* __restrict__ z_)
{
  const Global<const float> x(x_, ELEMENTS);
  const Global<const float> y(y_, ELEMENTS);
  const Global<float> z(z_, ELEMENTS);
  const int first = (int(blockIdx.x) * THREADS + int(threadIdx.x)) * 4;
  if (first < ELEMENTS) {
    const Pack<float, 4> a = x.load<4>(first);
    const Pack<float, 4> b = y.load<4>(first);
    Pack<float, 4> sum;
#pragma unroll
    for (int v = 0; v < 4; ++v) sum[v] = a[v] + b[v];
    z.store<4>(first, sum);
  }
}
