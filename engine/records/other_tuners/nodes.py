"""What a log of another tuner holds, whichever wrote it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, slots=True)
class LoggedTrial:
    """One entry of a log: a program with its time, or with what went wrong."""

    group: str
    mapping: str
    """What programs of the same dimensions share: the sketch, the trace, or just that they have parameters."""
    values: Values
    microseconds: float | None
    """None for a failure."""
    failure: str = ""
    samples: tuple[float, ...] = ()
    """Microseconds; empty where the log has none."""

    @property
    def band(self) -> tuple[float, float] | tuple[None, None]:
        """20th and 80th percentile of the samples, where there are several."""
        if len(self.samples) < 2:
            return None, None
        low, high = np.percentile(self.samples, (20, 80))
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class TunerLog:
    """A whole log, in the order in which it was written."""

    tuner: str
    target: str
    """The GPU or target as the log calls it; "" where it does not say."""
    trials: tuple[LoggedTrial, ...]


PARAMETERS = "parameters"
"""The mapping of programs that are a choice of values and nothing else."""


def program_of(configuration: Mapping[str, Any]) -> Values:
    """The values of a program by name: whole numbers stay, lists become sizes ("4x8"), all else is text."""
    return tuple((str(name), _value(value)) for name, value in configuration.items())


def _value(value: Any) -> int | str:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    return word(value)


def word(value: Any) -> str:
    """A value in words: "4x8x1" for a list, and what JSON writes for numbers, truth and nothing."""
    if isinstance(value, list):
        return "x".join(map(word, value))
    return value if isinstance(value, str) else json.dumps(value)


def logged_time(group: str, mapping: str, values: Values, time: Any, unit: float, samples: Any = ()) -> LoggedTrial:
    """A trial that has a time.  unit: microseconds of one of the log's units, of `time` and of `samples`.

    Raises ValueError for what is no time.
    """
    found = tuple(unit * positive(sample) for sample in samples or ())
    return LoggedTrial(group, mapping, values, unit * positive(time), "", found)


def positive(value: Any) -> float:
    """A number above zero.  Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{word(value):.40} is no time")
    return float(value)


STRANGE = (LookupError, TypeError, ValueError, AttributeError)
"""What reading a document raises that is built otherwise than expected."""


def reason_of(error: Exception) -> str:
    """What an error of reading says, in words."""
    if isinstance(error, KeyError):
        return f"it has no “{error.args[0]}”"
    return str(error) if isinstance(error, ValueError) else "it has another shape"


def sort_values(values: Iterable[int | str]) -> tuple[int | str, ...]:
    """Distinct values: numbers by size, then texts."""
    return tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))


def names_of(trials: Sequence[LoggedTrial]) -> tuple[str, ...]:
    """Names of the dimensions of some trials, in the order in which they first came."""
    return tuple(dict.fromkeys(name for one in trials for name, _ in one.values))
