// Global memory, seen by the machine in checked builds.
#pragma once

#include "machine.hpp"
#include "platform.hpp"
#include "types.cuh"

template <class T>
struct Global {
    using Element = typename Plain<T>::Type;
    T* base;
    i64 elements;

    __forceinline__ Global(T* pointer, i64 elements) : base(pointer), elements(elements) {}

    __forceinline__ Element load(i64 index, int line = __builtin_LINE()) const {
        if (loom::CHECKED && !loom::may_load_global(access(index, 1, line))) return Element();
        return base[index];
    }

    template <int N>
    __forceinline__ Pack<Element, N> load(i64 index, int line = __builtin_LINE()) const {
        static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
        if (loom::CHECKED && !loom::may_load_global(access(index, N, line))) return Pack<Element, N>();
        return *reinterpret_cast<const Pack<Element, N>*>(base + index);
    }

    __forceinline__ void store(i64 index, Element value, int line = __builtin_LINE()) const {
        if (loom::CHECKED && !loom::may_store_global(access(index, 1, line))) return;
        base[index] = value;
    }

    template <int N>
    __forceinline__ void store(i64 index, const Pack<Element, N>& values, int line = __builtin_LINE()) const {
        static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
        if (loom::CHECKED && !loom::may_store_global(access(index, N, line))) return;
        *reinterpret_cast<Pack<Element, N>*>(base + index) = values;
    }

    __forceinline__ loom::Access access(i64 index, int count, int line) const {
        return {base, elements, index, sizeof(T), count, line};
    }
};
