// softmax_0: softmax
// S0[i < 6, j < 40]: y_max[i] = max(j) x[i, j]
// S1[i < 6, j < 40]: y_exp[i, j] = exp((float32(x[i, j]) - float32(y_max[i])))
// S2[i < 6, j < 40]: y_sum[i] = sum(j) y_exp[i, j]
// S3[i < 6, j < 40]: y[i, j] = float16((y_exp[i, j] / y_sum[i]))
#include "loom.cuh"

enum : int {
  ROWS = 6,
  COLUMNS = 40,
  SHARERS = 8,
  CHUNKS = 1,
  VECTOR = 8,
  BLOCKS = 2,
  THREADS = 32,
};
static_assert(CHUNKS * SHARERS * VECTOR >= COLUMNS, "the sharers of a row reach all of it");
static_assert(BLOCKS * (THREADS / SHARERS) >= ROWS, "every row has a block");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
softmax_0(const f16* __restrict__ x_, f16* __restrict__ y_)
{
  const Global<const f16> x(x_, 240);  // 6 x 40
  const Global<f16> y(y_, 240);  // 6 x 40
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int lane = thread % 8;
  const int row_of_thread = block * 4 + thread / 8;
  const bool row_exists = row_of_thread < 6;
  const int row = fn_min(row_of_thread, 5);
  float y_max_acc = NEG_INF;
  const int column = lane * 8;
  const bool inside = column < 33;
  float x_value[8];
  const Pack<f16, 8> x_value_pack = inside ? x.load<8>(row * 40 + column) : Pack<f16, 8>{};
  #pragma unroll
  for (int v = 0; v < 8; ++v) x_value[v] = to_float(x_value_pack[v]);
  #pragma unroll
  for (int v = 0; v < 8; ++v) {
    y_max_acc = Max<float>::apply(y_max_acc, (inside ? x_value[v] : NEG_INF));
  }
  y_max_acc = warp_reduce<Max, 8>(y_max_acc);
  float y_sum_acc = 0.0f;
  float y_exp[8];
  #pragma unroll
  for (int v = 0; v < 8; ++v) {
    y_exp[v] = fn_exp_approx((x_value[v] - y_max_acc));
    y_sum_acc += (inside ? y_exp[v] : 0.0f);
  }
  y_sum_acc = warp_reduce<Sum, 8>(y_sum_acc);
  const bool writes = inside && row_exists;
  float y_value[8];
  #pragma unroll
  for (int v = 0; v < 8; ++v) {
    y_value[v] = fn_div_approx(y_exp[v], y_sum_acc);
  }
  {
    Pack<f16, 8> y_pack;
    #pragma unroll
    for (int v = 0; v < 8; ++v) y_pack[v] = to_f16(y_value[v]);
    if (writes) y.store<8>(row * 40 + column, y_pack);
  }
}
