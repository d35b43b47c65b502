"""Resident blocks per SM: the arithmetic of NVIDIA's occupancy calculator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.support.errors import Unsupported
from engine.target.hardware import WARP
from engine.target.nodes import Target

REGISTER_UNIT = 256
"""Registers are handed to a warp in multiples of this (compute capability 7.0 and later)."""
WARP_UNIT = 4
"""An SM has four register files, so warps that fit by registers count in fours."""
SHARED_UNIT = 128
"""Shared memory is handed out in multiples of this many bytes."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks one SM holds, and why not more."""

    blocks: int
    """Resident blocks on one SM."""
    warps: int
    """Resident warps on one SM when it is full."""
    share: float
    """`warps` over the SM's limit, 0..1."""
    limits: tuple[tuple[str, int], ...]
    """(resource, blocks it allows), every resource."""
    limiter: str
    """The resource that allows the fewest; "the grid" is none of them."""


@lru_cache(maxsize=4096)
def occupancy(threads: int, shared_bytes: int, registers: int | None, target: Target) -> Occupancy:
    """Blocks and warps that one SM holds at once; Unsupported when not even one block fits.

    threads, shared_bytes: of a block.  registers: of a thread; None where they are not known and do not limit.
    """
    warps = -(-threads // WARP)
    limits = [
        ("block slots", int(target.blocks_per_sm.value)),
        ("warps", int(target.warps_per_sm.value) // warps),
        ("shared memory", _blocks_by_shared_memory(shared_bytes, target)),
    ]
    if registers is not None:
        limits.append(("registers", _blocks_by_registers(registers, warps, target)))
    _check_fits(threads, shared_bytes, registers or 0, target, dict(limits))
    limiter, blocks = min(limits, key=lambda limit: limit[1])
    held = blocks * warps
    return Occupancy(blocks, held, held / target.warps_per_sm.value, tuple(limits), limiter)


def _blocks_by_shared_memory(size: int, target: Target) -> int:
    needed = _round_up(size + int(target.shared_reserved.value), SHARED_UNIT)
    return int(target.shared_per_sm.value) // needed


def _blocks_by_registers(registers: int, warps: int, target: Target) -> int:
    of_warp = _round_up(max(registers, 1) * WARP, REGISTER_UNIT)
    fitting = int(target.registers_per_sm.value) // of_warp // WARP_UNIT * WARP_UNIT
    return fitting // warps


def _check_fits(threads: int, shared_bytes: int, registers: int, target: Target, limits: dict[str, int]) -> None:
    """Refuse a launch that the driver would refuse."""
    needs = [
        ("threads", threads, target.threads_per_block, "a smaller tile"),
        ("bytes of shared memory", shared_bytes, target.shared_per_block, "a smaller tile or fewer stages"),
        ("registers a thread", registers, target.registers_per_thread, "a smaller tile per thread"),
    ]
    for what, needed, limit, hint in needs:
        if needed > limit.value:
            reason = f"it needs {needed:,} {what}; a block of {target.name} may have {limit.value:,.0f}"
            raise Unsupported("predict", "kernel", reason, hint)
    for resource, blocks in limits.items():
        if blocks == 0:
            raise Unsupported(
                "predict", "kernel", f"not one block fits an SM of {target.name} by {resource}", "use fewer threads"
            )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
