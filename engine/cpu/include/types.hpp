// Element types of arrays in memory.  Narrow floats are held as float, narrow integers as int.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

using i8 = std::int8_t;
using u8 = std::uint8_t;
using i16 = std::int16_t;
using u16 = std::uint16_t;
using i32 = std::int32_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;
using bool8 = u8;  // 0 or 1

#define LOOM inline __attribute__((always_inline))
#define NOT_INLINE __attribute__((noinline))

constexpr float INF = __builtin_inff(), NEG_INF = -INF, NAN_F = __builtin_nanf("");

LOOM u32 bits_of(float x) { return std::bit_cast<u32>(x); }
LOOM float float_of(u32 x) { return std::bit_cast<float>(x); }

// IEEE 754 half precision, rounded to nearest even.  Without branches, so that loops over it become vectors.
struct f16 {
    u16 bits;
    f16() = default;
    LOOM f16(float x) {
        const u32 b = bits_of(x), sign = b & 0x80000000u, magnitude = b ^ sign;
        // Below 2^-14 the addition of 0.5 rounds to a multiple of 2^-24, the step of subnormal halves.
        const u32 small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        const u32 odd = (magnitude >> 13) & 1u;
        const u32 usual = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
        const u32 large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
        const u32 found = magnitude >= 0x47800000u ? large : magnitude < 0x38800000u ? small : usual;
        bits = static_cast<u16>(found | (sign >> 16));
    }
    LOOM operator float() const {
        const u32 sign = (u32(bits) & 0x8000u) << 16, magnitude = (u32(bits) & 0x7fffu) << 13;
        const u32 usual = magnitude + (112u << 23), special = magnitude + (224u << 23);
        const float small = float_of(magnitude + (113u << 23)) - float_of(113u << 23);
        const float found = magnitude >= (0x7c00u << 13) ? float_of(special)
                            : magnitude < (0x400u << 13) ? small
                                                         : float_of(usual);
        return float_of(bits_of(found) | sign);
    }
};

// The upper half of a float, rounded to nearest even.
struct bf16 {
    u16 bits;
    bf16() = default;
    LOOM bf16(float x) {
        const u32 b = bits_of(x);
        const u32 rounded = b + 0x7fffu + ((b >> 16) & 1u);
        bits = static_cast<u16>((x != x ? (b | 0x400000u) : rounded) >> 16);
    }
    LOOM operator float() const { return float_of(u32(bits) << 16); }
};

// Memory that a kernel keeps from one call to the next: allocated at the first, aligned to whole cache lines.
template <class T>
struct Scratch {
    T* data;
    explicit Scratch(i64 elements)
        : data(static_cast<T*>(__builtin_assume_aligned(::operator new(elements * sizeof(T), std::align_val_t(64)), 64))) {}
    ~Scratch() { ::operator delete(data, std::align_val_t(64)); }
    Scratch(const Scratch&) = delete;
};
