// Floats of 8 bits (Micikevicius et al., FP8 formats for deep learning, 2022; the "fnuz" kinds: Noune et al., 8-bit
// numerical formats for deep neural networks, 2022).  Their conversions are integer code: sm_80 has no instruction.
#pragma once

#include "types.cuh"

// MANTISSA: bits behind the point.  BIAS: of the exponent.  LARGEST: code of the largest number.  BEYOND: the code of
// what is larger; NOT_A_NUMBER: that of NaN.  In the kinds with one zero NaN is the code of what would be -0.
template <int MANTISSA, int BIAS, int LARGEST, int BEYOND, int NOT_A_NUMBER>
struct Float8 {
    unsigned char bits;
};

using e4m3fn = Float8<3, 7, 0x7e, 0x7f, 0x7f>;
using e4m3fnuz = Float8<3, 8, 0x7f, 0x80, 0x80>;
using e5m2 = Float8<2, 15, 0x7b, 0x7c, 0x7f>;
using e5m2fnuz = Float8<2, 16, 0x7f, 0x80, 0x80>;

static_assert(sizeof(e4m3fn) == 1 && sizeof(e5m2fnuz) == 1, "element sizes");

// Exact: exponent and mantissa stand where those of float do, and lack the difference of the biases.
template <int MANTISSA, int BIAS, int LARGEST, int BEYOND, int NOT_A_NUMBER>
__device__ __forceinline__ float to_float(Float8<MANTISSA, BIAS, LARGEST, BEYOND, NOT_A_NUMBER> value) {
    const int magnitude = value.bits & 0x7f;
    if (NOT_A_NUMBER == 0x80 ? value.bits == 0x80 : magnitude > LARGEST) {
        if (magnitude != BEYOND || BEYOND == NOT_A_NUMBER) return NAN_F;
        return value.bits & 0x80 ? NEG_INF : INF;
    }
    const float scaled = __int_as_float(magnitude << (23 - MANTISSA)) * __int_as_float((254 - BIAS) << 23);
    return value.bits & 0x80 ? -scaled : scaled;
}

// To nearest, ties to even.
template <class T>
struct ToFloat8;
template <int MANTISSA, int BIAS, int LARGEST, int BEYOND, int NOT_A_NUMBER>
struct ToFloat8<Float8<MANTISSA, BIAS, LARGEST, BEYOND, NOT_A_NUMBER>> {
    static __device__ __forceinline__ Float8<MANTISSA, BIAS, LARGEST, BEYOND, NOT_A_NUMBER> of(float value) {
        constexpr int DROPPED = 23 - MANTISSA;
        // One unit in the last place of this number is the smallest number of the type.
        constexpr int UNIT = (127 + 1 - BIAS - MANTISSA + 23) << 23;
        const int bits = __float_as_int(value), magnitude = bits & 0x7fffffff;
        if (magnitude > 0x7f800000) return {NOT_A_NUMBER};
        int code;
        if (magnitude < (127 + 1 - BIAS) << 23) {
            code = __float_as_int(__int_as_float(magnitude) + __int_as_float(UNIT)) - UNIT;
        } else {
            const u32 rounded = static_cast<u32>(magnitude) + (1u << (DROPPED - 1)) - 1u + (magnitude >> DROPPED & 1);
            code = static_cast<int>(rounded >> DROPPED) - ((127 - BIAS) << MANTISSA);
        }
        if (code > LARGEST) code = BEYOND;
        const bool is_signed = bits < 0 && code != 0x80 && !(NOT_A_NUMBER == 0x80 && code == 0);
        return {static_cast<unsigned char>(is_signed ? code | 0x80 : code)};
    }
};

__device__ __forceinline__ e4m3fn to_e4m3fn(float value) { return ToFloat8<e4m3fn>::of(value); }
__device__ __forceinline__ e4m3fnuz to_e4m3fnuz(float value) { return ToFloat8<e4m3fnuz>::of(value); }
__device__ __forceinline__ e5m2 to_e5m2(float value) { return ToFloat8<e5m2>::of(value); }
__device__ __forceinline__ e5m2fnuz to_e5m2fnuz(float value) { return ToFloat8<e5m2fnuz>::of(value); }

// The nearest number of a type.
__device__ __forceinline__ float round_e4m3fn(float value) { return to_float(to_e4m3fn(value)); }
__device__ __forceinline__ float round_e4m3fnuz(float value) { return to_float(to_e4m3fnuz(value)); }
__device__ __forceinline__ float round_e5m2(float value) { return to_float(to_e5m2(value)); }
__device__ __forceinline__ float round_e5m2fnuz(float value) { return to_float(to_e5m2fnuz(value)); }
