// The exact meaning of the instructions in tile/include/instructions.cuh.
#pragma once

#include "platform.hpp"
#include "types.cuh"

inline float to_float(f16 value) {
    const u32 sign = (value.bits & 0x8000u) << 16;
    const u32 magnitude = value.bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return __int_as_float(static_cast<int>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13));
    // Shifted into place the number is 2^112 too small; the product is exact, for subnormal halves too.
    const float scaled = __int_as_float(static_cast<int>(magnitude << 13)) * 0x1p112f;
    return __int_as_float(static_cast<int>(sign | static_cast<u32>(__float_as_int(scaled))));
}

inline f16 to_f16(float value) {
    const u32 bits = static_cast<u32>(__float_as_int(value));
    const u32 sign = bits >> 16 & 0x8000u;
    const u32 magnitude = bits & 0x7fffffffu;
    u32 half;
    if (magnitude > 0x7f800000u) {
        half = 0x7fffu;  // the NaN that cvt gives
        return f16{static_cast<unsigned short>(half)};
    }
    if (magnitude >= 0x477ff000u) {
        half = 0x7c00u;  // 65520 and more round to infinity
    } else if (magnitude >= 0x38800000u) {
        half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    } else {
        // Subnormal halves are multiples of 2^-24: adding 0.5 lets the float adder round to that multiple.
        half = static_cast<u32>(__float_as_int(__int_as_float(static_cast<int>(magnitude)) + 0.5f)) - 0x3f000000u;
    }
    return f16{static_cast<unsigned short>(sign | half)};
}

inline float to_float(bf16 value) { return __int_as_float(static_cast<int>(static_cast<u32>(value.bits) << 16)); }

inline bf16 to_bf16(float value) {
    const u32 bits = static_cast<u32>(__float_as_int(value));
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{0x7fff};  // the NaN that cvt gives
    return bf16{static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

inline float max_or_nan(float a, float b) { return a != a || b != b ? NAN_F : a > b ? a : b; }
inline float min_or_nan(float a, float b) { return a != a || b != b ? NAN_F : a < b ? a : b; }

inline u32 fn_pack_f16(float low, float high) {
    return static_cast<u32>(to_f16(low).bits) | static_cast<u32>(to_f16(high).bits) << 16;
}

inline u32 fn_pack_bf16(float low, float high) {
    return static_cast<u32>(to_bf16(low).bits) | static_cast<u32>(to_bf16(high).bits) << 16;
}

// Results are the nearest ones; operands and results that are subnormal are flushed to 0 as the instructions do.
inline float flush(float x) { return fabsf(x) < 0x1p-126f ? 0.0f * x : x; }
inline float exp2_approx(float x) { return flush(exp2f(flush(x))); }
inline float reciprocal_approx(float x) { return flush(1.0f / flush(x)); }
inline float sqrt_approx(float x) { return sqrtf(flush(x)); }
inline float rsqrt_approx(float x) { return 1.0f / sqrtf(flush(x)); }
