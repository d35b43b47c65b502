// matmul_0: matmul
// S0[i < 20, j < 24, k < 32]: y[i, j] = sum(k) (left[i, k] * right[k, j])
#include "loom.cuh"

enum : int {
  ROWS = 20,
  COLUMNS = 24,
  DEPTH = 32,
  TILE_ROWS = 16,
  TILE_COLUMNS = 32,
  TILE_DEPTH = 16,
  OWNED = 16,
  STAGES = 2,
  BLOCKS = 2,
  THREADS = 32,
  SHARED_BYTES = 7168,
};
static_assert(THREADS * OWNED == TILE_ROWS * TILE_COLUMNS, "the threads own the tile exactly");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
matmul_0(const float* __restrict__ left_, const float* __restrict__ right_, float* __restrict__ y_)
{
  const Global<const float> left(left_, 640);  // 20 x 32
  const Global<const float> right(right_, 768);  // 32 x 24
  const Global<float> y(y_, 480);  // 20 x 24
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> left_tile(shared_memory, 640);  // bytes 0 to 2559
  const Shared<float> right_tile(shared_memory + 2560, 1152);  // bytes 2560 to 7167
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int thread_row = (thread / 16) * 2 + (thread % 2);
  const int thread_column = (thread % 16) / 2;
  float acc[4][4];
  #pragma unroll
  for (int n0 = 0; n0 < 4; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 4; ++n1)
      acc[n0][n1] = 0.0f;
  // 2 stages: cp.async fills tile t + 1 while tile t is used
  #pragma unroll
  for (int left_share = 0; left_share < 2; ++left_share) {
    const int left_chunk = left_share * 32 + thread;
    const int left_outer = left_chunk / 4;
    const int left_inner = (left_chunk % 4) * 4;
    const int left_free = block * 16 + left_outer;
    const int left_depth = left_inner;
    const bool left_inside_1 = left_free < 20;
    async_copy<16>(left_tile, left_outer * 20 + left_inner, left, left_free * 32 + left_depth, left_inside_1 ? 4 : 0);
  }
  #pragma unroll
  for (int right_share = 0; right_share < 4; ++right_share) {
    const int right_chunk = right_share * 32 + thread;
    const int right_outer = right_chunk / 8;
    const int right_inner = (right_chunk % 8) * 4;
    const int right_depth = right_outer;
    const bool right_inside_1 = right_inner < 21;
    async_copy<16>(right_tile, right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
  }
  async_commit();
  for (int tile = 0; tile < 2; ++tile) {
    async_wait<0>();
    barrier();
    if (tile == 0) {
      #pragma unroll
      for (int left_share = 0; left_share < 2; ++left_share) {
        const int left_chunk = left_share * 32 + thread;
        const int left_outer = left_chunk / 4;
        const int left_inner = (left_chunk % 4) * 4;
        const int left_free = block * 16 + left_outer;
        const int left_depth = tile * 16 + left_inner + 16;
        const bool left_inside_1 = left_free < 20;
        async_copy<16>(left_tile, tile * 320 + left_outer * 20 + left_inner + 320, left, left_free * 32 + left_depth, left_inside_1 ? 4 : 0);
      }
      #pragma unroll
      for (int right_share = 0; right_share < 4; ++right_share) {
        const int right_chunk = right_share * 32 + thread;
        const int right_outer = right_chunk / 8;
        const int right_inner = (right_chunk % 8) * 4;
        const int right_depth = tile * 16 + right_outer + 16;
        const bool right_inside_1 = right_inner < 21;
        async_copy<16>(right_tile, tile * 576 + right_outer * 36 + right_inner + 576, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
      }
    }
    async_commit();
    #pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      Pack<float, 4> left_part[4];
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        left_part[r] = left_tile.load<4>((tile % 2) * 320 + r * 80 + thread_row * 20 + depth * 4);
      }
      Pack<float, 4> right_part[4][1];
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        right_part[q][0] = right_tile.load<4>((tile % 2) * 576 + depth * 144 + q * 36 + thread_column * 4);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
          #pragma unroll
          for (int s = 0; s < 4; ++s) {
            acc[r][s] += (left_part[r][q] * right_part[q][0][s]);
          }
        }
      }
    }
  }
  async_wait<0>();
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = block * 16 + r * 4 + thread_row;
    const int column = thread_column * 4;
    const bool inside = row < 20 && column < 21;
    Pack<float, 4> y_value;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      y_value[v] = acc[r][v];
    }
    if (inside) y.store<4>(row * 24 + column, y_value);
  }
}
