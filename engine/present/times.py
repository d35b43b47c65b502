"""Measured times as documents."""

from __future__ import annotations

from engine.documents.model import Time
from engine.execution.nodes import Timing


def time_doc(timing: Timing) -> Time:
    """A measured time, ready to show."""
    environment = timing.environment or {}
    note = ", ".join(str(environment[key]) for key in ("device", "date") if key in environment)
    if timing.noise:
        note = f"{note}; noisy: {timing.noise}"
    return Time(
        timing.microseconds, timing.origin, note, timing.low, timing.high, timing.samples,
        environment.get("device", ""), environment.get("date", ""), timing.rounds, timing.noise,
    )  # fmt: skip
