// The operations of reductions: each has an identity and joins two partial results.
#pragma once

#include "scalar.cuh"
#include "types.cuh"

// The least and the greatest value of a type.
template <class T>
struct Limits;
template <>
struct Limits<float> {
    __device__ __forceinline__ static float lowest() { return NEG_INF; }
    __device__ __forceinline__ static float highest() { return INF; }
};
template <>
struct Limits<int> {
    __device__ __forceinline__ static int lowest() { return -2147483647 - 1; }
    __device__ __forceinline__ static int highest() { return 2147483647; }
};
template <>
struct Limits<i64> {
    __device__ __forceinline__ static i64 lowest() { return -9223372036854775807LL - 1; }
    __device__ __forceinline__ static i64 highest() { return 9223372036854775807LL; }
};
template <>
struct Limits<u32> {
    __device__ __forceinline__ static u32 lowest() { return 0; }
    __device__ __forceinline__ static u32 highest() { return 4294967295u; }
};
template <>
struct Limits<u64> {
    __device__ __forceinline__ static u64 lowest() { return 0; }
    __device__ __forceinline__ static u64 highest() { return 18446744073709551615ull; }
};
template <>
struct Limits<bool8> {
    __device__ __forceinline__ static bool8 lowest() { return false; }
    __device__ __forceinline__ static bool8 highest() { return true; }
};

template <class T>
struct Sum {
    using Value = T;
    __device__ __forceinline__ static T identity() { return T(0); }
    __device__ __forceinline__ static T apply(T a, T b) { return a + b; }
};

template <class T>
struct Prod {
    using Value = T;
    __device__ __forceinline__ static T identity() { return T(1); }
    __device__ __forceinline__ static T apply(T a, T b) { return a * b; }
};

template <class T>
struct Max {
    using Value = T;
    __device__ __forceinline__ static T identity() { return Limits<T>::lowest(); }
    __device__ __forceinline__ static T apply(T a, T b) { return fn_max(a, b); }
};

template <class T>
struct Min {
    using Value = T;
    __device__ __forceinline__ static T identity() { return Limits<T>::highest(); }
    __device__ __forceinline__ static T apply(T a, T b) { return fn_min(a, b); }
};

template <class T>
struct Any {
    using Value = T;
    __device__ __forceinline__ static T identity() { return T(0); }
    __device__ __forceinline__ static T apply(T a, T b) { return a || b; }
};

template <class T>
struct All {
    using Value = T;
    __device__ __forceinline__ static T identity() { return T(1); }
    __device__ __forceinline__ static T apply(T a, T b) { return a && b; }
};
