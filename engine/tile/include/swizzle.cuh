// Where the elements of a tile lie in shared memory so that rows and columns of 16-byte chunks meet different banks.
#pragma once

// The place of element `index` of a tile of T whose rows are ROW_BYTES long: within every 128 bytes the 16-byte chunks
// are permuted by the row (chunk ^ row % 8; two or four rows share 128 bytes where they are shorter).  For elements of 4
// bytes the bits of the row are rotated, so that four rows of two neighbouring chunks meet different banks as well.
template <int ROW_BYTES, class T>
__device__ __forceinline__ int swizzle(int index) {
    static_assert(ROW_BYTES >= 32 && (ROW_BYTES & (ROW_BYTES - 1)) == 0, "rows of two chunks and more, a power of two");
    constexpr int LINE = ROW_BYTES < 128 ? 128 : ROW_BYTES;
    constexpr int CHUNKS = (ROW_BYTES < 128 ? ROW_BYTES : 128) / 16;
    constexpr int CHUNK = 16 / static_cast<int>(sizeof(T));
    constexpr int ELEMENTS = LINE / static_cast<int>(sizeof(T));
    const int row = index / ELEMENTS % CHUNKS;
    const int phase = sizeof(T) == 4 ? row * 2 % CHUNKS + row * 2 / CHUNKS : row;
    return index ^ (phase * CHUNK);
}
