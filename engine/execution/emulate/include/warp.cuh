// Barriers and warp collectives: each gives the processor to another thread.
#pragma once

#include "machine.hpp"
#include "platform.hpp"
#include "reduce.cuh"
#include "types.cuh"

__forceinline__ void barrier(int line = __builtin_LINE()) { loom::block_barrier(line); }
__forceinline__ void warp_sync(int line = __builtin_LINE()) { loom::warp_barrier(line); }

// The value that `source` brings to the collective at `line`.
template <class T>
inline T value_of_lane(T v, int source, int line) {
    const unsigned char* warp = loom::gather(&v, sizeof v, line);
    __builtin_memcpy(&v, warp + source * loom::HANDED, sizeof v);
    return v;
}

template <class T>
__forceinline__ T shuffle_xor(T v, int mask, int line = __builtin_LINE()) {
    return value_of_lane(v, loom::lane() ^ mask, line);
}

template <class T>
__forceinline__ T shuffle_down(T v, int n, int line = __builtin_LINE()) {
    const int source = loom::lane() + n;
    return value_of_lane(v, source < 32 ? source : loom::lane(), line);
}

template <class T>
__forceinline__ T shuffle_at(T v, int lane, int line = __builtin_LINE()) {
    return value_of_lane(v, lane & 31, line);
}

template <class Op, int WIDTH = 32>
inline typename Op::Value warp_reduce(typename Op::Value v, int line = __builtin_LINE()) {
    static_assert(WIDTH >= 1 && WIDTH <= 32 && (WIDTH & (WIDTH - 1)) == 0, "a power of two of lanes");
    for (int mask = WIDTH / 2; mask > 0; mask /= 2) v = Op::apply(v, shuffle_xor(v, mask, line));
    return v;
}
template <template <class> class Op, int WIDTH = 32, class T>
inline T warp_reduce(T v, int line = __builtin_LINE()) {
    return warp_reduce<Op<T>, WIDTH>(v, line);
}

template <template <class> class Op, class T>
inline T warp_scan(T v, int line = __builtin_LINE()) {
    const int lane = loom::lane();
    T joined = v;
    for (int apart = 1; apart < 32; apart *= 2) {
        const T before = shuffle_at(joined, lane - apart, line);
        if (lane >= apart) joined = Op<T>::apply(before, joined);
    }
    const T before = shuffle_at(joined, lane - 1, line);
    return lane == 0 ? Op<T>::identity() : before;
}
