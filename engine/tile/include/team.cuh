// Blocks of one launch that hand sums to each other through global memory of that launch.
#pragma once

#include "global.cuh"
#include "types.cuh"

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
