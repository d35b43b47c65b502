// Counters in global memory.  The machine orders what blocks stored by the counters they come to.
#pragma once

#include "global.cuh"
#include "machine.hpp"

inline int take_number(const Global<int>& counters, i64 index, int line = __builtin_LINE()) {
    return loom::take_number(counters.access(index, 1, line));
}

template <int TEAM>
inline bool is_last_of(const Global<int>& counters, i64 index, int line = __builtin_LINE()) {
    loom::block_barrier(line);
    if (threadIdx.x == 0) loom::come_to(counters.access(index, 1, line), TEAM);
    loom::block_barrier(line);
    return loom::came_last();
}

inline void grid_barrier(const Global<int>& counters, i64 index, int number, int of, int line = __builtin_LINE()) {
    loom::grid_barrier(counters.access(index, 1, line), number, of);
}
