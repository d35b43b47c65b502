// y = softmax of each of 10 rows of 50 halves; one warp a row, two elements a lane, four rows a block.
#include "loom.cuh"

constexpr int ROWS = 10;
constexpr int COLUMNS = 50;

extern "C" __global__ void __launch_bounds__(128)
warp_softmax(const f16* __restrict__ x_, f16* __restrict__ y_)
{
  const Global<const f16> x(x_, ROWS * COLUMNS);
  const Global<f16> y(y_, ROWS * COLUMNS);
  const int lane = int(threadIdx.x) % 32;
  const int row = int(blockIdx.x) * 4 + int(threadIdx.x) / 32;
  float value[2];
  float largest = Max<float>::identity();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int column = lane + 32 * i;
    value[i] = row < ROWS && column < COLUMNS ? to_float(x.load(row * COLUMNS + column)) : NEG_INF;
    largest = fn_max(largest, value[i]);
  }
  largest = warp_reduce<Max>(largest);
  float total = Sum<float>::identity();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    value[i] = row < ROWS ? fn_exp(value[i] - largest) : 0.0f;
    total += value[i];
  }
  total = warp_reduce<Sum<float>>(total);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int column = lane + 32 * i;
    if (row < ROWS && column < COLUMNS) y.store(row * COLUMNS + column, to_f16(value[i] / total));
  }
}
