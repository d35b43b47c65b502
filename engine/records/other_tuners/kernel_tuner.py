"""Files of Kernel Tuner: results in the T4 format, which other tuners write too, and its cache.

    {"results": [{"configuration": {"block": 64}, "invalidity": "correct",
                  "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}]}]}
    ->  a trial of 1,500 microseconds with the dimension `block`

Sources: the T4 schema, version 1.0.0, and the cache's, both in Kernel Tuner's repository.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.records.other_tuners.nodes import (
    PARAMETERS,
    STRANGE,
    LoggedTrial,
    TunerLog,
    logged_time,
    program_of,
    reason_of,
    word,
)
from engine.support.files import parse_json

MICROSECONDS = {
    "ns": 1e-3, "nanoseconds": 1e-3, "us": 1.0, "µs": 1.0, "microseconds": 1.0, "ms": 1e3, "milliseconds": 1e3,
    "s": 1e6, "seconds": 1e6, "": 1e3,
}  # fmt: skip
"""Of a unit.  Times without one are milliseconds, as Kernel Tuner itself takes them."""
CORRECT, FAILED_VALUE = "correct", 1e20
"""What T4 calls a program that ran; the time that old versions wrote for one that did not."""
KERNEL = "kernel"
"""The group of T4 results, which name no kernel."""


def parse_document(text: str) -> TunerLog:
    """The trials of a whole file.  Raises one of `STRANGE` for another document, with the entry where it is one."""
    data: Any = _parse_or_close(text)
    if not isinstance(data, dict) or not data.keys() & {"cache", "results"}:
        raise ValueError("it has neither “results” nor “cache”")
    if "cache" not in data:
        return TunerLog("T4 results", "", tuple(_each("result", data["results"], _of_t4)))
    name, parameters = str(data.get("kernel_name") or KERNEL), data["tune_params_keys"]
    trials = _each("entry", data["cache"].values(), lambda one: _of_cache(name, one, parameters))
    return TunerLog("Kernel Tuner", str(data.get("device_name") or ""), tuple(trials))


def _parse_or_close(text: str) -> object:
    """A cache stays open at its end until its run has ended: an interrupted one lacks two braces."""
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        if '"cache"' not in text:
            raise
        try:
            return parse_json(text.rstrip().removesuffix(",") + "}}")
        except ValueError:
            raise error from None


def _each(what: str, entries: Iterable[Any], read: Callable[[Any], LoggedTrial]) -> Iterator[LoggedTrial]:
    """Every entry; an error tells which one is not understood."""
    for number, one in enumerate(entries, 1):
        try:
            yield read(one)
        except STRANGE as error:
            raise ValueError(f"{what} {number} is not understood: {reason_of(error)}") from None


def _of_t4(one: Mapping[str, Any]) -> LoggedTrial:
    values, times = program_of(one["configuration"]), one.get("times") or {}
    if one["invalidity"] != CORRECT:
        return LoggedTrial(KERNEL, PARAMETERS, values, None, str(one["invalidity"]))
    found = next((measured for measured in one["measurements"] if measured["name"] == "time"), None)
    if found is None:
        raise ValueError("none of its measurements is called “time”")
    unit = MICROSECONDS.get(str(found.get("unit", "")).lower())
    if unit is None:
        raise ValueError(f"its time is in {found['unit']}, no unit of time that is known")
    # Samples are milliseconds whatever the unit of the time; only of Kernel Tuner's own files is that known.
    samples = times.get("runtimes") if unit == MICROSECONDS["ms"] else ()
    return logged_time(KERNEL, PARAMETERS, values, found["value"], unit, samples)


def _of_cache(name: str, one: Mapping[str, Any], parameters: Iterable[str]) -> LoggedTrial:
    values = program_of({parameter: one[parameter] for parameter in parameters})
    time = one["time"]
    if not isinstance(time, int | float) or time == FAILED_VALUE:
        failure = word(next(iter(time.values()))) if isinstance(time, dict) and time else word(time)
        return LoggedTrial(name, PARAMETERS, values, None, "failed" if time == FAILED_VALUE else failure)
    return logged_time(name, PARAMETERS, values, time, MICROSECONDS["ms"], one.get("times"))
