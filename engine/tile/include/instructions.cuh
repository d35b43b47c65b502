// Conversions and arithmetic that C++ has no expression for: one PTX instruction each.
#pragma once

#include "types.cuh"

// cvt.f32.f16: exact.
__device__ __forceinline__ float to_float(f16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}

// cvt.rn.f16.f32: to nearest, ties to even; overflow gives infinity.
__device__ __forceinline__ f16 to_f16(float value) {
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

// A shift: exact.
__device__ __forceinline__ float to_float(bf16 value) { return __int_as_float(static_cast<int>(value.bits) << 16); }

// cvt.rn.bf16.f32: to nearest, ties to even (sm_80 and later).
__device__ __forceinline__ bf16 to_bf16(float value) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

// max.NaN.f32: NaN if either operand is (sm_80 and later).
__device__ __forceinline__ float max_or_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

// min.NaN.f32: NaN if either operand is (sm_80 and later).
__device__ __forceinline__ float min_or_nan(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

// cvt.rn.f16x2.f32: two halves in one word, `low` in its low bits.
__device__ __forceinline__ u32 fn_pack_f16(float low, float high) {
    u32 result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

// cvt.rn.bf16x2.f32: the same of bfloat16 (sm_80 and later).
__device__ __forceinline__ u32 fn_pack_bf16(float low, float high) {
    u32 result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

// ex2.approx.ftz.f32: two to the power of x, at most 2 units in the last place off; a subnormal result is 0.
__device__ __forceinline__ float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// rcp.approx.ftz.f32: 1 / x, at most 1 unit in the last place off; a subnormal operand or result is 0.
__device__ __forceinline__ float reciprocal_approx(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// sqrt.approx.ftz.f32: at most 2^-23 of the root off; of a subnormal operand 0.
__device__ __forceinline__ float sqrt_approx(float x) {
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// rsqrt.approx.ftz.f32: at most 2^-22.9 of the result off.
__device__ __forceinline__ float rsqrt_approx(float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
