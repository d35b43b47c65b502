"""What every GPU that kernels are generated for has alike; what differs between them is a figure of its `Target`."""

from __future__ import annotations

WARP = 32
"""Threads of a warp (CUDA C++ Programming Guide, hardware implementation)."""
MAX_THREADS = 1024
"""Threads of a block, at most (CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0)."""
MAX_WARPS = MAX_THREADS // WARP
"""Of a block."""
MAX_GRID = 2**31 - 1
"""Blocks of a grid along its first dimension, at most (the same table)."""
BLOCK_REGISTERS = 64 * 1024
"""Registers that the threads of a block share: all of an SM's (the same table)."""
REGISTER_BYTES = 4
"""Of a register: 32 bits (PTX ISA, state spaces)."""
SCHEDULERS = 4
"""Warp schedulers of an SM (CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0)."""
SECTOR = 32
"""Bytes that global memory moves at least: a quarter of a cache line (Nsight Compute documentation, memory tables)."""
VECTOR_BYTES = 16
"""Bytes that one instruction of a thread moves at most (PTX ISA, ld and st: .v4 of 32 bits)."""
BANKS, BANK_BYTES = 32, 4
"""Of shared memory, each of which serves one word a clock (CUDA C++ Programming Guide, shared memory)."""
PASS_BYTES = BANKS * BANK_BYTES
"""That all banks serve in one pass."""
SUM_BYTES = 4
"""Of an accumulator: all sums of products are float32, on tensor cores (PTX ISA, mma.sync .f32) and on CUDA cores."""
