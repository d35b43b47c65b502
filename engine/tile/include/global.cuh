// Loads and stores of global memory.  An accessor wraps a raw kernel parameter and costs nothing: the parameter keeps
// its `const T* __restrict__`, from which the compiler knows that ld.global.nc is allowed.
#pragma once

#include "types.cuh"

// The machine type that carries BYTES in one ld or st.
template <int BYTES>
struct Word;
template <>
struct Word<1> {
    using Type = unsigned char;
};
template <>
struct Word<2> {
    using Type = unsigned short;
};
template <>
struct Word<4> {
    using Type = unsigned int;
};
template <>
struct Word<8> {
    using Type = uint2;
};
template <>
struct Word<16> {
    using Type = uint4;
};

// Another type's view of the same bits; both views have the same size.  By value: of a reference into memory the compiler
// knows no alignment, and copies single bytes.
template <class To, class From>
__device__ __forceinline__ To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "a view keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

template <class T>
struct Global {
    using Element = typename Plain<T>::Type;
    T* base;

    // `elements` is what the emulator checks indices against; the GPU has no use for it.
    __device__ __forceinline__ Global(T* pointer, i64 elements) : base(pointer) {}

    __device__ __forceinline__ Element load(i64 index) const { return base[index]; }

    // N elements from `index` on, which is a multiple of N: one ld.global of sizeof(T) * N bytes.
    template <int N>
    __device__ __forceinline__ Pack<Element, N> load(i64 index) const {
        using Bits = typename Word<sizeof(T) * N>::Type;
        return bits_as<Pack<Element, N>>(*reinterpret_cast<const Bits*>(base + index));
    }

    __device__ __forceinline__ void store(i64 index, Element value) const { base[index] = value; }

    template <int N>
    __device__ __forceinline__ void store(i64 index, const Pack<Element, N>& values) const {
        using Bits = typename Word<sizeof(T) * N>::Type;
        *reinterpret_cast<Bits*>(base + index) = bits_as<Bits>(values);
    }
};

// Read-only memory: ld.global.nc, which needs no coherence with stores of other threads.
template <class T>
struct Global<const T> {
    using Element = T;
    const T* base;

    __device__ __forceinline__ Global(const T* pointer, i64 elements) : base(pointer) {}

    __device__ __forceinline__ T load(i64 index) const {
        using Bits = typename Word<sizeof(T)>::Type;
        return bits_as<T>(__ldg(reinterpret_cast<const Bits*>(base + index)));
    }

    template <int N>
    __device__ __forceinline__ Pack<T, N> load(i64 index) const {
        using Bits = typename Word<sizeof(T) * N>::Type;
        return bits_as<Pack<T, N>>(__ldg(reinterpret_cast<const Bits*>(base + index)));
    }
};
