// What NVRTC gives every kernel without a header: keywords, the position of a thread, the C mathematics library.
// The library's functions are declared here one by one because <cmath> would dominate the compile time of a kernel.
#pragma once

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct uint3 {
    unsigned x, y, z;
};

// Plain globals: all fibers share one operating-system thread, and the machine sets these before it resumes one.
extern uint3 threadIdx, blockIdx, blockDim, gridDim;

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float fmaf(float, float, float) noexcept;
float logf(float) noexcept;
float sqrtf(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float atanf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float fabsf(float) noexcept;
float fmodf(float, float) noexcept;
float powf(float, float) noexcept;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

inline float __int_as_float(int bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
inline int __float_as_int(float value) {
    int bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
