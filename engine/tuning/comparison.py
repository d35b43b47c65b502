"""Two runs of one group beside each other: what each found, and after how many trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.documents.comparison import GroupComparison, GroupResult, ProgramDifference

Numbers = NDArray[np.float64]
Pair = tuple[str | None, str | None]
"""Names of a group in one run and in another; None in a run that has none such."""


@dataclass(frozen=True)
class GroupTrials:
    """What one run tried of one group."""

    origin: str
    """Of all times: "measured", "predicted", ..."""
    times: Numbers
    """Microseconds in the order of the trials; NaN, or infinite, for a failure."""
    program: Mapping[str, str] = field(default_factory=dict)
    """Dimension -> its value in the best program."""


def best_so_far(times: Numbers) -> Numbers:
    """The fastest up to each trial, one value for each: NaN until the first trial with a time.

    times: microseconds; NaN, or infinite, for failures.
    """
    return np.asarray(np.fmin.accumulate(_finite(times)), float)


def first_within(times: Numbers, microseconds: float) -> int | None:
    """Number, from 1, of the first trial that took at most so long; None where none did."""
    found = np.flatnonzero(_finite(times) <= microseconds)
    return int(found[0]) + 1 if len(found) else None


def pair_groups(own: Sequence[str], other: Sequence[str]) -> tuple[Pair, ...]:
    """Which groups of two runs belong together: those of one name, in the order of the own run, then of the other.

    The only groups of two runs are a pair whatever they are called: logs of other programs have names of their own.
    """
    if len(own) == len(other) == 1:
        return ((own[0], other[0]),)
    alone = tuple((None, name) for name in other if name not in own)
    return (*((name, name if name in other else None) for name in own), *alone)


def compare(own: GroupTrials | None, other: GroupTrials | None) -> GroupComparison:
    """A pair of groups; None for a run that has no such group.

    Times of different origins give no ratio, and neither run is asked when it reached the best of the other.
    """
    bests = [_best(side) for side in (own, other)]
    why_not = _why_not(own, other, bests)
    known = [best for best in bests if best is not None]
    slower = None if why_not else max(known)
    ratio = None if why_not else known[1] / known[0]
    differences = _differences(own.program, other.program) if own and other and len(known) == 2 else ()
    return GroupComparison(_result(own, slower), _result(other, slower), ratio, why_not, differences)


def _finite(times: Numbers) -> Numbers:
    """Times with NaN for all failures."""
    plain = np.asarray(times, float)
    return np.where(np.isfinite(plain), plain, np.nan)


def _best(side: GroupTrials | None) -> float | None:
    times = _finite(side.times) if side else np.empty(0)
    return None if np.isnan(times).all() else float(np.nanmin(times))


def _why_not(own: GroupTrials | None, other: GroupTrials | None, bests: Sequence[float | None]) -> str:
    if own is None or other is None:
        return "only one of the runs has this group"
    if own.origin != other.origin:
        return f"{own.origin} and {other.origin} times do not compare"
    if None in bests:
        return "neither run has a time yet" if bests == [None, None] else "one of the runs has no time yet"
    return ""


def _result(side: GroupTrials | None, slower: float | None) -> GroupResult:
    """slower: microseconds of the slower of both bests; None where these do not compare."""
    if side is None:
        return GroupResult("", 0, 0, None, None, None)
    best, failures = _best(side), int((~np.isfinite(side.times)).sum())
    number = None if best is None else first_within(side.times, best)
    reached = None if slower is None else first_within(side.times, slower)
    return GroupResult(side.origin, len(side.times), failures, best, number, reached)


def _differences(own: Mapping[str, str], other: Mapping[str, str]) -> tuple[ProgramDifference, ...]:
    names = dict.fromkeys((*own, *other))
    found = (ProgramDifference(name, own.get(name, ""), other.get(name, "")) for name in names)
    return tuple(one for one in found if one.own != one.other)
