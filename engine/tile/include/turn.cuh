// Vectors turned in the registers of one thread.
#pragma once

#include "types.cuh"

// columns[c][r] = rows[r][c].  Written out it is a choice of bytes alone: for elements of four bytes no instruction.
template <class T, int ROWS, int COLUMNS>
__device__ __forceinline__ void turn_rows(Pack<T, ROWS> (&columns)[COLUMNS], const Pack<T, COLUMNS> (&rows)[ROWS]) {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) columns[c][r] = rows[r][c];
}
