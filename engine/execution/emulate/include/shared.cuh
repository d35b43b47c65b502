// Shared memory, seen by the machine in checked builds.
#pragma once

#include "machine.hpp"
#include "platform.hpp"
#include "types.cuh"

#define LOOM_SHARED(BYTES) unsigned char* const shared_memory = loom::shared_arena(BYTES, __LINE__);

template <class T>
struct Shared {
    T* base;
    int elements;

    __forceinline__ Shared(unsigned char* start, int elements) : base(reinterpret_cast<T*>(start)), elements(elements) {
        (void)noted;
    }

    __forceinline__ T load(int index, int line = __builtin_LINE()) const {
        if (loom::CHECKED && !loom::may_load_shared(access(index, 1, line))) return T();
        return base[index];
    }

    template <int N>
    __forceinline__ Pack<T, N> load(int index, int line = __builtin_LINE()) const {
        static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
        if (loom::CHECKED && !loom::may_load_shared(access(index, N, line))) return Pack<T, N>();
        return *reinterpret_cast<const Pack<T, N>*>(base + index);
    }

    __forceinline__ void store(int index, T value, int line = __builtin_LINE()) const {
        if (loom::CHECKED && !loom::may_store_shared(access(index, 1, line))) return;
        base[index] = value;
    }

    template <int N>
    __forceinline__ void store(int index, const Pack<T, N>& values, int line = __builtin_LINE()) const {
        static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
        if (loom::CHECKED && !loom::may_store_shared(access(index, N, line))) return;
        *reinterpret_cast<Pack<T, N>*>(base + index) = values;
    }

    __forceinline__ loom::Access access(int index, int count, int line) const {
        return {base, elements, index, sizeof(T), count, line};
    }

private:
    static inline const bool noted = loom::note_shared_element(sizeof(T));
};
