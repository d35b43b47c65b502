// The scalar functions of tensor expressions (engine/tensor/nodes.py, FUNCTIONS) that C++ has no operator for.
// Accurate versions throughout: results agree with NumPy within a few units in the last place of float.
#pragma once

#include <instructions.cuh>  // by search path: the emulator puts its own first
#include "types.cuh"

#define LOOM_FUNCTION __device__ __forceinline__

LOOM_FUNCTION float fn_exp(float x) { return expf(x); }
LOOM_FUNCTION float fn_log(float x) { return logf(x); }
LOOM_FUNCTION float fn_sqrt(float x) { return sqrtf(x); }
LOOM_FUNCTION float fn_rsqrt(float x) { return rsqrtf(x); }
LOOM_FUNCTION float fn_reciprocal(float x) { return 1.0f / x; }
LOOM_FUNCTION float fn_tanh(float x) { return tanhf(x); }
LOOM_FUNCTION float fn_erf(float x) { return erff(x); }
LOOM_FUNCTION float fn_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
LOOM_FUNCTION float fn_sin(float x) { return sinf(x); }
LOOM_FUNCTION float fn_cos(float x) { return cosf(x); }
LOOM_FUNCTION float fn_atan(float x) { return atanf(x); }
LOOM_FUNCTION float fn_floor(float x) { return floorf(x); }
LOOM_FUNCTION float fn_ceil(float x) { return ceilf(x); }
LOOM_FUNCTION float round_f16(float x) { return to_float(to_f16(x)); }  // to the nearest half
LOOM_FUNCTION float round_bf16(float x) { return to_float(to_bf16(x)); }  // to the nearest bfloat16
LOOM_FUNCTION int wrap_i8(int x) { return static_cast<i8>(x); }  // the lowest 8 bits
LOOM_FUNCTION int wrap_u8(int x) { return static_cast<u8>(x); }
LOOM_FUNCTION int wrap_i16(int x) { return static_cast<i16>(x); }
LOOM_FUNCTION int wrap_u16(int x) { return static_cast<u16>(x); }
LOOM_FUNCTION float fn_round(float x) { return rintf(x); }  // half to even

LOOM_FUNCTION float fn_abs(float x) { return fabsf(x); }
LOOM_FUNCTION int fn_abs(int x) { return x < 0 ? -x : x; }
LOOM_FUNCTION i64 fn_abs(i64 x) { return x < 0 ? -x : x; }

LOOM_FUNCTION float fn_neg(float x) { return -x; }
LOOM_FUNCTION int fn_neg(int x) { return -x; }
LOOM_FUNCTION i64 fn_neg(i64 x) { return -x; }

LOOM_FUNCTION float fn_sign(float x) { return x != x ? x : static_cast<float>((x > 0.0f) - (x < 0.0f)); }
LOOM_FUNCTION int fn_sign(int x) { return (x > 0) - (x < 0); }
LOOM_FUNCTION i64 fn_sign(i64 x) { return (x > 0) - (x < 0); }

LOOM_FUNCTION bool8 fn_isnan(float x) { return x != x; }
LOOM_FUNCTION bool8 fn_isinf(float x) { return fabsf(x) == INF; }

// The larger and the smaller operand; NaN if either is.
LOOM_FUNCTION float fn_max(float a, float b) { return max_or_nan(a, b); }
LOOM_FUNCTION int fn_max(int a, int b) { return a > b ? a : b; }
LOOM_FUNCTION i64 fn_max(i64 a, i64 b) { return a > b ? a : b; }
LOOM_FUNCTION bool8 fn_max(bool8 a, bool8 b) { return a || b; }
LOOM_FUNCTION float fn_min(float a, float b) { return min_or_nan(a, b); }
LOOM_FUNCTION int fn_min(int a, int b) { return a < b ? a : b; }
LOOM_FUNCTION i64 fn_min(i64 a, i64 b) { return a < b ? a : b; }
LOOM_FUNCTION bool8 fn_min(bool8 a, bool8 b) { return a && b; }

// Integers truncate toward zero.
LOOM_FUNCTION float fn_div(float a, float b) { return a / b; }
LOOM_FUNCTION int fn_div(int a, int b) { return a / b; }
LOOM_FUNCTION i64 fn_div(i64 a, i64 b) { return a / b; }

// The remainder takes the sign of the divisor, as numpy.mod's does.
LOOM_FUNCTION float fn_mod(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
LOOM_FUNCTION int fn_mod(int a, int b) {
    const int rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
LOOM_FUNCTION i64 fn_mod(i64 a, i64 b) {
    const i64 rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Integer powers by squaring, modulo 2^width; the exponent is not negative.
template <class T>
LOOM_FUNCTION T integer_power(T base, T exponent) {
    T result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}
LOOM_FUNCTION float fn_pow(float a, float b) { return powf(a, b); }
LOOM_FUNCTION int fn_pow(int a, int b) { return integer_power(a, b); }
LOOM_FUNCTION i64 fn_pow(i64 a, i64 b) { return integer_power(a, b); }

// Bits of integers.  Shifts by the width or more, and by less than nothing, leave no bit but the sign's.
LOOM_FUNCTION int fn_bit_and(int a, int b) { return a & b; }
LOOM_FUNCTION i64 fn_bit_and(i64 a, i64 b) { return a & b; }
LOOM_FUNCTION int fn_bit_or(int a, int b) { return a | b; }
LOOM_FUNCTION i64 fn_bit_or(i64 a, i64 b) { return a | b; }
LOOM_FUNCTION int fn_bit_xor(int a, int b) { return a ^ b; }
LOOM_FUNCTION i64 fn_bit_xor(i64 a, i64 b) { return a ^ b; }
LOOM_FUNCTION int fn_bit_not(int x) { return ~x; }
LOOM_FUNCTION i64 fn_bit_not(i64 x) { return ~x; }
LOOM_FUNCTION int fn_shift_left(int a, int b) {
    return b < 0 || b > 31 ? 0 : static_cast<int>(static_cast<u32>(a) << b);
}
LOOM_FUNCTION i64 fn_shift_left(i64 a, i64 b) {
    return b < 0 || b > 63 ? 0 : static_cast<i64>(static_cast<u64>(a) << b);
}
LOOM_FUNCTION int fn_shift_right(int a, int b) { return a >> (b < 0 || b > 31 ? 31 : b); }
LOOM_FUNCTION i64 fn_shift_right(i64 a, i64 b) { return a >> (b < 0 || b > 63 ? 63 : b); }
LOOM_FUNCTION int fn_bits(float x) { return __float_as_int(x); }
LOOM_FUNCTION float fn_bits(int x) { return __int_as_float(x); }

// Conversions to integers without a sign: of what is below 0 modulo 2^width, too, which C++ leaves open for floats.
template <class T>
LOOM_FUNCTION u32 as_u32(T x) {
    return static_cast<u32>(x);
}
template <class T>
LOOM_FUNCTION u64 as_u64(T x) {
    return static_cast<u64>(x);
}
LOOM_FUNCTION u32 as_u32(float x) { return static_cast<u32>(static_cast<i64>(x)); }
LOOM_FUNCTION u64 as_u64(float x) { return x < 0.0f ? static_cast<u64>(static_cast<i64>(x)) : static_cast<u64>(x); }

// Integers without a sign: all of it modulo 2^width.
#define LOOM_UNSIGNED(T, WIDTH)                                                                        \
    LOOM_FUNCTION T fn_abs(T x) { return x; }                                                          \
    LOOM_FUNCTION T fn_neg(T x) { return T(0) - x; }                                                   \
    LOOM_FUNCTION T fn_sign(T x) { return x != 0; }                                                    \
    LOOM_FUNCTION T fn_max(T a, T b) { return a > b ? a : b; }                                         \
    LOOM_FUNCTION T fn_min(T a, T b) { return a < b ? a : b; }                                         \
    LOOM_FUNCTION T fn_div(T a, T b) { return a / b; }                                                 \
    LOOM_FUNCTION T fn_mod(T a, T b) { return a % b; }                                                 \
    LOOM_FUNCTION T fn_pow(T a, T b) { return integer_power(a, b); }                                   \
    LOOM_FUNCTION T fn_bit_and(T a, T b) { return a & b; }                                             \
    LOOM_FUNCTION T fn_bit_or(T a, T b) { return a | b; }                                              \
    LOOM_FUNCTION T fn_bit_xor(T a, T b) { return a ^ b; }                                             \
    LOOM_FUNCTION T fn_bit_not(T x) { return ~x; }                                                     \
    LOOM_FUNCTION T fn_shift_left(T a, T b) { return b >= WIDTH ? 0 : a << b; }                        \
    LOOM_FUNCTION T fn_shift_right(T a, T b) { return b >= WIDTH ? 0 : a >> b; }
LOOM_UNSIGNED(u32, 32)
LOOM_UNSIGNED(u64, 64)
#undef LOOM_UNSIGNED

// Approximations by the instructions of the special-function units, for values that are rounded to 16 bits in the end.
// Errors are relative unless they are said to be absolute; u is 2^-24, half a unit in the last place of 1.
LOOM_FUNCTION float fn_exp_approx(float x) { return exp2_approx(x * 1.44269504f); }  // 4u + |x| u
// One instruction and a power of two for each x of one origin, whose error of |origin| u is that of all of them alike.
LOOM_FUNCTION float fn_exp_shifted_approx(float x, float origin) {
    return exp2_approx(fmaf(x, 1.44269504f, origin * -1.44269504f));
}
LOOM_FUNCTION float fn_sqrt_approx(float x) { return sqrt_approx(x); }               // 2u
LOOM_FUNCTION float fn_rsqrt_approx(float x) { return rsqrt_approx(x); }             // 3u
LOOM_FUNCTION float fn_reciprocal_approx(float x) { return reciprocal_approx(x); }   // 2u; 0 from 2^126 on
LOOM_FUNCTION float fn_div_approx(float a, float b) { return a * reciprocal_approx(b); }  // 3u; 0 for b from 2^126 on
LOOM_FUNCTION float fn_sigmoid_approx(float x) {  // 8u + |x| u
    return reciprocal_approx(1.0f + exp2_approx(x * -1.44269504f));
}
// The difference from 1 loses the leading digits of small results, which are their argument: 2^-15, 6u absolute.
LOOM_FUNCTION float fn_tanh_approx(float x) {
    const float large = 1.0f - 2.0f * reciprocal_approx(1.0f + exp2_approx(x * 2.88539008f));
    return fabsf(x) < 0x1p-8f ? x : large;
}
// erf(x) = tanh(x q(x^2)) with q fitted to it on [0, 4.2], where it comes to within u of 1; 2^-15, 8u absolute.
LOOM_FUNCTION float erf_exponent(float x) {
    const float s = x * x;
    float q = 4.58712404e-7f * s - 1.72714690e-5f;
    q = q * s + 2.58856913e-4f;
    q = q * s - 1.80544625e-3f;
    q = q * s - 5.32018367e-4f;
    q = q * s + 2.96518501e-1f;
    q = q * s + 3.25581561f;
    return x * q;
}
LOOM_FUNCTION float fn_erf_approx(float x) {
    const float large = 1.0f - 2.0f * reciprocal_approx(1.0f + exp2_approx(erf_exponent(x)));
    return fabsf(x) < 0x1p-8f ? x * 1.12837917f : large;
}
LOOM_FUNCTION float fn_erf_step_approx(float x) {  // (1 + erf(x)) / 2; 4u absolute
    return reciprocal_approx(1.0f + exp2_approx(-erf_exponent(x)));
}

#undef LOOM_FUNCTION
