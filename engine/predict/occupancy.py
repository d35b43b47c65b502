"""Resident blocks per SM: the arithmetic of NVIDIA's occupancy calculator."""

from __future__ import annotations

from engine.errors import Unsupported
from engine.predict.nodes import KernelFacts, Occupancy
from engine.target import Target

WARP = 32
REGISTER_UNIT = 256
"""Registers are handed to a warp in multiples of this (compute capability 7.0 and later)."""
WARP_UNIT = 4
"""An SM has four register files, so warps that fit by registers count in fours."""
SHARED_UNIT = 128
"""Shared memory is handed out in multiples of this many bytes."""


def occupancy(facts: KernelFacts, target: Target) -> Occupancy:
    """Resident blocks and warps of one SM; Unsupported when not even one block fits."""
    warps = -(-facts.threads // WARP)
    limits = [
        ("block slots", int(target.blocks_per_sm.value)),
        ("warps", int(target.warps_per_sm.value) // warps),
        ("shared memory", _blocks_by_shared_memory(facts.shared_bytes, target)),
    ]
    if facts.registers is not None:
        limits.append(("registers", _blocks_by_registers(facts.registers, warps, target)))
    _check_fits(facts, target, dict(limits))
    limiter, blocks = min(limits, key=lambda limit: limit[1])
    resident = blocks * warps
    return Occupancy(blocks, resident, resident / target.warps_per_sm.value, tuple(limits), limiter)


def _blocks_by_shared_memory(size: int, target: Target) -> int:
    needed = _round_up(size + int(target.shared_reserved.value), SHARED_UNIT)
    return int(target.shared_per_sm.value) // needed


def _blocks_by_registers(registers: int, warps: int, target: Target) -> int:
    of_warp = _round_up(max(registers, 1) * WARP, REGISTER_UNIT)
    fitting = int(target.registers_per_sm.value) // of_warp // WARP_UNIT * WARP_UNIT
    return fitting // warps


def _check_fits(facts: KernelFacts, target: Target, limits: dict[str, int]) -> None:
    """Refuse a launch that the driver would refuse."""
    needs = [
        ("threads", facts.threads, target.threads_per_block, "a smaller tile"),
        ("bytes of shared memory", facts.shared_bytes, target.shared_per_block, "a smaller tile or fewer stages"),
        ("registers a thread", facts.registers or 0, target.registers_per_thread, "a smaller tile per thread"),
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
