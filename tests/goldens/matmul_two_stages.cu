// matmul_0: matmul
// S0[i < 20, j < 24, k < 40]: y[i, j] = sum(k) (a_2[i, k] * b_2[k, j])
#include "loom.cuh"

constexpr int ROWS = 20;
constexpr int COLUMNS = 24;
constexpr int DEPTH = 40;
constexpr int TILE_ROWS = 32;
constexpr int TILE_COLUMNS = 32;
constexpr int TILE_DEPTH = 16;
constexpr int STAGES = 2;
constexpr int OWNED = 8;
constexpr int BLOCKS = 1;
constexpr int THREADS = 128;
constexpr int SHARED_BYTES = 9728;
static_assert(THREADS * OWNED == TILE_ROWS * TILE_COLUMNS, "the threads own the tile exactly");

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_0(const float* __restrict__ a_2_, const float* __restrict__ b_2_, float* __restrict__ y_)
{
  const Global<const float> a_2(a_2_, 800);  // 20 x 40
  const Global<const float> b_2(b_2_, 960);  // 40 x 24
  const Global<float> y(y_, 480);  // 20 x 24
  LOOM_SHARED(SHARED_BYTES);
  const Shared<float> a_2_tile(shared_memory, 1280);  // bytes 0 to 5119
  const Shared<float> b_2_tile(shared_memory + 5120, 1152);  // bytes 5120 to 9727
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  const int thread_row = thread / 8;
  const int thread_column = thread % 8;
  float acc[2][4];
  #pragma unroll
  for (int n0 = 0; n0 < 2; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 4; ++n1)
      acc[n0][n1] = 0.0f;
  // 2 stages: cp.async fills tile t + 1 while tile t is used
  const int a_2_outer = thread / 4;
  const int a_2_inner = (thread % 4) * 4;
  const bool a_2_inside_1 = a_2_outer < 20;
  async_copy<16>(a_2_tile, a_2_outer * 20 + a_2_inner, a_2, a_2_outer * 40 + a_2_inner, a_2_inside_1 ? 4 : 0);
  const int b_2_outer = thread / 8;
  const int b_2_inner = (thread % 8) * 4;
  const bool b_2_inside_1 = b_2_inner < 21;
  async_copy<16>(b_2_tile, b_2_outer * 36 + b_2_inner, b_2, b_2_outer * 24 + b_2_inner, b_2_inside_1 ? 4 : 0);
  async_commit();
  for (int tile = 0; tile < 3; ++tile) {
    async_wait<0>();
    barrier();
    const int a_2_depth = tile * 16 + a_2_inner + 16;
    const bool a_2_inside_2 = a_2_outer < 20 && a_2_depth < 37;
    async_copy<16>(a_2_tile, ((tile + 1) % 2) * 640 + a_2_outer * 20 + a_2_inner, a_2, a_2_outer * 40 + a_2_depth, a_2_inside_2 ? 4 : 0);
    const int b_2_depth = tile * 16 + b_2_outer + 16;
    const bool b_2_inside_2 = b_2_inner < 21 && b_2_depth < 40;
    async_copy<16>(b_2_tile, ((tile + 1) % 2) * 576 + b_2_outer * 36 + b_2_inner, b_2, b_2_depth * 24 + b_2_inner, b_2_inside_2 ? 4 : 0);
    async_commit();
    #pragma unroll
    for (int depth = 0; depth < 4; ++depth) {
      Pack<float, 4> a_2_part[2];
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        a_2_part[r] = a_2_tile.load<4>((tile % 2) * 640 + r * 320 + thread_row * 20 + depth * 4);
      }
      Pack<float, 4> b_2_part[4][1];
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        b_2_part[q][0] = b_2_tile.load<4>((tile % 2) * 576 + depth * 144 + q * 36 + thread_column * 4);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          #pragma unroll
          for (int s = 0; s < 4; ++s) {
            acc[r][s] += (a_2_part[r][q] * b_2_part[q][0][s]);
          }
        }
      }
    }
  }
  async_wait<0>();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = r * 16 + thread_row;
    const int column = thread_column * 4;
    const bool inside = row < 20 && column < 21;
    Pack<float, 4> y_value;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      y_value[v] = float(acc[r][v]);
    }
    if (inside) y.store<4>(row * 24 + column, y_value);
  }
}
