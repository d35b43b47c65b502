// matmul_0: matmul
// S0[i < 20, j < 24, k < 640]: y[i, j] = sum(k) (left[i, k] * right[k, j])
#include "loom.cuh"

enum : int {
  ROWS = 20,
  COLUMNS = 24,
  DEPTH = 640,
  TILE_ROWS = 32,
  TILE_COLUMNS = 32,
  TILE_DEPTH = 16,
  PARTS = 8,
  OWNED = 8,
  STAGES = 2,
  BLOCKS = 8,
  THREADS = 128,
  SHARED_BYTES = 9728,
};
static_assert(THREADS * OWNED == TILE_ROWS * TILE_COLUMNS, "the threads own the tile exactly");

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_0(const float* __restrict__ left_, const float* __restrict__ right_, float* __restrict__ y_, float* parts_, int* arrivals_)
{
  const Global<const float> left(left_, 12800);  // 20 x 640
  const Global<const float> right(right_, 15360);  // 640 x 24
  const Global<float> y(y_, 480);  // 20 x 24
  const Global<float> parts(parts_, 8192);  // 8 x 1 x 1024, memory of this launch alone
  const Global<int> arrivals(arrivals_, 1);  // 1, memory of this launch alone, zeros before and after
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> left_tile(shared_memory, 1280);  // bytes 0 to 5119
  const Shared<float> right_tile(shared_memory + 5120, 1152);  // bytes 5120 to 9727
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int warp = thread / 32;
  const int lane = thread % 32;
  const int thread_row = warp * 4 + (lane / 16) * 2 + (lane % 2);
  const int thread_column = (lane % 16) / 2;
  float acc[2][4];
  #pragma unroll
  for (int n0 = 0; n0 < 2; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 4; ++n1)
      acc[n0][n1] = 0.0f;
  // 2 stages: cp.async fills tile t + 1 while tile t is used
  const int left_outer = thread / 4;
  const int left_inner = (thread % 4) * 4;
  const int left_depth = block * 80 + left_inner;
  const bool left_inside_1 = left_outer < 20;
  async_copy<16>(left_tile, left_outer * 20 + left_inner, left, left_outer * 640 + left_depth, left_inside_1 ? 4 : 0);
  const int right_outer = thread / 8;
  const int right_inner = (thread % 8) * 4;
  const int right_depth = block * 80 + right_outer;
  const bool right_inside_1 = right_inner < 21;
  async_copy<16>(right_tile, right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
  async_commit();
  for (int tile = 0; tile < 5; ++tile) {
    async_wait<0>();
    barrier();
    if (tile < 4) {
      const int left_outer = thread / 4;
      const int left_inner = (thread % 4) * 4;
      const int left_depth = block * 80 + tile * 16 + left_inner + 16;
      const bool left_inside_1 = left_outer < 20;
      async_copy<16>(left_tile, ((tile + 1) % 2) * 640 + left_outer * 20 + left_inner, left, left_outer * 640 + left_depth, left_inside_1 ? 4 : 0);
      const int right_outer = thread / 8;
      const int right_inner = (thread % 8) * 4;
      const int right_depth = block * 80 + tile * 16 + right_outer + 16;
      const bool right_inside_1 = right_inner < 21;
      async_copy<16>(right_tile, ((tile + 1) % 2) * 576 + right_outer * 36 + right_inner, right, right_depth * 24 + right_inner, right_inside_1 ? 4 : 0);
    }
    async_commit();
    #pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      Pack<float, 4> left_part[2];
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        left_part[r] = left_tile.load<4>((tile % 2) * 640 + r * 320 + thread_row * 20 + depth * 4);
      }
      Pack<float, 4> right_part[4][1];
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        right_part[q][0] = right_tile.load<4>((tile % 2) * 576 + depth * 144 + q * 36 + thread_column * 4);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          #pragma unroll
          for (int s = 0; s < 4; ++s) {
            acc[r][s] += (left_part[r][q] * right_part[q][0][s]);
          }
        }
      }
    }
  }
  async_wait<0>();
  // sums of 8 blocks that share the depth: each leaves its own, the last adds all
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    Pack<float, 4> own_part;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      own_part[v] = acc[r][v];
    }
    parts.store<4>(block * 1024 + r * 512 + thread * 4, own_part);
  }
  if (!is_last_of<8>(arrivals, 0)) return;
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      acc[r][v] = 0.0f;
    }
  }
  for (int q = 0; q < 8; ++q) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Pack<float, 4> other_part = parts.load<4>(q * 1024 + r * 512 + thread * 4);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        acc[r][v] += other_part[v];
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = r * 16 + thread_row;
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
