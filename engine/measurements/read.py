"""Files of times, read.  `engine.measurements.nodes` has the format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.cost.nodes import Work
from engine.execution.nodes import MEASURED, PREDICTED, SYNTHETIC, Failure, GpuState, Timing
from engine.measurements.nodes import OURS, Launched, MeasuredRow, Measurements, SystemTime
from engine.support.budgets import MAX_FILE_BYTES
from engine.support.errors import BadInput
from engine.support.files import read_json
from engine.support.serialization import from_json

HINT = "give a file that `measure --json`, `predict --json` or `python -m tests.benchmarks.gpu` wrote"
SCHEMA = 1
"""The version of the documents that `--json` prints."""
_ORIGINS = (PREDICTED, MEASURED, SYNTHETIC)


def read_measurements(path: str | Path) -> Measurements:
    """A file of times.  Raises BadInput for another kind of file, and for a broken one by the place in it."""
    return measurements_of(read_json(path, "measurements", HINT, MAX_FILE_BYTES), Path(path).name)


def measurements_of(data: object, source: str) -> Measurements:
    """The same from a document.  source: what errors call it.  Raises BadInput."""
    if not isinstance(data, dict) or not ("rows" in data or "kernels" in data):
        raise BadInput("measurements", source, "holds no times", HINT)
    schema = data.get("schema", SCHEMA)
    if schema != SCHEMA:
        hint = "use the version of the program that wrote it, or measure again"
        raise BadInput("measurements", source, f"is of version {schema}, this program reads version {SCHEMA}", hint)
    place = "its head"
    try:
        environment = {str(key): _words(value) for key, value in dict(data.get("environment") or {}).items()}
        rows: list[MeasuredRow] = []
        for one in data["rows"] if "rows" in data else data["kernels"]:
            place = str(one.get("row") or one.get("group"))
            rows.append(_row(one) if "rows" in data else _kernel(one))
    except BadInput as error:
        raise BadInput("measurements", f"{source}, {place}, {error.subject}", error.reason, error.hint) from None
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        reason = f"holds no times: {error!r} is missing or wrong in {place}"
        raise BadInput("measurements", source, reason, HINT) from error
    own = [e.time.environment or {} for row in rows for e in row.systems.values() if isinstance(e.time, Timing)]
    devices = sorted({name for name in (environment.get("device"), *(e.get("device") for e in own)) if name})
    if len(devices) > 1:
        raise BadInput("measurements", source, f"holds times of several devices: {', '.join(devices)}")
    dates = sorted(date for date in (environment.get("date"), *(e.get("date") for e in own)) if date)
    return Measurements(source, "".join(devices), dates[0] if dates else "", environment, tuple(rows))


def _row(data: Mapping[str, Any]) -> MeasuredRow:
    """A row of a suite."""
    systems = {str(name): _entry(entry) for name, entry in data["systems"].items()}
    floor = data.get("floor_microseconds")
    return MeasuredRow(str(data["row"]), systems, 1, data.get("flops"), data.get("bytes"), floor)


def _kernel(data: Mapping[str, Any]) -> MeasuredRow:
    """A group of a model; bytes and operations come from its launch, if the file has it."""
    entry = _entry(data)
    facts = entry.launches[0].facts if entry.launches else None
    flops = facts.flops + facts.tensor_flops if facts else None
    moved = facts.dram_bytes_read + facts.dram_bytes_written if facts else None
    return MeasuredRow(str(data["group"]), {OURS: entry}, int(data.get("instances", 1)), flops, moved)


def _entry(data: Mapping[str, Any]) -> SystemTime:
    launches = tuple(map(_read_launch, data.get("launches") or ()))
    return SystemTime(_time(data), str(data.get("ran") or ""), str(data.get("version") or ""), launches)


def _read_launch(data: Mapping[str, Any]) -> Launched:
    facts, advice = from_json(Work, data["facts"]), str(data.get("advice") or "")
    return Launched(str(data["group"]), str(data["kind"]), int(data["count"]), facts, advice)


def _time(data: Mapping[str, Any]) -> Timing | Failure:
    if "microseconds" not in data:
        kind = "unsupported" if "unsupported" in data else str(data["failure"])
        return Failure(kind, str(data.get("unsupported") or data.get("message") or ""))
    time, origin = float(data["microseconds"]), str(data["origin"])
    if not 0 < time < math.inf:
        raise ValueError(f"a time of {time}")
    if origin not in _ORIGINS:
        raise ValueError(f"an origin {origin}")
    return Timing(
        origin=origin,
        microseconds=time,
        samples=tuple(float(sample) for sample in data.get("samples") or ()),
        low=float(data.get("low") or 0.0),
        high=float(data.get("high") or 0.0),
        environment={str(key): _words(value) for key, value in (data.get("environment") or {}).items()},
        rounds=int(data.get("rounds") or 0),
        noise=str(data.get("noise") or ""),
        states=tuple(from_json(GpuState, state) for state in data.get("states") or ()),
    )


def _words(value: object) -> str:
    """A value of an environment as text: "numpy 2.3, onnx 1.19" for versions."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}".strip() for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    return "" if value is None else str(value)
