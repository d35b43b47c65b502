"""Comparison of result files: times of kernels (`predict`, `measure`, the GPU benchmark) and manifests of `generate`.

Times are compared only with times of the same origin, and measured ones only on the same device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from engine.execution.nodes import MEASURED, Timing
from engine.execution.statistics import FASTER, SAME, SLOWER, Difference, in_rounds
from engine.execution.statistics import compare as compare_rounds
from engine.measurements import read_measurements
from engine.regression.baseline import FORMAT as BASELINE_FORMAT
from engine.support.budgets import MAX_FILE_BYTES
from engine.support.errors import BadInput
from engine.support.files import read_json

RECIPE, TIMES, MANIFEST = "recipe", "file of times", "manifest"
"""Kinds of files that `compare` accepts."""
ONLY_A, ONLY_B = "only in A", "only in B"


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One kernel in two files; None where a file has no time of it."""

    name: str
    a: float | None
    """Microseconds of one launch."""
    b: float | None
    origin: str
    ratio: float | None
    """B over A."""
    low: float | None
    """The 95 % interval of a measured ratio."""
    high: float | None
    verdict: str
    because: str

    def slower_than(self, limit: float) -> bool:
        """Whether B is surely slower, and by more than this part of A."""
        return self.verdict == SLOWER and self.ratio is not None and self.ratio - 1 > limit


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure of a kernel that differs between two manifests; None where one lacks it."""

    name: str
    figure: str
    a: float | str | None
    b: float | str | None


def kind_of(path: str | Path) -> str:
    """What a file holds, by its keys.  Raises BadInput for what is no JSON or none of the three."""
    data = _read(path)
    if "launches" in data and "kernels" in data:
        return MANIFEST
    if "kernels" in data or ("rows" in data and "environment" in data):
        return TIMES
    if data.get("format") == BASELINE_FORMAT:
        raise BadInput("compare", str(path), "is a baseline", "`loomscope check MODEL FILE` compares a model with it")
    if "groups" in data and "version" in data:
        return RECIPE
    hint = "give two recipes, two manifests, or two files that `predict --json` or `measure --json` wrote"
    raise BadInput("compare", str(path), "is no file that can be compared", hint)


def compare_times(a: str | Path, b: str | Path) -> tuple[TimeRow, ...]:
    """Every kernel of two files of times.  Raises BadInput where their times cannot be compared."""
    before, after = (_times(path) for path in (a, b))
    for what, of in (("origin", attrgetter("origin")), ("device", _device)):
        kinds = [sorted({of(time) for time in side.values()}) for side in (before, after)]
        if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
            told = " and ".join(", ".join(kind) or "none" for kind in kinds)
            reason = f"holds times of another {what} than {Path(a).name}: {told}"
            raise BadInput("compare", str(b), reason, f"compare times of one {what}")
    return tuple(_row(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after)))


def _device(time: Timing) -> str:
    return (time.environment or {}).get("device", "")


def _row(name: str, a: Timing | None, b: Timing | None) -> TimeRow:
    if a is None or b is None:
        only, verdict = (a, ONLY_A) if b is None else (b, ONLY_B)
        assert only is not None
        before, after = (None if side is None else side.microseconds for side in (a, b))
        return TimeRow(name, before, after, only.origin, None, None, None, verdict, "")
    found = _difference(a, b)
    because = "; ".join(filter(None, (found.because, a.noise and f"A: {a.noise}", b.noise and f"B: {b.noise}")))
    certain = a.origin == MEASURED and math.isfinite(found.high)
    low, high = (found.low, found.high) if certain else (None, None)
    return TimeRow(name, a.microseconds, b.microseconds, a.origin, found.ratio, low, high, found.verdict, because)


def _difference(a: Timing, b: Timing) -> Difference:
    """Compare by samples if both times are measured; predicted times are deterministic."""
    if a.origin == MEASURED:
        return compare_rounds(in_rounds(a.samples, a.rounds), in_rounds(b.samples, b.rounds))
    ratio = b.microseconds / a.microseconds
    verdict = SAME if ratio == 1 else SLOWER if ratio > 1 else FASTER
    return Difference(ratio, ratio, ratio, verdict, f"{ratio - 1:+.1%} by the model")


def compare_manifests(a: str | Path, b: str | Path) -> tuple[FigureRow, ...]:
    """Figures of the generated kernels that differ.  Raises BadInput for broken files."""
    sides = [dict(_manifest_figures(path)) for path in (a, b)]
    return tuple(
        FigureRow(name, figure, sides[0].get((name, figure)), sides[1].get((name, figure)))
        for name, figure in dict.fromkeys((*sides[0], *sides[1]))
        if sides[0].get((name, figure)) != sides[1].get((name, figure))
    )


def _manifest_figures(path: str | Path) -> Iterator[tuple[tuple[str, str], float | str]]:
    data = _read(path)
    try:
        yield ("", "kernels"), len(data["launches"])
        for kernel in data["kernels"]:
            name = str(kernel["group"])
            yield (name, "launches"), sum(launch["group"] == name for launch in data["launches"])
            own = kernel.get("launches") or [kernel]  # a kernel of several has those of the first as its own, too
            yield (name, "blocks"), sum(math.prod(one["grid"]) for one in own)
            yield (name, "threads per block"), max(math.prod(one["block"]) for one in own)
            yield (name, "shared memory"), max(one["shared_bytes"] for one in own)
            for architecture, found in kernel["compiled"].items():
                yield (name, f"registers {architecture}"), found["registers"]
                yield (name, f"spill bytes {architecture}"), found["spill_bytes"]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput("compare", str(path), f"is no manifest: {error!r} is missing or wrong") from error


def _times(path: str | Path) -> dict[str, Timing]:
    """Name -> time of every kernel of ours that has one."""
    return {row.name: row.ours for row in read_measurements(path).rows if row.ours is not None}


def _read(path: str | Path) -> dict[str, Any]:
    data = read_json(path, "compare", "give a recipe, a manifest or a file of times", MAX_FILE_BYTES)
    if not isinstance(data, dict):
        raise BadInput("compare", str(path), "is no JSON object", "give a recipe, a manifest or a file of times")
    return data
