// Products of matrices in registers: a tile of sums, one depth at a time, and the instructions that multiply.
#pragma once

#include "types.hpp"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
LOOM Vector<T> load(const void* place) { return *static_cast<const Vector<T>*>(place); }
template <class T>
LOOM void store(void* place, Vector<T> value) { *static_cast<Vector<T>*>(place) = value; }

// A word holds what one step multiplies: a float, two halves of a word, or four bytes, of neighbouring depths.

// One fused multiply-add.
struct Fma {
    using Sum = float;
    LOOM static Vector<float> multiply(Vector<float> sums, u32 row, Vector<u32> columns) {
        return sums + float_of(row) * reinterpret_cast<Vector<float>>(columns);
    }
};

#ifdef __AVX2__
// Pairs of 16-bit integers, summed exactly.
struct MultiplyAdd16 {
    using Sum = int;
    LOOM static Vector<int> multiply(Vector<int> sums, u32 row, Vector<u32> columns) {
#ifdef __AVX512BW__
        const __m512i found = _mm512_madd_epi16(_mm512_set1_epi32(int(row)), reinterpret_cast<__m512i>(columns));
#else
        const __m256i found = _mm256_madd_epi16(_mm256_set1_epi32(int(row)), reinterpret_cast<__m256i>(columns));
#endif
        return sums + reinterpret_cast<Vector<int>>(found);
    }
};
#endif

#ifdef __AVX512VNNI__
// Four bytes, unsigned rows and signed columns: VPDPBUSD.
struct DotUnsignedRows {
    using Sum = int;
    LOOM static Vector<int> multiply(Vector<int> sums, u32 row, Vector<u32> columns) {
        return reinterpret_cast<Vector<int>>(_mm512_dpbusd_epi32(
            reinterpret_cast<__m512i>(sums), _mm512_set1_epi32(int(row)), reinterpret_cast<__m512i>(columns)));
    }
};
// Signed rows and unsigned columns.
struct DotUnsignedColumns {
    using Sum = int;
    LOOM static Vector<int> multiply(Vector<int> sums, u32 row, Vector<u32> columns) {
        return reinterpret_cast<Vector<int>>(_mm512_dpbusd_epi32(
            reinterpret_cast<__m512i>(sums), reinterpret_cast<__m512i>(columns), _mm512_set1_epi32(int(row))));
    }
};
#endif

#ifdef __AVX512BF16__
// Pairs of bfloat16, summed in float32: VDPBF16PS.
struct DotBfloat16 {
    using Sum = float;
    LOOM static Vector<float> multiply(Vector<float> sums, u32 row, Vector<u32> columns) {
        return reinterpret_cast<Vector<float>>(_mm512_dpbf16_ps(
            reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(_mm512_set1_epi32(int(row))),
            reinterpret_cast<__m512bh>(columns)));
    }
};
#endif

// Sums of ROWS x (VECTORS * LANES) elements of a product.
template <class Instruction, int ROWS, int VECTORS>
struct Tile {
    using Sum = typename Instruction::Sum;
    Vector<Sum> sums[ROWS][VECTORS];

    LOOM void clear() {
        for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = Vector<Sum>{};
    }

    // One step of the depth.  rows: the word of the first row; step: words from one row to the next.
    LOOM void add(const void* rows, i64 step, const void* columns) {
        Vector<u32> column[VECTORS];
        for (int j = 0; j < VECTORS; ++j) column[j] = load<u32>(static_cast<const u32*>(columns) + j * LANES);
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i) {
            u32 row;
            std::memcpy(&row, static_cast<const u32*>(rows) + i * step, 4);
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = Instruction::multiply(sums[i][j], row, column[j]);
        }
    }

    // width: elements of a row of `source` or `target`.
    LOOM void read(const Sum* source, int width) {
        for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = load<Sum>(source + i * width + j * LANES);
    }
    LOOM void write(Sum* target, int width) const {
        for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < VECTORS; ++j) store<Sum>(target + i * width + j * LANES, sums[i][j]);
    }
};

LOOM u32 word(float x) { return bits_of(x); }
LOOM u32 word(int a, int b) { return u32(u16(a)) | u32(u16(b)) << 16; }
LOOM u32 word(int a, int b, int c, int d) { return u32(u8(a)) | u32(u8(b)) << 8 | u32(u8(c)) << 16 | u32(u8(d)) << 24; }
LOOM u32 word_bf16(float a, float b) { return u32(bf16(a).bits) | u32(bf16(b).bits) << 16; }
