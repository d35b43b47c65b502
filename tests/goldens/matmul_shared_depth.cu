// matmul_0: matmul
// S0[i < 20, j < 24, k < 1280]: y[i, j] = sum(k) (left[i, k] * right[k, j])
#include "loom.cuh"

enum : int {
  ROWS = 20,
  COLUMNS = 24,
  DEPTH = 1280,
  TILE_ROWS = 16,
  TILE_COLUMNS = 32,
  TILE_DEPTH = 16,
  PARTS = 16,
  OWNED = 16,
  STAGES = 3,
  BLOCKS = 32,
  THREADS = 32,
  SHARED_BYTES = 10752,
};
static_assert(THREADS * OWNED == TILE_ROWS * TILE_COLUMNS, "the threads own the tile exactly");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
matmul_0(const float* __restrict__ left_, const float* __restrict__ right_, float* __restrict__ y_, float* parts_, int* arrivals_)
{
  const Global<const float> left(left_, 25600);  // 20 x 1280
  const Global<const float> right(right_, 30720);  // 1280 x 24
  const Global<float> y(y_, 480);  // 20 x 24
  const Global<float> parts(parts_, 16384);  // 16 x 2 x 512, memory of this launch alone
  const Global<int> arrivals(arrivals_, 2);  // 2, memory of this launch alone, zeros before and after
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> left_tile(shared_memory, 960);  // bytes 0 to 3839
  const Shared<float> right_tile(shared_memory + 3840, 1728);  // bytes 3840 to 10751
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int part = block / 2;
  const int tile_number = block % 2;
  const int thread_row = (thread / 16) * 2 + (thread % 2);
  const int thread_column = (thread % 16) / 2;
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
      const int left_chunk = left_share * 32 + thread;
      const int left_outer = left_chunk / 4;
      const int left_inner = (left_chunk % 4) * 4;
      const int left_free = tile_number * 16 + left_outer;
      const int left_depth = part * 80 + ahead * 16 + left_inner;
      const bool left_inside_1 = left_free < 20;
      async_copy<16>(left_tile, ahead * 320 + left_outer * 20 + left_inner, left, left_free * 1280 + left_depth, left_inside_1 ? 4 : 0);
    }
    #pragma unroll
    for (int right_share = 0; right_share < 4; ++right_share) {
      const int right_chunk = right_share * 32 + thread;
      const int right_outer = right_chunk / 8;
      const int right_inner = (right_chunk % 8) * 4;
      const int right_depth = part * 80 + ahead * 16 + right_outer;
      const bool right_inside_1 = right_inner < 21;
      async_copy<16>(right_tile, ahead * 576 + right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
    }
    async_commit();
  }
  for (int tile = 0; tile < 5; ++tile) {
    async_wait<1>();
    barrier();
    if (tile < 3) {
      #pragma unroll
      for (int left_share = 0; left_share < 2; ++left_share) {
        const int left_chunk = left_share * 32 + thread;
        const int left_outer = left_chunk / 4;
        const int left_inner = (left_chunk % 4) * 4;
        const int left_free = tile_number * 16 + left_outer;
        const int left_depth = part * 80 + tile * 16 + left_inner + 32;
        const bool left_inside_1 = left_free < 20;
        async_copy<16>(left_tile, ((tile + 2) % 3) * 320 + left_outer * 20 + left_inner, left, left_free * 1280 + left_depth, left_inside_1 ? 4 : 0);
      }
      #pragma unroll
      for (int right_share = 0; right_share < 4; ++right_share) {
        const int right_chunk = right_share * 32 + thread;
        const int right_outer = right_chunk / 8;
        const int right_inner = (right_chunk % 8) * 4;
        const int right_depth = part * 80 + tile * 16 + right_outer + 32;
        const bool right_inside_1 = right_inner < 21;
        async_copy<16>(right_tile, ((tile + 2) % 3) * 576 + right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
      }
    }
    async_commit();
    #pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      Pack<float, 4> left_part[4];
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        left_part[r] = left_tile.load<4>((tile % 3) * 320 + r * 80 + thread_row * 20 + depth * 4);
      }
      Pack<float, 4> right_part[4][1];
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        right_part[q][0] = right_tile.load<4>((tile % 3) * 576 + depth * 144 + q * 36 + thread_column * 4);
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
  // sums of 16 blocks that share the depth: each leaves its own, the last adds all
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    Pack<float, 4> own_part;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      own_part[v] = acc[r][v];
    }
    parts.store<4>(part * 1024 + tile_number * 512 + r * 128 + thread * 4, own_part);
  }
  if (!is_last_of<16>(arrivals, tile_number)) return;
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      acc[r][v] = 0.0f;
    }
  }
  for (int q = 0; q < 16; ++q) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      const Pack<float, 4> other_part = parts.load<4>(q * 1024 + tile_number * 512 + r * 128 + thread * 4);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        acc[r][v] += other_part[v];
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = tile_number * 16 + r * 4 + thread_row;
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
