"""The trials of a run as columns of numbers: what 100,000 of them take is a few megabytes, and sorting is NumPy's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEW, REUSED, FAILED = 0, 1, 2
STATES = ("new", "reused", "failed")
NONE = -1
"""No word, no value."""
FIRST_ROWS = 1024
"""Rows that the columns have room for from the start."""

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
Rows = NDArray[np.int64]


class Words:
    """Texts by number, in the order in which they first came; read while another thread adds more."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The number of a text, a new one where it is new."""
        found = self._codes.get(text)
        if found is None:
            self.texts.append(text)
            found = self._codes[text] = len(self.texts) - 1
        return found

    def find(self, text: str) -> int:
        """The number of a text that is known, else `NONE`."""
        return self._codes.get(text, NONE)

    def ranks(self) -> Numbers:
        """Of each text its place in a sorted list: numbers by size, before everything else by alphabet."""
        order = sorted(range(len(self.texts)), key=lambda code: _natural(self.texts[code]))
        ranks = np.empty(len(order))
        ranks[order] = np.arange(len(order))
        return ranks


@dataclass(slots=True)
class Vocabulary:
    """The words of a run's columns."""

    groups: Words = field(default_factory=Words)
    mappings: Words = field(default_factory=Words)
    kinds: Words = field(default_factory=Words)
    """Of failures."""
    dimensions: dict[str, Words] = field(default_factory=dict)
    """Name of a dimension -> its values."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some trials, one row each, in the order in which they came."""

    number: Rows
    """Among the trials of its group, from 1."""
    trial: Rows
    """Where its recipe is kept; 0 where it has none."""
    group: Codes
    mapping: Codes
    state: Codes
    kind: Codes
    microseconds: Numbers
    """NaN for a failure."""
    promised: Numbers
    """By the model before anything was compiled; NaN where it was not asked."""
    low: Numbers
    """20th percentile of the samples of the time; NaN where there are none."""
    high: Numbers
    """80th percentile."""
    values: dict[str, Codes]
    """Dimension -> number of its value, `NONE` where the trial has no such dimension."""

    def __len__(self) -> int:
        return len(self.number)


COLUMNS: dict[str, tuple[type, float]] = {
    "number": (np.int64, 0), "trial": (np.int64, 0), "group": (np.int32, NONE), "mapping": (np.int32, NONE),
    "state": (np.int32, NEW), "kind": (np.int32, NONE), "microseconds": (np.float64, np.nan),
    "promised": (np.float64, np.nan), "low": (np.float64, np.nan), "high": (np.float64, np.nan),
}  # fmt: skip
"""Name -> element type and the value of what is not known."""


class Trials:
    """All trials so far; `append` adds to them, `condemn` takes times away."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self.words = vocabulary or Vocabulary()
        self._count = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.full(FIRST_ROWS, empty, kind) for name, (kind, empty) in COLUMNS.items()
        }
        self._values: dict[str, Codes] = {}

    def __len__(self) -> int:
        return self._count

    def append(self, batch: Batch) -> None:
        """Takes more trials; the columns double where they are full."""
        end = self._count + len(batch)
        self._grow(end)
        for name, column in self._columns.items():
            column[self._count : end] = getattr(batch, name)
        for name, codes in batch.values.items():
            if name not in self._values:
                self._values[name] = np.full(len(self._columns["number"]), NONE, np.int32)
            self._values[name][self._count : end] = codes
        self._count = end

    def condemn(self, row: int, kind: int) -> None:
        """Makes a trial a failure: its kernel proved wrong after it was timed.  kind: number of the failure's word."""
        self._columns["state"][row], self._columns["kind"][row] = FAILED, kind
        for name in ("microseconds", "low", "high"):
            self._columns[name][row] = np.nan

    def column(self, name: str) -> NDArray[Any]:
        """One of `COLUMNS`, an element for each trial."""
        return self._columns[name][: self._count]

    def value(self, dimension: str) -> Codes:
        """Numbers of a dimension's values."""
        return self._values[dimension][: self._count]

    @property
    def number(self) -> Rows:
        """Each trial's place among those of its group."""
        return self._columns["number"][: self._count]

    @property
    def microseconds(self) -> Numbers:
        """Times; NaN for failures."""
        return self._columns["microseconds"][: self._count]

    @property
    def promised(self) -> Numbers:
        """What the model said before."""
        return self._columns["promised"][: self._count]

    @property
    def spread(self) -> tuple[Numbers, Numbers]:
        """20th and 80th percentile of each time's samples; NaN where it has none."""
        return self._columns["low"][: self._count], self._columns["high"][: self._count]

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Of all programs so far, in the order in which they came."""
        return tuple(self._values)

    def rows_of(self, group: str) -> Rows:
        """Rows of one group's trials, the oldest first; "" for those of all groups."""
        if not group:
            return np.arange(self._count)
        code = self.words.groups.find(group)
        return np.flatnonzero(self.column("group") == code) if code != NONE else np.empty(0, np.int64)

    def best(self, rows: Rows) -> int:
        """The row of the fastest of some trials, the first of equals; `NONE` where none has a time."""
        times = self.microseconds[rows]
        if not len(rows) or np.isnan(times).all():
            return NONE
        return int(rows[np.nanargmin(times)])

    @property
    def has_time(self) -> bool:
        """Whether any trial has a time."""
        return bool(np.isfinite(self.microseconds).any())

    def bests(self) -> Numbers:
        """Of each group the fastest time, by the group's number; NaN where none has a time."""
        found = np.full(len(self.words.groups.texts), np.nan)
        known = np.isfinite(self.microseconds)
        np.fmin.at(found, self.column("group")[known], self.microseconds[known])
        return found

    def text(self, name: str, row: int) -> str:
        """A word of one trial: "group", "mapping", "kind", or a dimension; "" where it has none."""
        codes = self._values.get(name)
        words = self.words.dimensions.get(name) if codes is not None else getattr(self.words, f"{name}s")
        code = int((codes if codes is not None else self._columns[name])[row])
        return words.texts[code] if words is not None and code != NONE else ""

    def program(self, row: int) -> str:
        """What a trial tried, in words: "stages 3, warps 8"."""
        said = ((name.replace("_", " "), self.text(name, row)) for name in self._values)
        return ", ".join(f"{name} {value}" for name, value in said if value)

    def _grow(self, count: int) -> None:
        room = len(self._columns["number"])
        if count <= room:
            return
        while room < count:
            room *= 2
        for name, (kind, empty) in COLUMNS.items():
            self._columns[name] = _grow_column(self._columns[name], self._count, room, kind, empty)
        for name, codes in self._values.items():
            self._values[name] = _grow_column(codes, self._count, room, np.int32, NONE)


def _grow_column(column: NDArray[Any], count: int, room: int, kind: type, empty: float) -> NDArray[Any]:
    larger: NDArray[Any] = np.full(room, empty, kind)
    larger[:count] = column[:count]
    return larger


def _natural(text: str) -> tuple[int, tuple[float, ...], str]:
    """Numbers, and sizes like "128x64", by value; other words after them."""
    parts = text.replace("×", "x").split("x")
    try:
        return 0, tuple(float(part) for part in parts), text
    except ValueError:
        return 1, (), text
