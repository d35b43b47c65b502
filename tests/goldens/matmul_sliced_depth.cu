// matmul_0: matmul
// S0[i < 20, j < 24, k < 320]: y[i, j] = sum(k) (left[i, k] * right[k, j])
#include "loom.cuh"

enum : int {
  ROWS = 20,
  COLUMNS = 24,
  DEPTH = 320,
  TILE_ROWS = 16,
  TILE_COLUMNS = 32,
  TILE_DEPTH = 64,
  SLICES = 4,
  OWNED = 16,
  STAGES = 3,
  BLOCKS = 2,
  THREADS = 128,
  SHARED_BYTES = 40704,
};
static_assert(THREADS * OWNED == SLICES * TILE_ROWS * TILE_COLUMNS, "the threads own the tile exactly");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
matmul_0(const float* __restrict__ left_, const float* __restrict__ right_, float* __restrict__ y_)
{
  const Global<const float> left(left_, 6400);  // 20 x 320
  const Global<const float> right(right_, 7680);  // 320 x 24
  const Global<float> y(y_, 480);  // 20 x 24
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> left_tile(shared_memory, 3264);  // bytes 0 to 13055
  const Shared<float> right_tile(shared_memory + 13056, 6912);  // bytes 13056 to 40703
  const Shared<float> slice_sums(shared_memory, 2048);  // bytes 0 to 8191
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int slice = thread / 32;
  const int slice_thread = thread % 32;
  const int thread_row = (slice_thread / 16) * 2 + (slice_thread % 2);
  const int thread_column = (slice_thread % 16) / 2;
  float acc[4][4];
  #pragma unroll
  for (int n0 = 0; n0 < 4; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 4; ++n1)
      acc[n0][n1] = 0.0f;
  // 3 stages: cp.async fills tile t + 2 while tile t is used
  #pragma unroll
  for (int ahead = 0; ahead < 2; ++ahead) {
    #pragma unroll
    for (int left_share = 0; left_share < 2; ++left_share) {
      const int left_chunk = left_share * 128 + thread;
      const int left_outer = left_chunk / 16;
      const int left_inner = (left_chunk % 16) * 4;
      const int left_free = block * 16 + left_outer;
      const int left_depth = ahead * 64 + left_inner;
      const bool left_inside_1 = left_free < 20;
      async_copy<16>(left_tile, ahead * 1088 + left_outer * 68 + left_inner, left, left_free * 320 + left_depth, left_inside_1 ? 4 : 0);
    }
    #pragma unroll
    for (int right_share = 0; right_share < 4; ++right_share) {
      const int right_chunk = right_share * 128 + thread;
      const int right_outer = right_chunk / 8;
      const int right_inner = (right_chunk % 8) * 4;
      const int right_depth = ahead * 64 + right_outer;
      const bool right_inside_1 = right_inner < 21;
      async_copy<16>(right_tile, ahead * 2304 + right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
    }
    async_commit();
  }
  for (int tile = 0; tile < 5; ++tile) {
    async_wait<1>();
    barrier();
    if (tile < 3) {
      #pragma unroll
      for (int left_share = 0; left_share < 2; ++left_share) {
        const int left_chunk = left_share * 128 + thread;
        const int left_outer = left_chunk / 16;
        const int left_inner = (left_chunk % 16) * 4;
        const int left_free = block * 16 + left_outer;
        const int left_depth = tile * 64 + left_inner + 128;
        const bool left_inside_1 = left_free < 20;
        async_copy<16>(left_tile, ((tile + 2) % 3) * 1088 + left_outer * 68 + left_inner, left, left_free * 320 + left_depth, left_inside_1 ? 4 : 0);
      }
      #pragma unroll
      for (int right_share = 0; right_share < 4; ++right_share) {
        const int right_chunk = right_share * 128 + thread;
        const int right_outer = right_chunk / 8;
        const int right_inner = (right_chunk % 8) * 4;
        const int right_depth = tile * 64 + right_outer + 128;
        const bool right_inside_1 = right_inner < 21;
        async_copy<16>(right_tile, ((tile + 2) % 3) * 2304 + right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
      }
    }
    async_commit();
    #pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      Pack<float, 4> left_part[4];
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        left_part[r] = left_tile.load<4>((tile % 3) * 1088 + r * 272 + thread_row * 68 + slice * 16 + depth * 4);
      }
      Pack<float, 4> right_part[4][1];
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        right_part[q][0] = right_tile.load<4>((tile % 3) * 2304 + slice * 576 + depth * 144 + q * 36 + thread_column * 4);
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
  barrier();
  // sums of 4 slices of the depth, added in order: each finishes some rows
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    Pack<float, 4> own_sums;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      own_sums[v] = acc[r][v];
    }
    slice_sums.store<4>(slice * 512 + r * 128 + slice_thread * 4, own_sums);
  }
  barrier();
  float total[1][4];
  #pragma unroll
  for (int n0 = 0; n0 < 1; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 4; ++n1)
      total[n0][n1] = 0.0f;
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const Pack<float, 4> slice_part = slice_sums.load<4>(q * 512 + slice * 128 + slice_thread * 4);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      total[0][v] += slice_part[v];
    }
  }
  const int row = block * 16 + slice * 4 + thread_row;
  const int column = thread_column * 4;
  const bool inside = row < 20 && column < 21;
  Pack<float, 4> y_value;
  #pragma unroll
  for (int v = 0; v < 4; ++v) {
    y_value[v] = total[0][v];
  }
  if (inside) y.store<4>(row * 24 + column, y_value);
}
