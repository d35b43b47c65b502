"""Registers of a thread: what estimates and lowerings count besides the values that a kernel is seen to hold.


The bases stand for loop counters, bounds, addresses and masks, which exist only in the compiler's output.
"""

from __future__ import annotations

# Bases of the estimates, by form of kernel: round figures, until a fit to compiled kernels replaces them.

ELEMENTWISE_BASE = 20
"""Beside the values that a thread computes."""
REDUCTION_BASE = 24
"""Beside what a thread holds of a row."""
STITCHED_BASE = 32
"""Beside the elements that a thread holds, of a stitched kernel or of the parts of a packed one."""
ATTENTION_BASE = 40
"""Beside scores and results."""
PLANNED_BASE = 16
"""Beside the values of statements that fusion looks at, which have no loops yet: indices, bounds and pointers."""
FAST_REGISTERS = 16
"""All of a thread's registers in the fast form of fusion's latency model (FusionStitching, section 4.3)."""

# Matrix products: a base and slopes, fitted together to what NVRTC 13.0 gives kernels of ours.

GEMM_BASE = 16
"""Beside sums and fragments: a few counters."""
GEMM_PER_SUM = 1 / 4
"""Addresses and the epilogue, for each sum of a thread."""
GEMM_PER_COPY, GEMM_PER_NARROW_COPY = 1, 6
"""The place of every copy; position and guard of one narrower than `VECTOR_BYTES`."""
GEMM_PER_HELD, GEMM_IN_TURNS = 7.5, 14
"""For every element that goes through a register a tile ahead, and in all where the elements take turns."""
GEMM_ERROR = 0.1
"""Mean relative error of this estimate over the published operators, rounded up."""

# What lowerings leave to the compiler when they choose how many elements a thread keeps.

REDUCTION_RESERVE, STITCHED_RESERVE = 32, 40
"""Registers for anything but elements of rows.  More than the bases, as a spill costs more than reading an element
again: no kernel of the tests spills with them (NVRTC 13.0)."""
COLUMN_RESERVE = 1
"""Further ones where the elements of a thread lie in several rows, each with an address: of 27 to 32 that 1,024 threads
keep of a softmax, 32 spill 16 bytes on sm_90a where some are masked, 31 spill nothing (NVRTC 13.0)."""
HELD_ELEMENTS = 64
"""Elements of rows that a thread keeps from one pass to another; twice as many still fit without spills, but leave room
for fewer blocks (NVRTC 13.0)."""
VALUE_REGISTERS = 240
"""For values alive at once, of the 255 that there are: NVRTC 13.0 spills nothing up to here, and soon past it."""
MAX_PRIVATE = 128
"""Elements of one array that a thread keeps: half of its registers; longer arrays would lie in memory."""
