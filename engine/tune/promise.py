"""What the model of a compiled kernel promises a program, from figures that are known before it is compiled."""

from __future__ import annotations

from dataclasses import replace

from engine.predict.calibration import predict
from engine.predict.nodes import KernelFacts
from engine.target import Target
from engine.tune.nodes import Figures

ISSUED = 4
"""Instructions that an SM issues in a clock, one for each scheduler; assumed for each access: its address, its mask,
itself, and one of what it brings."""
LANES = 32


def promised(base: KernelFacts, figures: Figures, width: int, machine: Target) -> float:
    """Microseconds of a program.

    base: facts of another program of the same group, which moves and computes as much.  width: bytes of one access of
    a thread.  To what the model of compiled kernels tells, which knows bytes alone, comes the time to issue the
    accesses: between programs that are equal otherwise, the wider one is tried first.
    """
    facts = replace(
        base,
        blocks=figures.blocks,
        threads=figures.threads,
        serial_steps=figures.steps,
        stages=figures.stages,
        shared_bytes=figures.shared_bytes,
        l2_bytes=figures.requested,
        registers=None,
    )
    requests = figures.requested / (width * LANES)
    issue = ISSUED * requests / (ISSUED * machine.sms.value * machine.clock.value)
    return predict(facts, machine).microseconds + issue * 1e6
