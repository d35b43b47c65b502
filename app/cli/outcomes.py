"""The verb `compare` for files of outcomes: times of kernels, manifests of generated ones."""

from __future__ import annotations

from pathlib import Path

from app.cli import output
from engine import BadInput
from engine.regression.outcomes import TimeRow, compare_manifests, compare_times
from engine.support.serialization import to_json
from views.format import duration, percent


def compare_two_times(a: Path, b: Path, limit: float | None, json: bool) -> bool:
    """Prints the change of every kernel's time; whether none is surely slower than `limit` percent allow."""
    rows = compare_times(a, b)
    if json:
        output.document(a=str(a), b=str(b), rows=to_json(rows))
    else:
        columns = ("kernel", "A>", "B>", "change>", "origin", "verdict", "because")
        output.table("", columns, (_cells(row) for row in rows))
    slow = [row for row in rows if limit is not None and row.slower_than(limit / 100)]
    for row in slow:
        assert row.ratio is not None
        output.warn(f"{row.name}: {row.origin} {percent(row.ratio - 1)} slower, {limit:g} % are allowed")
    return not slow


def compare_two_manifests(a: Path, b: Path, limit: float | None, json: bool) -> bool:
    """Prints the figures of generated kernels that differ; always True: a manifest holds nothing to be slower in."""
    if limit is not None:
        raise BadInput("command line", "--max-slowdown", "manifests hold no times", "compare files of times instead")
    rows = compare_manifests(a, b)
    if json:
        output.document(a=str(a), b=str(b), rows=to_json(rows))
    elif rows:
        cells = ((row.name or "the model", row.figure, _plain(row.a), _plain(row.b)) for row in rows)
        output.table("", ("kernel", "figure", "A>", "B>"), cells)
    else:
        output.say("no difference")
    return True


def _cells(row: TimeRow) -> tuple[str, ...]:
    times = ("" if time is None else duration(time) for time in (row.a, row.b))
    change = "" if row.ratio is None else f"{100 * (row.ratio - 1):+.1f} %"
    return row.name, *times, change, row.origin, row.verdict, row.because


def _plain(value: float | str | None) -> str:
    return "" if value is None else str(value) if isinstance(value, str) else f"{value:,}"
