"""Logs of TVM, one JSON document in a line: AutoTVM's, the auto scheduler's and MetaSchedule's tuning records.

    {"input": ["cuda", "dense.cuda", [["TENSOR", [1, 512], "float32"]], {}],
     "config": {"entity": [["tile_k", "sp", [-1, 8]]]}, "result": [[2e-5], 0, 1.2, 1.6e9]}
    ->  a trial of 20 microseconds of the group "dense.cuda (1x512 float32)", with tile_k = "-1x8"

A program of the auto scheduler is a list of steps, one of MetaSchedule a trace with decisions: what can be chosen (the
lengths of splits, unrolling, places) becomes dimensions, and programs whose other steps are alike share a mapping.
Sources: `measure_record.py` and `measure_record.cc` of the two older tuners, `json_database.cc` and `trace.cc`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from engine.records.other_tuners.nodes import (
    PARAMETERS,
    STRANGE,
    LoggedTrial,
    TunerLog,
    Values,
    logged_time,
    program_of,
    reason_of,
    word,
)
from engine.support.files import parse_json

SECONDS = 1e6
"""Microseconds of TVM's unit."""
NO_TIME = 1e9
"""Seconds from which on a time stands for a failure."""
FAILURES = (
    "", "instantiation", "compile", "runtime device", "compile device", "wrong answer", "build timeout", "run timeout",
    "unknown",
)  # fmt: skip
"""By the number that the older tuners write; the auto scheduler has the same from "compile" on."""
TOLD = ("-arch=", "-mcpu=", "-model=")
"""Options of a target that tell machines apart."""
CHOSEN = {"SP": "split", "PR": "pragma", "CA": "compute at", "AN": "annotation"}
"""Steps of the auto scheduler that carry a choice, and what its dimension is called."""
Sketches = dict[str, str]
"""What the programs of a mapping share -> the name of the mapping."""


def parse_lines(text: str) -> TunerLog:
    """The trials of a log.  Raises ValueError with the number of a line that is not understood."""
    trials, target, tuner, sketches = list[LoggedTrial](), "", "", dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            tuner, read = _reader_of(data := parse_json(line))
            target, trial = read(data, sketches)
        except STRANGE as error:
            is_json = not isinstance(error, json.JSONDecodeError)
            reason = f"is not understood: {reason_of(error)}" if is_json else "is no JSON"
            raise ValueError(f"line {number} {reason}") from None
        trials.append(trial)
    return TunerLog(tuner, target, tuple(trials))


def _reader_of(data: Any) -> tuple[str, Callable[[Any, Sketches], tuple[str, LoggedTrial]]]:
    """Which tuner wrote a line, and what reads it."""
    if isinstance(data, list):
        return "MetaSchedule", _of_meta_schedule
    if isinstance(data, dict) and "input" in data:
        return "AutoTVM", _of_autotvm
    if isinstance(data, dict) and "i" in data:
        return "auto scheduler", _of_auto_scheduler
    raise ValueError("it is no record of TVM")


def _of_autotvm(data: Mapping[str, Any], _: Sketches) -> tuple[str, LoggedTrial]:
    target, task, arguments, *_rest = data["input"]
    group = f"{task} ({', '.join(map(_argument, arguments))})"
    values = program_of({name: value for name, _kind, value in data["config"]["entity"]})
    costs, code, *_rest = data["result"]
    return _machine(target), _trial(group, PARAMETERS, values, costs, code)


def _argument(value: Any) -> str:
    """ "1x512 float32" for a tensor, else the value."""
    if isinstance(value, list) and value[:1] == ["TENSOR"]:
        return f"{word(value[1])} {word(value[2])}"
    return word(value)


def _of_auto_scheduler(data: Mapping[str, Any], sketches: Sketches) -> tuple[str, LoggedTrial]:
    (workload, target, *_rest), state, *_rest = data["i"]
    choices, structure = list[tuple[str, Any]](), list[object]()
    for step in state[-1]:
        kind, stage, *arguments = step
        if kind in CHOSEN:
            place = "" if kind == "CA" else f".{arguments[0]}"
            value = arguments[2 if kind == "SP" else 1] if kind != "CA" else ".".join(map(str, arguments))
            choices.append((f"{CHOSEN[kind]} {stage}{place}", value))
            structure.append((kind, stage))
        else:
            structure.append((kind, stage) if kind in ("RE", "FU") else step)
    costs, code, *_rest = data["r"]
    mapping = _mapping("sketch", structure, sketches)
    return _machine(target), _trial(_workload(workload), mapping, _number_choices(choices), costs, code)


def _of_meta_schedule(data: Sequence[Any], sketches: Sketches) -> tuple[str, LoggedTrial]:
    number, (trace, costs, target, *_rest) = data
    instructions, decisions = trace
    kinds = [instruction[0] for instruction in instructions]
    values = program_of({f"{kinds[place]} {place}": decision for place, decision in decisions})
    failed = not costs or max(costs) >= NO_TIME
    mapping = _mapping("trace", kinds, sketches)
    return _machine(target), _trial(f"workload {number}", mapping, values, costs, len(FAILURES) - 1 if failed else 0)


def _trial(group: str, mapping: str, values: Values, costs: Any, code: Any) -> LoggedTrial:
    """A time is the median of its samples, as everywhere here; `costs` in seconds."""
    if code:
        failure = FAILURES[code] if 0 < code < len(FAILURES) else f"error {code}"
        return LoggedTrial(group, mapping, values, None, failure)
    return logged_time(group, mapping, values, median(costs), SECONDS, costs)


def _mapping(what: str, structure: Iterable[object], sketches: Sketches) -> str:
    """The name of what programs share: "sketch 1" for the first that came."""
    return sketches.setdefault(json.dumps(list(structure)), f"{what} {len(sketches) + 1}")


def _number_choices(choices: Iterable[tuple[str, Any]]) -> Values:
    """Choices as values; of several of one name the second is "split 3.0 (2)"."""
    seen, found = Counter[str](), dict[str, Any]()
    for name, value in choices:
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} ({seen[name]})"] = value
    return program_of(found)


def _workload(text: Any) -> str:
    """A workload is JSON in a text, a hash and sizes: the hash in short, and the sizes."""
    try:
        hashed, *sizes = json.loads(text)
    except (TypeError, ValueError):
        return word(text)
    return " ".join((word(hashed)[:8], *map(word, sizes)))


def _machine(target: Any) -> str:
    """ "cuda -arch=sm_80" of a target in words or, in MetaSchedule, by fields."""
    if isinstance(target, dict):
        return " ".join((word(target["kind"]), *(f"-arch={target['arch']}" for _ in range("arch" in target))))
    kind, *options = word(target).split()
    return " ".join((kind, *(option for option in options if option.startswith(TOLD))))
