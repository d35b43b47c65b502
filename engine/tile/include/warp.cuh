// Barriers, and collectives over the 32 lanes of a warp.  All lanes take part: the mask is always full.
#pragma once

#include "reduce.cuh"
#include "types.cuh"

#define LOOM_ALL_LANES 0xffffffffu

__device__ __forceinline__ void barrier() { __syncthreads(); }
__device__ __forceinline__ void warp_sync() { __syncwarp(LOOM_ALL_LANES); }

// The value of lane (own ^ mask).
__device__ __forceinline__ float shuffle_xor(float v, int mask) { return __shfl_xor_sync(LOOM_ALL_LANES, v, mask); }
__device__ __forceinline__ int shuffle_xor(int v, int mask) { return __shfl_xor_sync(LOOM_ALL_LANES, v, mask); }
__device__ __forceinline__ i64 shuffle_xor(i64 v, int mask) { return __shfl_xor_sync(LOOM_ALL_LANES, v, mask); }
__device__ __forceinline__ u32 shuffle_xor(u32 v, int mask) { return __shfl_xor_sync(LOOM_ALL_LANES, v, mask); }
__device__ __forceinline__ u64 shuffle_xor(u64 v, int mask) { return __shfl_xor_sync(LOOM_ALL_LANES, v, mask); }
__device__ __forceinline__ bool8 shuffle_xor(bool8 v, int mask) { return shuffle_xor(int(v), mask) != 0; }
__device__ __forceinline__ f16 shuffle_xor(f16 v, int mask) {
    return f16{static_cast<unsigned short>(shuffle_xor(int(v.bits), mask))};
}
__device__ __forceinline__ bf16 shuffle_xor(bf16 v, int mask) {
    return bf16{static_cast<unsigned short>(shuffle_xor(int(v.bits), mask))};
}

// The value of lane (own + n); past the last lane the own value.
__device__ __forceinline__ float shuffle_down(float v, int n) { return __shfl_down_sync(LOOM_ALL_LANES, v, n); }
__device__ __forceinline__ int shuffle_down(int v, int n) { return __shfl_down_sync(LOOM_ALL_LANES, v, n); }
__device__ __forceinline__ i64 shuffle_down(i64 v, int n) { return __shfl_down_sync(LOOM_ALL_LANES, v, n); }
__device__ __forceinline__ u32 shuffle_down(u32 v, int n) { return __shfl_down_sync(LOOM_ALL_LANES, v, n); }
__device__ __forceinline__ u64 shuffle_down(u64 v, int n) { return __shfl_down_sync(LOOM_ALL_LANES, v, n); }
__device__ __forceinline__ bool8 shuffle_down(bool8 v, int n) { return shuffle_down(int(v), n) != 0; }
__device__ __forceinline__ f16 shuffle_down(f16 v, int n) {
    return f16{static_cast<unsigned short>(shuffle_down(int(v.bits), n))};
}
__device__ __forceinline__ bf16 shuffle_down(bf16 v, int n) {
    return bf16{static_cast<unsigned short>(shuffle_down(int(v.bits), n))};
}

// The value of `lane`.
__device__ __forceinline__ float shuffle_at(float v, int lane) { return __shfl_sync(LOOM_ALL_LANES, v, lane); }
__device__ __forceinline__ int shuffle_at(int v, int lane) { return __shfl_sync(LOOM_ALL_LANES, v, lane); }
__device__ __forceinline__ i64 shuffle_at(i64 v, int lane) { return __shfl_sync(LOOM_ALL_LANES, v, lane); }
__device__ __forceinline__ u32 shuffle_at(u32 v, int lane) { return __shfl_sync(LOOM_ALL_LANES, v, lane); }
__device__ __forceinline__ u64 shuffle_at(u64 v, int lane) { return __shfl_sync(LOOM_ALL_LANES, v, lane); }
__device__ __forceinline__ bool8 shuffle_at(bool8 v, int lane) { return shuffle_at(int(v), lane) != 0; }
__device__ __forceinline__ f16 shuffle_at(f16 v, int lane) {
    return f16{static_cast<unsigned short>(shuffle_at(int(v.bits), lane))};
}
__device__ __forceinline__ bf16 shuffle_at(bf16 v, int lane) {
    return bf16{static_cast<unsigned short>(shuffle_at(int(v.bits), lane))};
}

// Joins the values of WIDTH neighbouring lanes; all of them get the result.  Op is Sum, Max, ... or Sum<float>, ...
template <class Op, int WIDTH = 32>
__device__ __forceinline__ typename Op::Value warp_reduce(typename Op::Value v) {
    static_assert(WIDTH >= 1 && WIDTH <= 32 && (WIDTH & (WIDTH - 1)) == 0, "a power of two of lanes");
#pragma unroll
    for (int mask = WIDTH / 2; mask > 0; mask /= 2) v = Op::apply(v, shuffle_xor(v, mask));
    return v;
}
template <template <class> class Op, int WIDTH = 32, class T>
__device__ __forceinline__ T warp_reduce(T v) {
    return warp_reduce<Op<T>, WIDTH>(v);
}

// What the values of the lanes before this one give together; the identity in the first lane.
template <template <class> class Op, class T>
__device__ __forceinline__ T warp_scan(T v) {
    const int lane = threadIdx.x % 32;
    T joined = v;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
        const T before = shuffle_at(joined, lane - apart);
        if (lane >= apart) joined = Op<T>::apply(before, joined);
    }
    const T before = shuffle_at(joined, lane - 1);
    return lane == 0 ? Op<T>::identity() : before;
}
