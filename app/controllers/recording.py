"""A file of times as a recording: what of it can be played, and whose times these are in the open model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.documents.model import ModelDoc, Time, time_doc
from engine.execution.nodes import PREDICTED, Timing
from engine.measurements import MeasuredRow, Measurements, SystemTime, read_measurements
from engine.measurements.nodes import OURS
from engine.support.errors import BadInput
from engine.target import target_of_device
from engine.target.machines import machine as find_machine
from views.hierarchy import ambiguous_titles
from views.timing.live import GpuReading


@dataclass(frozen=True, slots=True)
class Take:
    """Samples of one system on one row, as they were taken."""

    title: str
    """A group's title, "MM_Square_2k, torch"."""
    row: str
    """What was measured; takes of one row may be compared."""
    group: str
    """The group of the open model whose time this is; "" for none."""
    time: Time
    looks: tuple[GpuReading, ...]
    advice: str = ""
    """Of the kernel behind the time; "" where the file does not say."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One file; at least one take."""

    file: str
    takes: tuple[Take, ...]

    @property
    def groups(self) -> dict[str, Take]:
        """The open model's groups and what was taken of each."""
        return {take.group: take for take in self.takes if take.group}


def read_recording(path: str, model: ModelDoc | None, source: str = "") -> Recording:
    """The samples of a file of times.

    model: what is open; the file must be of its GPU and, where it says so, of it.  source: what the model was opened
    from ("suite:alcop/MM_Square_2k").  Raises BadInput for what is no such file, cut short, of another version, device
    or model, or without samples.
    """
    found = read_measurements(path)
    titles: dict[str, str] = {}
    if model is not None:
        _check_machine(found, model)
        _check_model(found, model)
        ambiguous = ambiguous_titles(model)
        named = {group.name: f"{group.title}  {group.name}" for group in model.groups if group.title in ambiguous}
        titles = {group.name: group.title for group in model.groups} | named
    takes = tuple(
        Take(_title(row, system, titles), row.name, group, time_doc(entry.time), _looks(entry.time), _advice(entry))
        for row in found.rows
        for system, entry in row.systems.items()
        for group in (_group(row, system, model, source),)
        if isinstance(entry.time, Timing) and entry.time.samples and entry.time.origin != PREDICTED
    )
    if not takes:
        hint = "record with `loomscope measure MODEL --json` on a machine with a GPU"
        raise BadInput("replay", found.source, "holds no samples", hint)
    return Recording(found.source, takes)


def _check_machine(found: Measurements, model: ModelDoc) -> None:
    """A recording of another GPU says nothing of kernels for this one."""
    device = target_of_device(found.device)
    if found.device and (device is None or model.target != device.name):
        title = find_machine(model.target).title
        known = f"open the model for that GPU: Run, Target, Numerics and Dimensions, {device.name}" if device else ""
        hint = known or "choose another file"
        raise BadInput("replay", found.source, f"was recorded on {found.device}, the open model is for {title}", hint)


def _check_model(found: Measurements, model: ModelDoc) -> None:
    """A recording of another model may have groups of the same names."""
    named = found.environment.get("model", model.name)
    instances = {group.name: group.instances for group in model.groups}
    strange = [
        row.name
        for row in found.rows
        if not _of_suite(row) and (row.name not in instances or (row.ours and instances[row.name] != row.instances))
    ]
    if named != model.name or strange:
        reason = f"is of {named}" if named != model.name else f"has {strange[0]}, which the open model has not"
        raise BadInput("replay", found.source, f"{reason}; open is {model.name}", "open the model that it is of")


def _of_suite(row: MeasuredRow) -> bool:
    return row.name.startswith("suite:")


def _title(row: MeasuredRow, system: str, titles: Mapping[str, str]) -> str:
    if _of_suite(row):
        return f"{row.name.rpartition('/')[2]}, {system}"
    return titles.get(row.name, row.name)


def _group(row: MeasuredRow, system: str, model: ModelDoc | None, source: str) -> str:
    """The group that a time is of: its own, or the only one of the suite's row that is open."""
    if model is None or system != OURS:
        return ""
    if not _of_suite(row):
        return row.name
    only = len(model.groups) == 1 and model.groups[0].instances == 1
    return model.groups[0].name if row.name == source and only else ""


def _advice(entry: SystemTime) -> str:
    return entry.launches[0].advice if len(entry.launches) == 1 else ""


def _looks(timing: Timing) -> tuple[GpuReading, ...]:
    """States came after each round, and rounds are of equal length."""
    count, length = len(timing.states), len(timing.samples)
    return tuple(
        GpuReading(round(length * (number + 1) / count), state.sm_clock, state.temperature)
        for number, state in enumerate(timing.states)
    )
