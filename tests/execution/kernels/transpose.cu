// y[j][i] = x[i][j] for x of 70 by 50, through a tile of 32 by 32 with one padding column; 8 rows of 32 threads.
#include "loom.cuh"

constexpr int ROWS = 70;
constexpr int COLUMNS = 50;
constexpr int TILE = 32;
constexpr int PITCH = 33;

extern "C" __global__ void __launch_bounds__(256)
transpose(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, ROWS * COLUMNS);
  const Global<float> y(y_, ROWS * COLUMNS);
  LOOM_SHARED(TILE * PITCH * 4);
  const Shared<float> tile(shared_memory, TILE * PITCH);
  const int column = int(threadIdx.x);
  for (int row = int(threadIdx.y); row < TILE; row += 8) {
    const int i = int(blockIdx.y) * TILE + row;
    const int j = int(blockIdx.x) * TILE + column;
    if (i < ROWS && j < COLUMNS) tile.store(row * PITCH + column, x.load(i * COLUMNS + j));
  }
  barrier();
  for (int row = int(threadIdx.y); row < TILE; row += 8) {
    const int j = int(blockIdx.x) * TILE + row;
    const int i = int(blockIdx.y) * TILE + column;
    if (i < ROWS && j < COLUMNS) y.store(j * ROWS + i, tile.load(column * PITCH + row));
  }
}
