#include "loom.cuh"

// x[t + 1][i] = x[t][i + 64] / 2 + sum(every 37th of x[t]) / 8 + (x[0][i + 64] + .. + x[t][i + 64]) / 16.
// Two steps are kept: each overwrites the last but one.
constexpr int THREADS = 64;
constexpr int ELEMENTS = 384;
constexpr int STEPS = 5;

extern "C" __global__ void __launch_bounds__(THREADS)
grid_steps(const float* __restrict__ x_, float* __restrict__ y_, float* parts_, int* arrivals_)
{
  LOOM_SHARED(THREADS * 4);
  const Global<const float> x(x_, ELEMENTS);
  const Global<float> y(y_, ELEMENTS);
  const Global<float> parts(parts_, 2 * ELEMENTS);
  const Global<int> arrivals(arrivals_, 1);
  const Shared<float> read_so_far(shared_memory, THREADS);
  const int thread = int(threadIdx.x);
  const int i = int(blockIdx.x) * THREADS + thread;
  parts.store(i, x.load(i));
  read_so_far.store(THREADS - 1 - thread, 0.0f);
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) {
    const int before = step % 2 * ELEMENTS;
    const int after = (step + 1) % 2 * ELEMENTS;
    grid_barrier(arrivals, 0, step + 1, STEPS);  // of a step
    const float other = parts.load(before + (i + THREADS) % ELEMENTS);
    float sum = 0.0f;
    for (int n = 0; n < ELEMENTS; n += 37) sum += parts.load(before + n);
    const float read = read_so_far.load(thread) + other;  // what a thread of the block kept
    barrier();
    read_so_far.store(thread, read);
    const float next = other / 2.0f + sum / 8.0f + read / 16.0f;
    if (step < STEPS - 1) parts.store(after + i, next); else y.store(i, next);
  }
}
