"""Files of times as values, and the format of those files.

Two programs write them, and `engine.measurements.read` reads both into the same `Measurements`; keys that it does not
know are left alone.

`python -m tests.benchmarks.gpu` (its results lie in `resources/measurements/DATE-SUITE.json`)::

    {"name": "gpu",
     "environment": {"device": "NVIDIA H200", "date": "2026-11-30T10:00:00+00:00", "target": "h200", ...},
     "rows": [{"row": "suite:alcop/MM_Square_2k", "flops": 17179869184, "bytes": 25165824,
               "floor_microseconds": 21.7, "bound": "compute", "systems": {"loomscope": ENTRY, "torch": ENTRY}}],
     "summary": {...}}

`loomscope measure --json`, and `predict --json`, whose entries have the origin "predicted" and no samples::

    {"schema": 1, "environment": {"model": "bert_tiny", "target": "h200"},
     "kernels": [{"group": "softmax_0", "instances": 2, ENTRY'S KEYS}], "microseconds": 31.0}

An ENTRY holds a time or the reason why there is none (a kernel without one may also say "unsupported": "why")::

    {"origin": "measured", "microseconds": 24.1, "low": 23.9, "high": 24.6,    the median, p20 and p80 of
     "samples": [24.1, ...], "rounds": 10,       times of one run in microseconds, as taken, in rounds of equal length
     "noise": "",                                why the samples say little; "" for a quiet run
     "states": [STATE, ...],                     what the GPU said after each round; empty where it says nothing
     "environment": {"device": "NVIDIA H200", "date": "...", "cache": "cold, 9 copies in rotation", "method": "..."},
     "ran": "what ran, in words", "version": "2.11.0",
     "launches": [LAUNCH, ...]}                  of our own kernels: what ran, as the model of times sees it
    {"failure": "wrong result", "message": "y is off by 0.3 of its norm, 0.01 is allowed"}

A STATE is {"seconds": 1.25, "sm_clock": 1980, "memory_clock": 3201, "temperature": 41, "power": 312.4}: seconds since
the first sample, MHz, MHz, degrees Celsius, watts.  A LAUNCH is {"group": "softmax_0", "kind": "row reduction",
"count": 1, "facts": {the fields of `engine.cost.nodes.Work`}, "advice": "the group's advice, as text"}.
Every text of an environment is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cost.nodes import Work
from engine.execution.nodes import Failure, Timing

OURS = "loomscope"
"""The system that is not a peer."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel of ours behind a time."""

    group: str
    kind: str
    """Of the group's work: `engine.fusion.nodes.FusionGroup.kind`."""
    count: int
    """Launches of it in what was timed."""
    facts: Work
    """With the registers that the compiler gave."""
    advice: str = ""
    """What the kernel was made by: `engine.scheduling.text.to_text`; "" where the file does not say."""


@dataclass(frozen=True, slots=True)
class SystemTime:
    """One system on one row: a time, or why it has none."""

    time: Timing | Failure
    ran: str = ""
    """What ran, in words."""
    version: str = ""
    """Of the system's package."""
    launches: tuple[Launched, ...] = ()
    """Of our own kernels, where the file holds them."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row: an operator graph of a suite, or one group of a model."""

    name: str
    """"suite:alcop/MM_Square_2k", or the group."""
    systems: Mapping[str, SystemTime]
    """"loomscope" and the peers, in the order in which they ran."""
    instances: int = 1
    """Launches of the group in the model; 1 for a row of a suite."""
    flops: int | None = None
    """The least operations of the row; None where the file does not say."""
    bytes: int | None = None
    """The least bytes that must move."""
    floor: float | None = None
    """Microseconds at the suite's ceilings."""

    @property
    def ours(self) -> Timing | None:
        """Our time, where there is one."""
        entry = self.systems.get(OURS)
        return entry.time if entry is not None and isinstance(entry.time, Timing) else None


@dataclass(frozen=True, slots=True)
class Measurements:
    """One file of times."""

    source: str
    """The file's name."""
    device: str
    """"" where the times are no measured ones."""
    date: str
    """When it was begun, ISO 8601; "" where the file does not say."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Machine and versions, as text."""
    rows: tuple[MeasuredRow, ...] = ()
