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

// The compiler reads few rows' columns from memory for each of them, twice as often as a core can where they are askew.
LOOM void keep_in_register(Vector<u32>& value) {
#ifdef __AVX512F__
    asm("" : "+v"(value));
#elif defined(__AVX2__)
    asm("" : "+x"(value));
#endif
}

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

// Sums of ROWS x (VECTORS * LANES) elements of a product.  All loops are unrolled: registers have no index, and sums that
// one reaches would be on the stack.
template <class Instruction, int ROWS, int VECTORS>
struct Tile {
    using Sum = typename Instruction::Sum;
    Vector<Sum> sums[ROWS][VECTORS];

    LOOM void clear() {
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = Vector<Sum>{};
    }

    // One step of the depth.  rows: the word of the first row; step: words from one row to the next.
    LOOM void add(const void* rows, i64 step, const void* columns) {
        Vector<u32> column[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j) {
            column[j] = load<u32>(static_cast<const u32*>(columns) + j * LANES);
            if (ROWS > 1) keep_in_register(column[j]);
        }
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i) {
            u32 row;
            std::memcpy(&row, static_cast<const u32*>(rows) + i * step, 4);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = Instruction::multiply(sums[i][j], row, column[j]);
        }
    }

    // width: elements of a row of `source` or `target`.
    LOOM void read(const Sum* source, int width) {
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = load<Sum>(source + i * width + j * LANES);
    }
    LOOM void write(Sum* target, int width) const {
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j) store<Sum>(target + i * width + j * LANES, sums[i][j]);
    }
};

// Some of the elements of a vector, from memory to a line of what variables hold, and back.  Lines have 32 bits an
// element, so that loops over them are whole vectors, whatever memory holds.
template <class T>
LOOM void take_raw(T (&line)[LANES], const T* from, int count) {
    if (count >= LANES) {
        std::memcpy(line, from, sizeof line);
        return;
    }
#ifdef __AVX512BW__
    const u32 mask = (1u << count) - 1;
    if constexpr (sizeof(T) == 4) {
        _mm512_store_si512(line, _mm512_maskz_loadu_epi32(__mmask16(mask), from));
        return;
    } else if constexpr (sizeof(T) == 2) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(line), _mm256_maskz_loadu_epi16(__mmask16(mask), from));
        return;
    } else if constexpr (sizeof(T) == 1) {
        _mm_store_si128(reinterpret_cast<__m128i*>(line), _mm_maskz_loadu_epi8(__mmask16(mask), from));
        return;
    }
#endif
    std::memset(line, 0, sizeof line);
    for (int n = 0; n < count; ++n) line[n] = from[n];
}

template <class T>
LOOM void put_raw(T* to, const T (&line)[LANES], int count) {
    if (count >= LANES) {
        std::memcpy(to, line, sizeof line);
        return;
    }
#ifdef __AVX512BW__
    const u32 mask = (1u << count) - 1;
    if constexpr (sizeof(T) == 4) {
        _mm512_mask_storeu_epi32(to, __mmask16(mask), _mm512_load_si512(line));
        return;
    } else if constexpr (sizeof(T) == 2) {
        _mm256_mask_storeu_epi16(to, __mmask16(mask), _mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
        return;
    } else if constexpr (sizeof(T) == 1) {
        _mm_mask_storeu_epi8(to, __mmask16(mask), _mm_load_si128(reinterpret_cast<const __m128i*>(line)));
        return;
    }
#endif
    for (int n = 0; n < count; ++n) to[n] = line[n];
}

template <class Held, class T>
LOOM void take(Held (&line)[LANES], const T* from, int count) {
    alignas(64) T raw[LANES];
    take_raw(raw, from, count);
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 1 && sizeof(Held) == 4) {
        const __m128i codes = _mm_load_si128(reinterpret_cast<const __m128i*>(raw));
        const bool is_signed = T(-1) < T(0);
        _mm512_store_si512(line, is_signed ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes));
        return;
    }
#endif
    for (int n = 0; n < LANES; ++n) line[n] = Held(raw[n]);
}

template <class Held, class T>
LOOM void put(T* to, const Held (&line)[LANES], int count) {
    alignas(64) T raw[LANES];
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 1 && sizeof(Held) == 4) {  // the lowest 8 bits
        _mm_store_si128(reinterpret_cast<__m128i*>(raw), _mm512_cvtepi32_epi8(_mm512_load_si512(line)));
        put_raw(to, raw, count);
        return;
    }
#endif
    for (int n = 0; n < LANES; ++n) raw[n] = T(line[n]);
    put_raw(to, raw, count);
}

LOOM u32 word(float x) { return bits_of(x); }
LOOM u32 word(int a, int b) { return u32(u16(a)) | u32(u16(b)) << 16; }
LOOM u32 word(int a, int b, int c, int d) { return u32(u8(a)) | u32(u8(b)) << 8 | u32(u8(c)) << 16 | u32(u8(d)) << 24; }
LOOM u32 word_bf16(float a, float b) { return u32(bf16(a).bits) | u32(bf16(b).bits) << 16; }
