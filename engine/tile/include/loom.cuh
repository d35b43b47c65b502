// Everything that generated kernels may call.  The emulator compiles the same kernels against its own loom.cuh
// (run/emulate/include), which replaces every file that contains an instruction and shares the others.
#pragma once

#include "types.cuh"         // shared: element types, vectors of elements, constants
#include "instructions.cuh"  // replaced: conversions and arithmetic that are one PTX instruction
#include "float8.cuh"        // shared: floats of 8 bits
#include "global.cuh"        // replaced: loads and stores of global memory
#include "shared.cuh"        // replaced: loads and stores of shared memory
#include "copy.cuh"          // replaced: asynchronous copies from global to shared memory
#include "turn.cuh"          // shared: vectors turned in the registers of a thread
#include "scalar.cuh"        // shared: the scalar functions of tensor expressions
#include "reduce.cuh"        // shared: the operations of reductions
#include "warp.cuh"          // replaced: barriers, shuffles, reductions over a warp
#include "team.cuh"          // replaced: sums that blocks hand to each other
#include "swizzle.cuh"       // shared: the places of a tile's elements in shared memory
#include "fragment.cuh"      // shared: scalar functions of the elements of a fragment
#include "tensor.cuh"        // replaced: matrix loads and products on tensor cores
