"""What every GPU that kernels are generated for has alike; what differs between them is a figure of its `Target`."""

from __future__ import annotations

WARP = 32
"""Threads of a warp (CUDA C++ Programming Guide, hardware implementation)."""
MAX_THREADS = 1024
"""Threads of a block, at most (CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0)."""
MAX_WARPS = MAX_THREADS // WARP
"""Warps of a block, at most."""
SCHEDULERS = 4
"""Warp schedulers of an SM (the same table)."""
SECTOR = 32
"""Bytes that global memory moves at least: a quarter of a cache line (Nsight Compute documentation, memory tables)."""
