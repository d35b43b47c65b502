"""What the model of a compiled kernel promises a program, from figures that are known before it is compiled."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.kernels.space import ResourceEstimate
from engine.target import Target


def promised(
    base: Work, figures: ResourceEstimate, machine: Target, accesses: float, requested: int | None = None
) -> float:
    """Microseconds of a program.

    base: facts of another program of the same group, which moves and computes as much.  requested: bytes asked of L2,
    where more is known than `figures` tell.  accesses: requests of warps to memory.  To what the model of compiled
    kernels tells, which knows bytes alone, comes the time to issue them, one in a clock of an SM: between programs that
    are equal otherwise, the one with wider accesses is tried first.
    """
    facts = replace(
        base,
        blocks=figures.blocks,
        threads=figures.threads,
        serial_steps=figures.steps,
        stages=figures.stages,
        shared_bytes=figures.shared_bytes,
        l2_bytes=figures.requested if requested is None else requested,
        registers=None,
    )
    issue = accesses / (machine.sms.value * machine.clock.value)
    return estimate_microseconds(facts, machine) + issue * 1e6
