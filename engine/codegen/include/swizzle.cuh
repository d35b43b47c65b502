// Where the elements of a tile lie in shared memory so that rows and columns of 16-byte chunks meet different banks.
#pragma once

// The place of element `index` of a tile of T whose rows are ROW_BYTES long: within every 128 bytes the 16-byte chunks
// are permuted by the row (chunk ^ row % 8; two or four rows share 128 bytes where they are shorter).
template <int ROW_BYTES, class T>
__device__ __forceinline__ int swizzle(int index) {
    static_assert(ROW_BYTES >= 32 && (ROW_BYTES & (ROW_BYTES - 1)) == 0, "rows of two chunks and more, a power of two");
    constexpr int LINE = ROW_BYTES < 128 ? 128 : ROW_BYTES;
    constexpr int CHUNKS = (ROW_BYTES < 128 ? ROW_BYTES : 128) / 16;
    constexpr int CHUNK = 16 / static_cast<int>(sizeof(T));
    constexpr int ELEMENTS = LINE / static_cast<int>(sizeof(T));
    return index ^ (index / ELEMENTS % CHUNKS * CHUNK);
}
