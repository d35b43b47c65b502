// The emulator's side of tile/include/loom.cuh: the same names, on the CPU.  In checked builds (LOOM_CHECKED=1) every
// access and synchronisation reports to the machine, with the line of the CUDA text that made it.
#pragma once

#include "platform.hpp"

#include "types.cuh"
#include "instructions.cuh"
#include "float8.cuh"
#include "global.cuh"
#include "shared.cuh"
#include "copy.cuh"
#include "turn.cuh"
#include "scalar.cuh"
#include "reduce.cuh"
#include "warp.cuh"
#include "team.cuh"
#include "swizzle.cuh"
#include "fragment.cuh"
#include "tensor.cuh"
