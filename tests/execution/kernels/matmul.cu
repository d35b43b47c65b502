// c = a * b for a of 60 by 72 and b of 72 by 64: tiles of 32 by 32 by 16, staged with asynchronous copies.
#include "loom.cuh"

constexpr int M = 60, N = 64, K = 72;
constexpr int TILE_M = 32, TILE_N = 32, TILE_K = 16;
constexpr int STAGES = 3;
constexpr int STEPS = (K + TILE_K - 1) / TILE_K;
constexpr int A_ELEMENTS = TILE_M * TILE_K, B_ELEMENTS = TILE_K * TILE_N;

extern "C" __global__ void __launch_bounds__(64)
matmul(const float* __restrict__ a_, const float* __restrict__ b_, float* __restrict__ c_)
{
  const Global<const float> a(a_, M * K);
  const Global<const float> b(b_, K * N);
  const Global<float> c(c_, M * N);
  LOOM_SHARED(STAGES * (A_ELEMENTS + B_ELEMENTS) * 4);
  const Shared<float> a_tile(shared_memory, STAGES * A_ELEMENTS);
  const Shared<float> b_tile(shared_memory + STAGES * A_ELEMENTS * 4, STAGES * B_ELEMENTS);
  const int thread = int(threadIdx.x);
  const int first_m = int(blockIdx.y) * TILE_M, first_n = int(blockIdx.x) * TILE_N;

  const auto fetch = [&](int step) {
    const int stage = step % STAGES;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int vector = i * 64 + thread;
      const int m = vector / 4, k = vector % 4 * 4;
      const bool a_inside = first_m + m < M && step * TILE_K + k < K;
      async_copy<16>(a_tile, stage * A_ELEMENTS + m * TILE_K + k, a, (first_m + m) * K + step * TILE_K + k, a_inside ? 4 : 0);
      const int row = vector / 8, n = vector % 8 * 4;
      const bool b_inside = step * TILE_K + row < K;
      async_copy<16>(b_tile, stage * B_ELEMENTS + row * TILE_N + n, b, (step * TILE_K + row) * N + first_n + n, b_inside ? 4 : 0);
    }
  };

#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) {
    fetch(step);
    async_commit();  // of the prologue
  }
  float sum[4][4] = {};
  const int own_m = thread / 8 * 4, own_n = thread % 8 * 4;
  for (int step = 0; step < STEPS; ++step) {
    async_wait<STAGES - 2>();
    barrier();
    if (step + STAGES - 1 < STEPS) fetch(step + STAGES - 1);
    async_commit();
    const int stage = step % STAGES;
#pragma unroll
    for (int k = 0; k < TILE_K; ++k) {
      const Pack<float, 4> row = b_tile.load<4>(stage * B_ELEMENTS + k * TILE_N + own_n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float left = a_tile.load(stage * A_ELEMENTS + (own_m + i) * TILE_K + k);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += left * row[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = first_m + own_m + i;
    if (m < M) c.store<4>(m * N + first_n + own_n, Pack<float, 4>{{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}});
  }
}
