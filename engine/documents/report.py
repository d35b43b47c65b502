"""What a report of a model or a session holds; `views/report` writes it as HTML.

Plain data like `engine/documents/model.py`, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.documents.model import Check, GroupDoc, KernelDoc, ModelDoc, Time


@dataclass(frozen=True, slots=True)
class EditDoc:
    """One step from the baseline of a group to its present advice."""

    title: str
    entries: tuple[str, ...]
    """"+ AUTHOR: ENTRY (because REASON)" and "- ...": what changed since the step before."""
    time: Time | None
    """Predicted for this step's advice; None where no kernel follows it."""
    gain: float | None
    """Part of the first step's time that this one saves; None for the first step and without times."""
    measured: Time | None = None
    """As the workspace recorded it."""
    checked: str = ""
    """Outcome of the check that the workspace recorded, in words; "" for none."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What a report tells about one group beside its row in the table of kernels."""

    group: GroupDoc
    kernel: KernelDoc | None
    refusal: str = ""
    """Why there is no kernel; "" where there is one."""
    edits: tuple[EditDoc, ...] = ()
    """Nothing for a group whose advice is the advisers'; else the baseline first."""
    check: Check | None = None
    """Run for the report; None where it was not asked for."""


@dataclass(frozen=True, slots=True)
class CurveDoc:
    """Times of one group's finished trials in the order in which they ended."""

    group: str
    times: tuple[tuple[int, float], ...]
    """(number of the attempt, microseconds), at most as many as a picture can show; every new best is among them."""
    attempts: int
    failed: int
    best: float
    """Microseconds."""


@dataclass(frozen=True, slots=True)
class SearchDoc:
    """One run of the tuner."""

    records: str
    number: int
    started: str
    state: str
    method: str
    """The strategy, with what it started from."""
    origin: str
    """Where its times come from: "predicted", "measured" or "replayed"."""
    curves: tuple[CurveDoc, ...]
    """The groups with most attempts first."""


@dataclass(frozen=True, slots=True)
class ReportDoc:
    """One report."""

    title: str
    """Name of the file that it is about."""
    made: str
    """ISO 8601."""
    sha256: str
    """Of the model file; "" for a built-in row of a suite."""
    dimensions: tuple[tuple[str, int], ...]
    model: ModelDoc
    """At the times of the present advice."""
    baseline: Time | None
    """Of the whole model under the advisers' advice; None where nothing was edited."""
    details: tuple[GroupReport, ...]
    """Edited groups first, then the dearest."""
    fusion: tuple[EditDoc, ...]
    """Steps of what was fixed about groups."""
    searches: tuple[SearchDoc, ...]
    machine: tuple[tuple[str, str], ...]
    """What the report was made with: (name, version)."""
