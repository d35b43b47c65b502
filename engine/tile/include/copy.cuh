// Asynchronous copies from global to shared memory (cp.async, sm_80 and later).
#pragma once

#include "global.cuh"
#include "shared.cuh"

// Copies `valid_elements` of T and fills the rest of the BYTES with zeros.  With 0 valid elements nothing is read (a
// src-size of 0) and `from_index` may lie anywhere.  16 bytes bypass L1 (.cg); 4 and 8 exist only with .ca.
template <int BYTES, class T>
__device__ __forceinline__ void async_copy(
    Shared<T> to, int to_index, Global<const T> from, i64 from_index, int valid_elements) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
    const u32 target = static_cast<u32>(__cvta_generic_to_shared(to.base + to_index));
    const T* source = from.base + from_index;
    const u32 bytes = static_cast<u32>(valid_elements) * sizeof(T);
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(source), "n"(BYTES), "r"(bytes)
                     : "memory");
    }
}

// Closes this thread's group of the copies issued since the last one.
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the N newest groups of this thread are unfinished.  Other threads see the data after a barrier.
template <int N>
__device__ __forceinline__ void async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
