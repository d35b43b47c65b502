// Asynchronous copies: the machine decides when they land.
#pragma once

#include "global.cuh"
#include "shared.cuh"

template <int BYTES, class T>
__forceinline__ void async_copy(
    Shared<T> to, int to_index, Global<const T> from, i64 from_index, int valid_elements, int line = __builtin_LINE()) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
    static_assert(BYTES % sizeof(T) == 0, "whole elements");
    loom::issue_copy(to.access(to_index, BYTES / sizeof(T), line), from.access(from_index, valid_elements, line));
}

inline void async_commit() { loom::commit_copies(); }

template <int N>
inline void async_wait() {
    loom::wait_for_copies(N);
}
