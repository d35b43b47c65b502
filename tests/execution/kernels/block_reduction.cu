// y[r] = sum of the 200 elements of row r; one block of 256 threads a row, a tree in shared memory.
#include "loom.cuh"

constexpr int ROWS = 6;
constexpr int COLUMNS = 200;
constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(256)
block_reduction(const float* __restrict__ x_, float* __restrict__ y_)
{
  const Global<const float> x(x_, ROWS * COLUMNS);
  const Global<float> y(y_, ROWS);
  LOOM_SHARED(THREADS * 4);
  const Shared<float> partial(shared_memory, THREADS);
  const int row = int(blockIdx.x);
  const int column = int(threadIdx.x);
  float value = Sum<float>::identity();
  if (column < COLUMNS) value = x.load(row * COLUMNS + column);
  partial.store(column, value);
  barrier();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (column < half) partial.store(column, partial.load(column) + partial.load(column + half));
    barrier();  // of the tree
  }
  if (column == 0) y.store(row, partial.load(0));
}
