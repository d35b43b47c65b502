"""A table of measured rows: ours, each peer, the floor; ratios as geometric means; where we are behind.

    python -m tests.benchmarks.gpu_table resources/measurements/*.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from engine.execution.nodes import MEASURED, Failure, Timing
from engine.execution.statistics import SAME, compare, in_rounds
from engine.measurements import MeasuredRow, Measurements, measurements_of, read_measurements
from engine.measurements.nodes import OURS
from engine.support.errors import BadInput

BEHIND = 0.9
"""Rows whose best peer takes less than this part of our time are listed."""
REACHED = 0.90
"""The part of the run's own bandwidth that memory-bound rows are to reach."""
CALIBRATION = "suite:calibration/"
SHORT_FLOOR = 20.0
"""Microseconds under which a row is bound by its launch, and is judged by its peers alone."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """One row of which we have a time; every ratio is above 1 where we are ahead."""

    row: MeasuredRow
    peers: Mapping[str, float]
    """Peer -> its time over ours."""
    floor: float | None
    """The floor over our time: at most 1."""

    @property
    def best(self) -> float | None:
        """The fastest peer's time over ours."""
        return min(self.peers.values()) if self.peers else None

    @property
    def is_tie(self) -> bool:
        """Whether the samples of ours and of the fastest peer, taken in turn, show no significant difference."""
        if not self.peers:
            return False
        times = [self.row.systems[name].time for name in (OURS, min(self.peers, key=self.peers.__getitem__))]
        rounds = [in_rounds(time.samples, time.rounds) for time in times if isinstance(time, Timing)]
        return compare(rounds[0], rounds[1], interleaved=True).verdict == SAME


def ratios(rows: Sequence[MeasuredRow]) -> list[Ratios]:
    """Of the rows that have a time of ours."""
    found = []
    for row in rows:
        ours = row.ours
        if ours is None:
            continue
        times = {name: e.time.microseconds for name, e in row.systems.items() if isinstance(e.time, Timing)}
        peers = {name: time / ours.microseconds for name, time in times.items() if name != OURS}
        floor = row.floor / ours.microseconds if row.floor is not None else None
        found.append(Ratios(row, peers, floor))
    return found


def summary(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What a file says of itself: geometric means over its rows, and the rows that have no time of ours."""
    rows = measurements_of(dict(document), source).rows
    found = ratios(rows)
    names = dict.fromkeys(name for one in found for name in one.peers)
    long = [one.floor for one in found if one.floor is not None and (one.row.floor or 0) > SHORT_FLOOR]
    return {
        "best_peer_over_ours": _mean([one.best for one in found if one.best is not None]),
        "peers_over_ours": {name: _mean([one.peers[name] for one in found if name in one.peers]) for name in names},
        "floor_over_ours": _mean([one.floor for one in found if one.floor is not None]),
        "floor_over_ours_past_20_us": _mean(long),
        "behind": [one.row.name for one in found if one.best is not None and one.best < BEHIND],
        "rows_without_ours": len(rows) - len(found),
    }


def _mean(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values else None


def table(files: Sequence[Measurements]) -> Iterator[str]:
    """The lines of a table in Markdown, and what follows from it.  Raises BadInput for several devices or origins."""
    devices = dict.fromkeys(one.device for one in files)
    if len(devices) != 1 or not next(iter(devices)):
        told = ", ".join(device or "none" for device in devices) or "none"
        raise BadInput("benchmark", "these files", f"hold measured times of several devices or of none: {told}")
    rows = [row for one in files for row in one.rows]
    origins = {entry.time.origin for row in rows for entry in row.systems.values() if isinstance(entry.time, Timing)}
    if len(origins) > 1:
        raise BadInput("benchmark", "these files", f"mix times that are {' and '.join(sorted(origins))}")
    names = list(dict.fromkeys(name for row in rows for name in row.systems if name != OURS))
    dates = sorted({one.date[:10] for one in files if one.date})
    said = "Measured" if origins <= {MEASURED} else f"{''.join(origins).capitalize()} times, NOT measured,"
    yield f"{said} on {next(iter(devices))}, {' to '.join(dict.fromkeys(dates[:1] + dates[-1:])) or 'without a date'}"
    yield "Times in microseconds, median of a run; * noisy; ~ no significant difference."
    yield ""
    yield f"| row | floor | {OURS} | {' | '.join(names)} | best peer / ours | floor / ours |"
    yield f"| --- |{' ---: |' * (len(names) + 4)}"
    known = {id(one.row): one for one in ratios(rows)}  # several files may hold a row of one name
    for row in rows:
        one = known.get(id(row))
        cells = [row.name, _number(row.floor), *(_cell(row, name) for name in (OURS, *names))]
        best = f"{_number(one.best)}{' ~' if one.is_tie else ''}" if one else ""
        yield f"| {' | '.join([*cells, best, _number(one and one.floor)])} |"
    yield ""
    yield from _means(list(known.values()), names)
    yield from _ceilings(rows, list(known.values()))
    yield from _behind(list(known.values()))
    yield from _without(rows)


def _means(found: Sequence[Ratios], names: Sequence[str]) -> Iterator[str]:
    yield "Geometric means (above 1: ours is faster)"
    best = [one.best for one in found if one.best is not None]
    yield f"- best peer / ours: {_number(_mean(best))} over {len(best)} rows"
    for name in names:
        own = [one.peers[name] for one in found if name in one.peers]
        yield f"- {name} / ours: {_number(_mean(own))} over {len(own)} rows"
    for what, wanted in (("all rows", 0.0), (f"rows with a floor over {SHORT_FLOOR:g} us", SHORT_FLOOR)):
        floors = [one.floor for one in found if one.floor is not None and (one.row.floor or 0) > wanted]
        yield f"- floor / ours: {_number(_mean(floors))} over {len(floors)} {what}"
    yield ""


def _ceilings(rows: Sequence[MeasuredRow], found: Sequence[Ratios]) -> Iterator[str]:
    """What this GPU reached on the calibration's rows, by whatever system, and which long rows fall short of it."""
    moved, computed = (_reached(rows, what) for what in ("bytes", "flops"))
    if moved is None or computed is None:
        return
    yield f"Ceilings that this run reached: {moved[0] / 1e12:.3g} TB/s ({moved[1]}),"
    yield f"{computed[0] / 1e12:.3g} TFLOP/s ({computed[1]})"
    short = []
    for row in (one.row for one in found):
        assert row.ours is not None
        moving, computing = (row.bytes or 0) / moved[0] * 1e6, (row.flops or 0) / computed[0] * 1e6
        share = moving / row.ours.microseconds
        if SHORT_FLOOR < moving > computing and share < REACHED:
            short.append((share, row.name))
    yield f"Memory-bound rows over {SHORT_FLOOR:g} us under {REACHED:.2f} of that bandwidth: {len(short)}"
    for share, name in sorted(short):
        yield f"- {name}: {share:.2f}"
    yield ""


def _reached(rows: Sequence[MeasuredRow], what: str) -> tuple[float, str] | None:
    """The highest rate of "bytes" or "flops" a second, and who reached it on which row."""
    rates = [
        (getattr(row, what) / entry.time.microseconds * 1e6, f"{name} on {row.name}")
        for row in rows
        if row.name.startswith(CALIBRATION) and getattr(row, what)
        for name, entry in row.systems.items()
        if isinstance(entry.time, Timing)
    ]
    return max(rates, default=None)


def _behind(found: Sequence[Ratios]) -> Iterator[str]:
    rows = [(one, best) for one in found if (best := one.best) is not None and best < BEHIND]
    yield f"Rows under {BEHIND} of the best peer: {len(rows)}"
    for one, best in sorted(rows, key=lambda row: row[1]):
        peer = min(one.peers, key=one.peers.__getitem__)
        yield f"- {one.row.name}: {best:.2f} of {peer} ({one.row.systems[peer].ran})"
    yield ""


def _without(rows: Sequence[MeasuredRow]) -> Iterator[str]:
    failed = [(row.name, row.systems[OURS].time) for row in rows if OURS in row.systems and row.ours is None]
    yield f"Rows without a time of ours: {len(failed)}"
    for name, why in failed:
        assert isinstance(why, Failure)
        yield f"- {name}: {why.kind}: {why.message}"


def _cell(row: MeasuredRow, name: str) -> str:
    entry = row.systems.get(name)
    if entry is None:
        return ""
    if isinstance(entry.time, Failure):
        return entry.time.kind
    return f"{_number(entry.time.microseconds)}{'*' if entry.time.noise else ''}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0, or 2 for files that make none."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu_table", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    try:
        for line in table([read_measurements(path) for path in options.files]):
            print(line)
    except BadInput as error:
        print(f"{error.subject}: {error.reason}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
