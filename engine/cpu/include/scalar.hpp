// The scalar functions of tensor expressions that C++ has no operator for, free of branches and calls where that can be,
// so that `#pragma omp simd` makes vectors of them.  Errors of a few units in the last place of float.
#pragma once

#include "types.hpp"

LOOM float round_f16(float x) { return f16(x); }
LOOM float round_bf16(float x) { return bf16(x); }
LOOM int wrap_i8(int x) { return static_cast<i8>(x); }
LOOM int wrap_u8(int x) { return static_cast<u8>(x); }
LOOM int wrap_i16(int x) { return static_cast<i16>(x); }
LOOM int wrap_u16(int x) { return static_cast<u16>(x); }

LOOM int wrapped(int index, int size) { return index + (index < 0 ? size : 0); }

LOOM float fn_floor(float x) { return __builtin_floorf(x); }
LOOM float fn_ceil(float x) { return __builtin_ceilf(x); }
LOOM float fn_round(float x) { return __builtin_rintf(x); }  // half to even
LOOM float fn_sqrt(float x) { return __builtin_sqrtf(x); }
LOOM float fn_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
LOOM float fn_reciprocal(float x) { return 1.0f / x; }

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, a polynomial of degree 6.  Results below 2^-125 are 0.  Bits of floats that are
// not below 0 are ordered as integers, whose extrema are single instructions on vectors.
LOOM float fn_exp(float x) {
    const int bits = std::bit_cast<int>(x), most = std::bit_cast<int>(89.0f);
    const float n = fn_round(std::bit_cast<float>(bits < most ? bits : most) * 1.442695041f);
    const float r = __builtin_fmaf(n, -1.42860677e-6f, __builtin_fmaf(n, -0.693145752f, x));
    float twice = 2.0f * 1.3888889e-3f;
    twice = __builtin_fmaf(twice, r, 2.0f * 8.3333337e-3f);
    twice = __builtin_fmaf(twice, r, 2.0f * 4.1666664e-2f);
    twice = __builtin_fmaf(twice, r, 2.0f * 1.6666667e-1f);
    twice = __builtin_fmaf(twice, r, 1.0f);
    twice = __builtin_fmaf(twice, r, 2.0f);
    twice = __builtin_fmaf(twice, r, 2.0f);
    const float power = float_of(u32(static_cast<int>(n) + 126) << 23);  // half of 2^n, which may be too large
    return x < -86.6434f ? 0.0f : twice * power;
}

LOOM float fn_sigmoid(float x) { return 1.0f / (1.0f + fn_exp(-x)); }

// tanh(x) = 1 - 2 / (exp(2x) + 1); near 0, where that cancels, an odd polynomial.
LOOM float fn_tanh(float x) {
    const float a = __builtin_fabsf(x), s = x * x;
    float p = -8.8632e-3f;
    p = __builtin_fmaf(p, s, 2.1869489e-2f);
    p = __builtin_fmaf(p, s, -5.3968254e-2f);
    p = __builtin_fmaf(p, s, 1.3333333e-1f);
    p = __builtin_fmaf(p, s, -3.3333333e-1f);
    const float small = __builtin_fmaf(p * s, x, x);
    const float large = 1.0f - 2.0f / (fn_exp(2.0f * a) + 1.0f);
    return a < 0.4f ? small : x < 0.0f ? -large : x != x ? x : large;
}

// erf(x) = x P(x^2) / Q(x^2) for |x| < 4, beyond which it is 1 in float.
LOOM float fn_erf(float x) {
    const float low = x < -4.0f ? -4.0f : x, c = low > 4.0f ? 4.0f : low, s = c * c;
    float p = -2.72614225801306e-10f;
    p = __builtin_fmaf(p, s, 2.77068142495902e-08f);
    p = __builtin_fmaf(p, s, -2.10102402082508e-06f);
    p = __builtin_fmaf(p, s, -5.69250639462346e-05f);
    p = __builtin_fmaf(p, s, -7.34990630326855e-04f);
    p = __builtin_fmaf(p, s, -2.95459980854025e-03f);
    p = __builtin_fmaf(p, s, -1.60960333262415e-02f);
    float q = -1.45660718464996e-05f;
    q = __builtin_fmaf(q, s, -2.13374055278905e-04f);
    q = __builtin_fmaf(q, s, -1.68282697438203e-03f);
    q = __builtin_fmaf(q, s, -7.37332916720468e-03f);
    q = __builtin_fmaf(q, s, -1.42647390514189e-02f);
    return c * p / q;
}

LOOM float fn_log(float x) { return __builtin_logf(x); }
LOOM float fn_sin(float x) { return __builtin_sinf(x); }
LOOM float fn_cos(float x) { return __builtin_cosf(x); }
LOOM float fn_atan(float x) { return __builtin_atanf(x); }

template <class T>
LOOM T fn_abs(T x) { return x < T(0) ? T(0) - x : x; }
LOOM float fn_abs(float x) { return __builtin_fabsf(x); }
template <class T>
LOOM T fn_neg(T x) { return T(0) - x; }
LOOM float fn_neg(float x) { return -x; }
template <class T>
LOOM T fn_sign(T x) { return T(x > T(0)) - T(x < T(0)); }
LOOM float fn_sign(float x) { return x != x ? x : float(x > 0.0f) - float(x < 0.0f); }

LOOM bool fn_isnan(float x) { return x != x; }
LOOM bool fn_isinf(float x) { return __builtin_fabsf(x) == INF; }

// The larger and the smaller operand; NaN if either is.
template <class T>
LOOM T fn_max(T a, T b) { return a > b ? a : b; }
LOOM float fn_max(float a, float b) {
    const float larger = a > b ? a : b;  // one instruction, which gives b where either is NaN
    return a != a ? a : larger;
}
template <class T>
LOOM T fn_min(T a, T b) { return a < b ? a : b; }
LOOM float fn_min(float a, float b) {
    const float smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

// Integers in the order of floats, for extrema of many: vectors compare integers in one instruction, and compilers know
// how to join their lanes.  NaN is beyond all numbers: above them, or below where the least is looked for.
LOOM int order_of(float x, bool is_least = false) {
    const int bits = std::bit_cast<int>(x), magnitude = bits & 0x7fffffff, order = bits ^ ((bits >> 31) & 0x7fffffff);
    const int beyond = is_least ? ~magnitude : magnitude;
    return magnitude > 0x7f800000 ? beyond : order;
}
LOOM float of_order(int x) { return std::bit_cast<float>(x ^ ((x >> 31) & 0x7fffffff)); }

// The nearest whole number of steps from `zero`, half to even, within two limits: a code.  Bits of floats that are not
// below 0 are ordered as integers, whose extrema are single instructions on vectors; what is far below all codes
// becomes the least integer.
LOOM int fn_code(float steps, int zero, int least, int most) {
    const int bits = std::bit_cast<i32>(steps), limit = std::bit_cast<i32>(1e9f);
    const int nearest = __builtin_irintf(std::bit_cast<float>(bits < limit ? bits : limit));
    const int from = least - zero, to = most - zero, high = nearest > from ? nearest : from;
    return (high < to ? high : to) + zero;
}

// Integers truncate toward zero.
template <class T>
LOOM T fn_div(T a, T b) { return a / b; }

// The remainder takes the sign of the divisor, as numpy.mod's does.
template <class T>
LOOM T fn_mod(T a, T b) {
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
LOOM float fn_mod(float a, float b) {
    const float rest = __builtin_fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

// Integer powers by squaring, modulo 2^width; the exponent is not negative.
template <class T>
LOOM T fn_pow(T base, T exponent) {
    T result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}
LOOM float fn_pow(float a, float b) { return __builtin_powf(a, b); }

template <class T>
LOOM T fn_bit_and(T a, T b) { return a & b; }
template <class T>
LOOM T fn_bit_or(T a, T b) { return a | b; }
template <class T>
LOOM T fn_bit_xor(T a, T b) { return a ^ b; }
template <class T>
LOOM T fn_bit_not(T x) { return ~x; }

// Shifts by the width or more, and by less than nothing, leave no bit but the sign's.
template <class T>
LOOM T fn_shift_left(T a, T b) { return b < T(0) || b > T(8 * sizeof(T) - 1) ? T(0) : T(u64(a) << b); }
template <class T>
LOOM T fn_shift_right(T a, T b) {
    const T most = 8 * sizeof(T) - 1;
    return b >= T(0) && b <= most ? T(a >> b) : T(-1) < T(0) ? T(a >> most) : T(0);
}
LOOM int fn_bits(float x) { return std::bit_cast<int>(x); }
LOOM float fn_bits(int x) { return std::bit_cast<float>(x); }

// Conversions to integers without a sign: of what is below 0 modulo 2^width, too, which C++ leaves open for floats.
template <class T>
LOOM u32 as_u32(T x) { return static_cast<u32>(x); }
template <class T>
LOOM u64 as_u64(T x) { return static_cast<u64>(x); }
template <class T>
LOOM u16 as_u16(T x) { return static_cast<u16>(static_cast<i64>(x)); }
LOOM u32 as_u32(float x) { return static_cast<u32>(static_cast<i64>(x)); }
LOOM u64 as_u64(float x) { return x < 0.0f ? static_cast<u64>(static_cast<i64>(x)) : static_cast<u64>(x); }

