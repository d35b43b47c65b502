"""What a fit works on."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost.nodes import Work


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured time and the launches that it is made of."""

    name: str
    kind: str
    """Of its dearest launch: "row reduction", "contraction on tensor cores" ..."""
    microseconds: float
    launches: tuple[tuple[int, Work], ...]
    """(times, one launch), one after another."""
