"""Two runs of a search beside each other: what each found of one group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What one run found of one group."""

    origin: str
    """Of its times; "" where the run has no such group."""
    trials: int
    failures: int
    best: float | None
    """Microseconds; None where no trial has a time."""
    number: int | None
    """Of the first trial with the best time, from 1."""
    reached: int | None
    """Number of the first trial that was as fast as the slower of both runs' bests; None where these do not compare."""


@dataclass(frozen=True, slots=True)
class ProgramDifference:
    """A dimension in which the best programs of two runs differ."""

    name: str
    own: str
    """The value in one run; "" where its program has no such dimension."""
    other: str


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """A group in one run and in another."""

    own: GroupResult
    other: GroupResult
    ratio: float | None
    """The other best over the own: above 1 where the own is faster.  None where they do not compare."""
    why_not: str
    """Why the bests do not compare; "" where they do."""
    differences: tuple[ProgramDifference, ...]
    """Of the best programs, in the order of the own, then of the other; empty where a run has no best."""
