// Tensor cores on the CPU: every lane hands its part to the warp and computes its own results.  Products are exact in
// float; their sum is rounded at every term, in order of depth, which is one of the orders that a GPU may take.
#pragma once

#include "machine.hpp"
#include "platform.hpp"
#include "shared.cuh"
#include "types.cuh"

template <class T, class Words>
inline void ldmatrix_x4(Words& words, Shared<T> tile, int row, int line = __builtin_LINE()) {
    static_assert(sizeof(Words) == 16, "one 32-bit word of each matrix");
    const auto own = tile.template load<16 / sizeof(T)>(row, line);
    const unsigned char* warp = loom::gather(&own, sizeof own, line);
    const int lane = loom::lane();
    for (int q = 0; q < 4; ++q) {
        const unsigned char* from = warp + (8 * q + lane / 4) * loom::HANDED + 4 * (lane % 4);
        __builtin_memcpy(reinterpret_cast<u32*>(&words) + q, from, 4);
    }
}

template <class T, class Words>
inline void ldmatrix_x4_trans(Words& words, Shared<T> tile, int row, int line = __builtin_LINE()) {
    static_assert(sizeof(Words) == 16 && sizeof(T) == 2, "one 32-bit word of each matrix, elements of 2 bytes");
    const auto own = tile.template load<8>(row, line);
    const unsigned char* warp = loom::gather(&own, sizeof own, line);
    const int lane = loom::lane();
    for (int q = 0; q < 4; ++q) {
        for (int half = 0; half < 2; ++half) {
            const unsigned char* from = warp + (8 * q + 2 * (lane % 4) + half) * loom::HANDED + 2 * (lane / 4);
            __builtin_memcpy(reinterpret_cast<unsigned char*>(&words) + 4 * q + 2 * half, from, 2);
        }
    }
}

// One lane's operands as floats, EACH to a 32-bit word, which stand for neighbouring depths.
template <int EACH>
struct Operands {
    float a[4][EACH];
    float b[2][EACH];
};

// d += a * b over 8 * EACH depths: word c of b and words 2c and 2c + 1 of a hold depths 4 * EACH * c + EACH * t and on.
template <int EACH>
inline void multiply_fragments(float (&d)[2][2], const Operands<EACH>& own, int line) {
    static_assert(sizeof own <= loom::HANDED, "what a lane hands over");
    const unsigned char* warp = loom::gather(&own, sizeof own, line);
    const int group = loom::lane() / 4, in_group = loom::lane() % 4;
    for (int c = 0; c < 2; ++c) {
        for (int t = 0; t < 4; ++t) {
            const auto& rows = *reinterpret_cast<const Operands<EACH>*>(warp + (4 * group + t) * loom::HANDED);
            for (int v = 0; v < 2; ++v) {
                const int column = 2 * in_group + v;
                const auto& columns = *reinterpret_cast<const Operands<EACH>*>(warp + (4 * column + t) * loom::HANDED);
                for (int e = 0; e < EACH; ++e) {
                    d[0][v] += rows.a[2 * c][e] * columns.b[c][e];
                    d[1][v] += rows.a[2 * c + 1][e] * columns.b[c][e];
                }
            }
        }
    }
}

// The floats that the words of 16-bit operands stand for.
template <class Widen>
inline Operands<2> widened(const u32 (&a)[4], const u32 (&b)[2], Widen widen) {
    Operands<2> own;
    for (int half = 0; half < 2; ++half) {
        for (int w = 0; w < 4; ++w) own.a[w][half] = widen(a[w] >> 16 * half & 0xffffu);
        for (int w = 0; w < 2; ++w) own.b[w][half] = widen(b[w] >> 16 * half & 0xffffu);
    }
    return own;
}

inline void mma_m16n8k16_f16(
    float (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    const auto widen = [](u32 bits) { return to_float(f16{static_cast<unsigned short>(bits)}); };
    multiply_fragments(d, widened(a, b, widen), line);
}

inline void mma_m16n8k16_bf16(
    float (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    const auto widen = [](u32 bits) { return __int_as_float(static_cast<int>(bits << 16)); };
    multiply_fragments(d, widened(a, b, widen), line);
}

// To 10 stored bits of fraction, ties away from zero; infinities and NaN stay.
inline float round_tf32(float value) {
    const u32 bits = static_cast<u32>(__float_as_int(value));
    const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
    return __int_as_float(static_cast<int>(is_finite ? (bits + 0x1000u) & ~0x1fffu : bits));
}

inline void mma_m16n8k8_tf32(
    float (&d)[2][2], const float (&a)[4], const float (&b)[2], int line = __builtin_LINE()) {
    Operands<1> own;
    for (int w = 0; w < 4; ++w) own.a[w][0] = round_tf32(a[w]);
    for (int w = 0; w < 2; ++w) own.b[w][0] = round_tf32(b[w]);
    multiply_fragments(d, own, line);
}

// One lane's operands of a product of bytes.
struct ByteOperands {
    u32 a[4];
    u32 b[2];
};

// d += a * b over 32 depths of bytes: word c of b and words 2c and 2c + 1 of a hold depths 16c + 4t and on.
template <class A, class B>
inline void multiply_bytes(int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line) {
    ByteOperands own;
    __builtin_memcpy(own.a, a, sizeof a);
    __builtin_memcpy(own.b, b, sizeof b);
    const unsigned char* warp = loom::gather(&own, sizeof own, line);
    const int group = loom::lane() / 4, in_group = loom::lane() % 4;
    for (int c = 0; c < 2; ++c) {
        for (int t = 0; t < 4; ++t) {
            const auto& rows = *reinterpret_cast<const ByteOperands*>(warp + (4 * group + t) * loom::HANDED);
            for (int v = 0; v < 2; ++v) {
                const int column = 2 * in_group + v;
                const auto& columns = *reinterpret_cast<const ByteOperands*>(warp + (4 * column + t) * loom::HANDED);
                for (int e = 0; e < 32; e += 8) {
                    const int factor = static_cast<B>(columns.b[c] >> e);
                    // Sums wrap, which only unsigned numbers may in C++.
                    for (int h = 0; h < 2; ++h) {
                        const int product = static_cast<A>(rows.a[2 * c + h] >> e) * factor;
                        d[h][v] = static_cast<int>(static_cast<u32>(d[h][v]) + static_cast<u32>(product));
                    }
                }
            }
        }
    }
}

inline void mma_m16n8k32_s8_s8(
    int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    multiply_bytes<i8, i8>(d, a, b, line);
}
inline void mma_m16n8k32_s8_u8(
    int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    multiply_bytes<i8, u8>(d, a, b, line);
}
inline void mma_m16n8k32_u8_s8(
    int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    multiply_bytes<u8, i8>(d, a, b, line);
}
inline void mma_m16n8k32_u8_u8(
    int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    multiply_bytes<u8, u8>(d, a, b, line);
}
