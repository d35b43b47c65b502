"""The pipeline's chart as trace events, which Perfetto and chrome://tracing open: measured traces can lie beside it."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Any

from engine.documents.pipeline import ROWS, BarDoc, ChartDoc
from engine.support.files import replace_whole, unwritable

PROCESS = 1
"""Number of the one process of a trace: the block."""


def trace_document(chart: ChartDoc) -> dict[str, Any]:
    """A document of trace events, microseconds since the block began.

    One thread for each row of the chart and one for each stage's buffer; what the chart folds away is left out, and
    what comes after it stands at its own time.
    """
    stages = sorted({flight.stage for flight in chart.flights})
    threads: dict[str | int, str] = {row: row for row in ROWS}
    threads |= {stage: f"buffer of stage {stage}" for stage in stages}
    numbers = {key: number for number, key in enumerate(threads, 1)}
    fold = _fold_end(chart)

    def event(name: str, thread: str | int, start: float, end: float, **told: Any) -> dict[str, Any]:
        start, end = (time + chart.folded_cycles if time >= fold else time for time in (start, end))
        return {
            "name": name, "ph": "X", "pid": PROCESS, "tid": numbers[thread], "ts": start / chart.clock,
            "dur": (end - start) / chart.clock, "args": {"cycles": end - start, **told},
        }  # fmt: skip

    events = [_name("process_name", 0, f"{chart.title}, {chart.group} ({chart.time.origin})")]
    events += [_name("thread_name", numbers[key], title) for key, title in threads.items()]
    events += [
        event(_title(bar), bar.row, bar.start, bar.end, step=bar.step, stage=bar.stage, because=bar.because)
        for bar in chart.bars
    ]
    for flight in chart.flights:
        held = (("copy", flight.copied, flight.arrived), ("ready", flight.arrived, flight.read),
                ("use", flight.read, flight.freed))  # fmt: skip
        events += [event(f"{name} {flight.tile}", flight.stage, *ends, tile=flight.tile) for name, *ends in held]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_trace(place: Path, chart: ChartDoc, stage: str) -> None:
    """Write a chart's trace events.  EngineError of `stage` where the file cannot be written."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(place, dumps(trace_document(chart)).encode())
    except OSError as error:
        raise unwritable(place, stage, error) from error


def _fold_end(chart: ChartDoc) -> float:
    """The time of the picture from which on steps are shown again; infinite where none is left out."""
    first, count = chart.folded
    later = (bar.start for bar in chart.bars if count and bar.step >= first + count and bar.start > 0)
    return min(later, default=float("inf"))


def _title(bar: BarDoc) -> str:
    """What happens, and to which tile."""
    what = bar.kind or bar.row
    return what if bar.tile is None else f"{what} {bar.tile}"


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": PROCESS, "tid": thread, "args": {"name": name}}
