// matmul_0: matmul + add
// S0[i < 40, j < 24, k < 64]: p_2[i, j] = sum(k) (float32(left[i, k]) * float32(right[k, j]))
// S1[i < 40, j < 24]: y[i, j] = (p_2[i, j] + bias[j])
#include "loom.cuh"

enum : int {
  ROWS = 40,
  COLUMNS = 24,
  DEPTH = 64,
  TILE_ROWS = 32,
  TILE_COLUMNS = 32,
  TILE_DEPTH = 32,
  SLICES = 1,
  WARP_ROWS = 16,
  WARP_COLUMNS = 16,
  MMA_DEPTH = 16,
  STAGES = 2,
  REGISTER_STAGES = 2,
  BLOCKS = 2,
  THREADS = 128,
  SHARED_BYTES = 8192,
};
static_assert(THREADS / 32 * WARP_ROWS * WARP_COLUMNS == SLICES * TILE_ROWS * TILE_COLUMNS, "the warps of a slice own the tile exactly");
static_assert(TILE_DEPTH % (SLICES * MMA_DEPTH) == 0, "a slice is whole instructions deep");

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_0(const f16* __restrict__ left_, const f16* __restrict__ right_, const f16* __restrict__ bias_, f16* __restrict__ y_)
{
  const Global<const f16> left(left_, 2560);  // 40 x 64
  const Global<const f16> right(right_, 1536);  // 64 x 24
  const Global<const f16> bias(bias_, 24);  // 24
  const Global<f16> y(y_, 960);  // 40 x 24
  LOOM_SHARED(SHARED_BYTES);
  const Shared<f16> left_tile(shared_memory, 2048);  // bytes 0 to 4095
  const Shared<f16> right_tile(shared_memory + 4096, 2048);  // bytes 4096 to 8191
  const Shared<f16> results(shared_memory, 1024);  // bytes 0 to 2047
  const int block = blockIdx.x;
  const int thread = threadIdx.x;

  // where a warp's part of the tile begins, and what each lane reads of it first
  const int lane = thread % 32;
  const int warp_row = ((thread / 32) / 2) * 16;
  const int warp_column = ((thread / 32) % 2) * 16;
  const int left_lane = ((lane / 8) % 2) * 256 + (lane % 8) * 32 + warp_row * 32 + ((lane / 8) / 2) * 8;
  const int right_lane = ((lane / 8) % 2) * 256 + (lane % 8) * 32 + ((lane / 8) / 2) * 8 + warp_column;
  float acc[1][2][2][2];
  #pragma unroll
  for (int n0 = 0; n0 < 1; ++n0)
    #pragma unroll
    for (int n1 = 0; n1 < 2; ++n1)
      #pragma unroll
      for (int n2 = 0; n2 < 2; ++n2)
        #pragma unroll
        for (int n3 = 0; n3 < 2; ++n3)
          acc[n0][n1][n2][n3] = 0.0f;
  // 2 stages: cp.async fills tile t + 1 while tile t is used
  const int left_outer = thread / 4;
  const int left_inner = (thread % 4) * 8;
  const int left_free = block * 32 + left_outer;
  const int left_depth = left_inner;
  const bool left_inside_1 = left_free < 40;
  async_copy<16>(left_tile, swizzle<64, f16>(left_outer * 32 + left_inner), left, left_free * 64 + left_depth, left_inside_1 ? 8 : 0);
  const int right_outer = thread / 4;
  const int right_inner = (thread % 4) * 8;
  const int right_depth = right_outer;
  const bool right_inside_1 = right_inner < 17;
  async_copy<16>(right_tile, swizzle<64, f16>(right_outer * 32 + right_inner), right, right_depth * 24 + right_inner, right_inside_1 ? 8 : 0);
  async_commit();
  async_wait<0>();
  barrier();
  // 2 sets of registers: step s + 1 is loaded while s is used, on into the next tile
  u32 left_part[2][1][4];
  u32 right_part[2][1][2][2];
  ldmatrix_x4(left_part[0][0], left_tile, swizzle<64, f16>(left_lane));
  ldmatrix_x4_trans(right_part[0][0], right_tile, swizzle<64, f16>(right_lane));
  for (int tile = 0; tile < 2; ++tile) {
    if (tile == 0) {
      const int left_outer = thread / 4;
      const int left_inner = (thread % 4) * 8;
      const int left_free = block * 32 + left_outer;
      const int left_depth = tile * 32 + left_inner + 32;
      const bool left_inside_1 = left_free < 40;
      async_copy<16>(left_tile, tile * 1024 + 1024 + swizzle<64, f16>(left_outer * 32 + left_inner), left, left_free * 64 + left_depth, left_inside_1 ? 8 : 0);
      const int right_outer = thread / 4;
      const int right_inner = (thread % 4) * 8;
      const int right_depth = tile * 32 + right_outer + 32;
      const bool right_inside_1 = right_inner < 17;
      async_copy<16>(right_tile, tile * 1024 + 1024 + swizzle<64, f16>(right_outer * 32 + right_inner), right, right_depth * 24 + right_inner, right_inside_1 ? 8 : 0);
    }
    async_commit();
    // fragments of 16 depths from the tiles, then every product of two
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
      if ((step + 1) % 2 == 0) {
        async_wait<0>();
        barrier();
      }
      ldmatrix_x4(left_part[(step + 1) % 2][0], left_tile, (((step + 1) / 2 + tile) % 2) * 1024 + swizzle<64, f16>(((step + 1) % 2) * 16 + left_lane));
      ldmatrix_x4_trans(right_part[(step + 1) % 2][0], right_tile, (((step + 1) / 2 + tile) % 2) * 1024 + ((step + 1) % 2) * 512 + swizzle<64, f16>(right_lane));
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        mma_m16n8k16_f16(acc[0][h], left_part[step][0], right_part[step][0][h]);
      }
    }
  }
  async_wait<0>();
  barrier();
  // sums go through shared memory, 16 rows at a time, so that a lane stores 8
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
      float pair[2];
      #pragma unroll
      for (int v = 0; v < 2; ++v) {
        pair[v] = acc[0][s][h][v];
      }
      {
        Pack<f16, 2> results_pack;
        #pragma unroll
        for (int v = 0; v < 2; ++v) results_pack[v] = to_f16(pair[v]);
        results.store<2>((thread / 32) * 256 + h * 128 + swizzle<32, f16>((lane / 4) * 16 + s * 8 + (lane % 4) * 2), results_pack);
      }
    }
  }
  warp_sync();
  float sums[1][8];
  const Pack<f16, 8> sums_pack = results.load<8>((thread / 32) * 256 + swizzle<32, f16>((lane / 2) * 16 + (lane % 2) * 8));
  #pragma unroll
  for (int v = 0; v < 8; ++v) sums[0][v] = to_float(sums_pack[v]);
  const int row = block * 32 + lane / 2 + warp_row;
  const int column = (lane % 2) * 8 + warp_column;
  const bool inside = row < 40 && column < 17;
  float bias_value[8];
  const Pack<f16, 8> bias_value_pack = inside ? bias.load<8>(column) : Pack<f16, 8>{};
  #pragma unroll
  for (int v = 0; v < 8; ++v) bias_value[v] = to_float(bias_value_pack[v]);
  float y_value[8];
  #pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float p_2 = sums[0][v];
    y_value[v] = (p_2 + bias_value[v]);
  }
  {
    Pack<f16, 8> y_pack;
    #pragma unroll
    for (int v = 0; v < 8; ++v) y_pack[v] = to_f16(y_value[v]);
    if (inside) y.store<8>(row * 24 + column, y_pack);
  }
  warp_sync();
}
