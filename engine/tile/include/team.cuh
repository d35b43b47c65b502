// Counters in global memory of a launch: numbers that its threads take, and sums that its blocks hand to each other.
#pragma once

#include "global.cuh"
#include "types.cuh"

// What a counter held, which is one more from now on: threads that take numbers from one counter get different ones.
__device__ __forceinline__ int take_number(const Global<int>& counters, i64 index) {
    return atomicAdd(counters.base + index, 1);
}

// Whether this block is the last of the TEAM blocks that come to a counter, which begins as 0; then it sees what the
// others stored before, and the counter is 0 again.  All threads of the block take part.  (CUDA programming guide,
// memory fence functions.)
template <int TEAM>
__device__ __forceinline__ bool is_last_of(const Global<int>& counters, i64 index) {
    __threadfence();  // every thread: its own stores are seen before the counter moves
    __syncthreads();
    const bool last = threadIdx.x == 0 && atomicAdd(counters.base + index, 1) == TEAM - 1;
    if (last) counters.store(index, 0);
    if (!__syncthreads_or(last)) return false;
    __threadfence();  // and no load that follows is older than the counter
    return true;
}

// All blocks of the launch meet, for the `number`th of `of` times: what any of them stored before, all see afterwards.
// All must run at once.  The counter is zero again at the end; no other meetings may use it in the same launch.
__device__ __forceinline__ void grid_barrier(const Global<int>& counters, i64 index, int number, int of) {
    __threadfence();  // every thread: its own stores are seen before the counter moves
    __syncthreads();
    if (threadIdx.x == 0) {
        int* const counter = counters.base + index;
        const int blocks = int(gridDim.x);
        atomicAdd(counter, 1);
        while (*static_cast<volatile int*>(counter) < number * blocks) __nanosleep(32);
        // Who comes last a second time knows that nobody waits any more.
        if (number == of && atomicAdd(counter, 1) == (of + 1) * blocks - 1) counters.store(index, 0);
    }
    __syncthreads();
    __threadfence();  // and no load that follows is older than the counter
}
