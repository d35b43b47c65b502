// Tensor cores: matrix loads from shared memory and matrix products, by all 32 lanes of a warp together.
#pragma once

#include "shared.cuh"
#include "swizzle.cuh"
#include "types.cuh"

// Four 8-row matrices of 16-byte rows (ldmatrix.x4).  Lane l gives the position of row l % 8 of matrix l / 8 in `tile`;
// of matrix q it receives in words[q] the 4 bytes at row l / 4, byte 4 * (l % 4).
template <class T, class Words>
__device__ __forceinline__ void ldmatrix_x4(Words& words, Shared<T> tile, int row) {
    static_assert(sizeof(Words) == 16, "one 32-bit word of each matrix");
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(tile.base + row));
    u32* word = reinterpret_cast<u32*>(&words);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(address));
}

// The same with every matrix of 2-byte elements transposed: lane l receives column l / 4, rows 2 * (l % 4) and the next.
template <class T, class Words>
__device__ __forceinline__ void ldmatrix_x4_trans(Words& words, Shared<T> tile, int row) {
    static_assert(sizeof(Words) == 16 && sizeof(T) == 2, "one 32-bit word of each matrix, elements of 2 bytes");
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(tile.base + row));
    u32* word = reinterpret_cast<u32*>(&words);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(address));
}

// d += a * b for 16 x 16 and 16 x 8 operands.  With g = lane / 4 and t = lane % 4, d[h][v] is row g + 8h, column 2t + v;
// a[h + 2c] holds row g + 8h, b[c] column g, both at depths 8c + 2t and the next, the first in the low half.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for bfloat16.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// To the nearest tf32, ties away from zero.
__device__ __forceinline__ u32 round_tf32(float value) {
    u32 result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
    return result;
}

// d += a * b for 16 x 8 and 8 x 8 floats, which are rounded to tf32 first.  a[h + 2c] is row g + 8h, b[c] column g, both
// at depth 4c + t.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[2][2], const float (&a)[4], const float (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
        : "r"(round_tf32(a[0])), "r"(round_tf32(a[1])), "r"(round_tf32(a[2])), "r"(round_tf32(a[3])),
          "r"(round_tf32(b[0])), "r"(round_tf32(b[1])));
}

// d += a * b for 16 x 32 and 32 x 8 bytes, with a sign (s8) or without (u8), exactly.  a[h + 2c] holds row g + 8h, b[c]
// column g, both at depths 16c + 4t and the next three, the first in the lowest byte.
#define LOOM_MULTIPLY_BYTES(A, B)                                                                                     \
    __device__ __forceinline__ void mma_m16n8k32_##A##_##B(int (&d)[2][2], const u32 (&a)[4], const u32 (&b)[2]) {    \
        asm volatile(                                                                                                 \
            "mma.sync.aligned.m16n8k32.row.col.s32." #A "." #B                                                        \
            ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                    \
            : "+r"(d[0][0]), "+r"(d[0][1]), "+r"(d[1][0]), "+r"(d[1][1])                                              \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                      \
    }
LOOM_MULTIPLY_BYTES(s8, s8)
LOOM_MULTIPLY_BYTES(s8, u8)
LOOM_MULTIPLY_BYTES(u8, s8)
LOOM_MULTIPLY_BYTES(u8, u8)
#undef LOOM_MULTIPLY_BYTES
