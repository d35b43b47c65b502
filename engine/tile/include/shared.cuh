// Loads and stores of shared memory, which is one dynamic array that the text cuts by byte offsets.
#pragma once

#include "global.cuh"
#include "types.cuh"

// Declares the block's shared memory; BYTES, its dynamic size, is given at launch.
#define LOOM_SHARED(BYTES) extern __shared__ __align__(16) unsigned char shared_memory[];

template <class T>
struct Shared {
    T* base;

    __device__ __forceinline__ Shared(unsigned char* start, int elements) : base(reinterpret_cast<T*>(start)) {}

    __device__ __forceinline__ T load(int index) const { return base[index]; }

    // N elements from `index` on, which is a multiple of N: one ld.shared of sizeof(T) * N bytes.
    template <int N>
    __device__ __forceinline__ Pack<T, N> load(int index) const {
        using Bits = typename Word<sizeof(T) * N>::Type;
        return bits_as<Pack<T, N>>(*reinterpret_cast<const Bits*>(base + index));
    }

    __device__ __forceinline__ void store(int index, T value) const { base[index] = value; }

    template <int N>
    __device__ __forceinline__ void store(int index, const Pack<T, N>& values) const {
        using Bits = typename Word<sizeof(T) * N>::Type;
        *reinterpret_cast<Bits*>(base + index) = bits_as<Bits>(values);
    }
};
