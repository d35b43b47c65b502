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

    // One step of the depth.  rows: the word of the first row; place(i): words from there to row i.
    template <class Place>
    LOOM void add(const void* rows, Place place, const void* columns) {
        Vector<u32> column[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j) {
            column[j] = load<u32>(static_cast<const u32*>(columns) + j * LANES);
            if (ROWS > 1) keep_in_register(column[j]);
        }
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; ++i) {
            u32 row;
            std::memcpy(&row, static_cast<const u32*>(rows) + place(i), 4);
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

// Words of a staged copy: some neighbouring floats, or bytes of four places that are a word together, STEP elements apart.
template <int STEP>
LOOM void stage(u32* to, int count, const float* from) {
    for (int n = 0; n < count; n += LANES) {
#ifdef __AVX512F__
        if constexpr (STEP == 1) {
            const __mmask16 mask = count - n >= LANES ? 0xffff : (1u << (count - n)) - 1;
            _mm512_mask_storeu_epi32(to + n, mask, _mm512_maskz_loadu_epi32(mask, from + n));
            continue;
        }
#endif
        for (int at = n; at < count && at < n + LANES; ++at) to[at] = bits_of(from[at * STEP]);
    }
}

#ifdef __AVX512BW__
// 16 bytes, STEP apart, each in a word of its own; those beyond `count` are 0 and not read.
template <int STEP>
LOOM __m512i spread(const void* from, int count) {
    if constexpr (STEP == 1)
        return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(count >= LANES ? 0xffff : (1u << count) - 1, from));
    const __m256i pairs = _mm256_maskz_loadu_epi8(count >= LANES ? 0x7fffffffu : (1u << (2 * count - 1)) - 1, from);
    return _mm512_and_si512(_mm512_cvtepu16_epi32(pairs), _mm512_set1_epi32(255));
}
#endif

template <int STEP, class T>
LOOM void stage(u32* to, int count, int shift, const T* a, const T* b, const T* c, const T* d) {
    for (int n = 0; n < count; n += LANES) {
#ifdef __AVX512BW__
        if constexpr (STEP <= 2) {
            const int left = count - n, at = n * STEP;
            const __m512i low = _mm512_or_si512(spread<STEP>(a + at, left), _mm512_slli_epi32(spread<STEP>(b + at, left), 8));
            const __m512i high = _mm512_or_si512(spread<STEP>(c + at, left), _mm512_slli_epi32(spread<STEP>(d + at, left), 8));
            const __m512i words = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
            const __mmask16 mask = left >= LANES ? 0xffff : (1u << left) - 1;
            _mm512_mask_storeu_epi32(to + n, mask, _mm512_xor_si512(words, _mm512_set1_epi32(shift * 0x01010101)));
            continue;
        }
#endif
        for (int i = n; i < count && i < n + LANES; ++i) {
            const int at = i * STEP;
            to[i] = word(a[at] + shift, b[at] + shift, c[at] + shift, d[at] + shift);
        }
    }
}

// A tile's sums with its rows as lanes: turned[column][row], LINE rows a column.
template <int HEIGHT, int WIDTH, int LINE, class Sum>
LOOM void turn(const Sum* found, int columns, Sum* turned) {
#pragma GCC unroll 4
    for (int first = 0; first < WIDTH * LANES; first += LANES) {
#ifdef __AVX512F__
        __m512i rows[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i)
            rows[i] = i < HEIGHT ? _mm512_loadu_si512(found + i * columns + first) : _mm512_setzero_si512();
        // Neighbouring elements, pairs, fours and eights of rows change places.
        __m512i other[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i += 2) {
            other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
            other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < LANES; i += 4) {
            rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
            rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
            rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
            rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            other[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
            other[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
            other[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
            other[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            const int at = first + i;
            _mm512_storeu_si512(turned + at * LINE, _mm512_shuffle_i32x4(other[i], other[i + 8], 0x88));
            _mm512_storeu_si512(turned + (at + 8) * LINE, _mm512_shuffle_i32x4(other[i], other[i + 8], 0xdd));
        }
#else
        for (int column = first; column < first + LANES; ++column)
            for (int row = 0; row < HEIGHT; ++row) turned[column * LINE + row] = found[row * columns + column];
#endif
    }
}
