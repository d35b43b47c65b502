// Scalar functions of the elements that a lane holds of an operand.
#pragma once

#include <instructions.cuh>  // by search path: the emulator puts its own first
#include "types.cuh"

// Replaces every float x of `words` by function(x).
template <class T, class Words, class Function>
struct OnElements;
template <class Words, class Function>
struct OnElements<float, Words, Function> {
    __device__ __forceinline__ static void apply(Words& words, Function function) {
        float* element = reinterpret_cast<float*>(&words);
#pragma unroll
        for (int n = 0; n < 4; ++n) element[n] = function(element[n]);
    }
};

// Two elements of 16 bits lie in each word, the first in its low bits.
template <class Words, class Function>
struct OnElements<f16, Words, Function> {
    __device__ __forceinline__ static void apply(Words& words, Function function) {
        u32* word = reinterpret_cast<u32*>(&words);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const f16 low{static_cast<unsigned short>(word[n])}, high{static_cast<unsigned short>(word[n] >> 16)};
            word[n] = fn_pack_f16(function(to_float(low)), function(to_float(high)));
        }
    }
};
template <class Words, class Function>
struct OnElements<bf16, Words, Function> {
    __device__ __forceinline__ static void apply(Words& words, Function function) {
        u32* word = reinterpret_cast<u32*>(&words);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const bf16 low{static_cast<unsigned short>(word[n])}, high{static_cast<unsigned short>(word[n] >> 16)};
            word[n] = fn_pack_bf16(function(to_float(low)), function(to_float(high)));
        }
    }
};

// Applies `function` to the elements of type T in the four words of a fragment.
template <class T, class Words, class Function>
__device__ __forceinline__ void on_elements(Words& words, Function function) {
    static_assert(sizeof(Words) == 16, "four words");
    OnElements<T, Words, Function>::apply(words, function);
}
