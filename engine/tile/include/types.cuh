// Element types, vectors of elements and constants.  No CUDA header is needed.
#pragma once

using i8 = signed char;
using i16 = short;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// One byte that holds 0 or 1, as NumPy's bool does.
using bool8 = bool;

// IEEE binary16 as its bits.  Arithmetic is done in float; see to_float and to_f16.
struct alignas(2) f16 {
    unsigned short bits;
};

// The upper half of a binary32 as its bits: as wide a range, 8 significant bits.
struct alignas(2) bf16 {
    unsigned short bits;
};

// N consecutive elements that move in one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T at[N];
    __device__ __forceinline__ T& operator[](int i) { return at[i]; }
    __device__ __forceinline__ const T& operator[](int i) const { return at[i]; }
};

// The value itself, which the compiler takes for unknown: it stays in a register and is not computed anew.
__device__ __forceinline__ int keep(int value) {
    asm("" : "+r"(value));
    return value;
}

static_assert(sizeof(i64) == 8 && sizeof(u32) == 4 && sizeof(bool8) == 1, "element sizes");
static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2, "element sizes");

// T without const: what an accessor of const T hands out.
template <class T>
struct Plain {
    using Type = T;
};
template <class T>
struct Plain<const T> {
    using Type = T;
};

#define INF __int_as_float(0x7f800000)
#define NEG_INF __int_as_float(0xff800000)
#define NAN_F __int_as_float(0x7fc00000)
