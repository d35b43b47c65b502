"""The shared memory that a kernel of ours may have: one limit for all who plan, make and check kernels."""

from __future__ import annotations

from engine.target.nodes import Target

SHARED_BYTES = 163 * 1024
"""Bytes of one block: what every known target has (CUDA C++ programming guide, compute capability 8.0), so that the
CUDA text of a kernel runs on all of them."""
SCRATCH_BYTES = 8 * 1024
"""Bytes of these that a stitched kernel's reductions have for the parts of their warps."""


def most_shared(target: Target) -> int:
    """Bytes of shared memory that a block of ours may have on a target."""
    return min(SHARED_BYTES, int(target.shared_per_block.value))


def most_handed_over(target: Target | None = None) -> int:
    """Bytes that a stitched kernel may hand over in shared memory; on every known target where none is named."""
    return (most_shared(target) if target else SHARED_BYTES) - SCRATCH_BYTES
