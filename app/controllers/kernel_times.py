"""Predicted and measured times of the open model in the Timing panel, on the graph and in the roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10

from PySide6.QtCore import QObject

from app.controllers.timing import TimingController
from app.session.workspace import Workspace
from engine.documents.model import GroupDoc, ModelDoc, Time
from engine.target import target
from engine.target.nodes import Target
from views.graph.view import GraphView
from views.hierarchy import ambiguous_titles
from views.roofline.nodes import OriginPoints, Point, Roofline
from views.timing.view import ROOFLINE, TimingView

MICRO = 1e-6
MEASURED = ("measured", "synthetic")

Times = Mapping[str, Time]
"""Group -> its time."""


class KernelTimesController(QObject):
    """Keeps three views in step with what is known."""

    def __init__(self, timing: TimingView, graph: GraphView, workspace: Workspace, samples: TimingController) -> None:
        super().__init__()
        self._timing, self._graph = timing, graph
        self._workspace, self._samples = workspace, samples
        workspace.model_changed.connect(self.show)
        workspace.times_changed.connect(self.show)
        workspace.history_changed.connect(lambda _: self.show())
        samples.times_changed.connect(self.show)
        timing.tab_selected.connect(lambda tab: self.show() if tab == ROOFLINE else None)

    def show(self) -> None:
        """Shows what is known now."""
        workspace = self._workspace
        model = workspace.model
        if model is None:
            return
        machine = target(model.target)
        predicted = {group.name: group.time for group in model.groups if group.time}
        measured = self._samples.times
        self._timing.show_times(model, predicted, measured)
        if self._timing.tabs[ROOFLINE].isChecked():  # else it is drawn when the tab is opened
            baselines = {**self._baseline_times(MEASURED), **self._samples.baselines}
            pinned = {**predicted, **self._baseline_times(("predicted",))}, baselines
            self._timing.show_roofline(roofline(model, machine, (predicted, measured), pinned))
        self._timing.show_selection(workspace.bus.selection.group)
        modelled, taken = (where(times.values(), machine) for times in (predicted, measured))
        self._graph.show_times(predicted, modelled, measured, taken)

    def _baseline_times(self, origins: Iterable[str]) -> dict[str, Time]:
        """Times of the steps that gains are counted from."""
        found = {}
        for name, history in self._workspace.histories.items():
            if self._workspace.group(name) is None:
                continue
            step = history.steps[history.baseline]
            time = next(filter(None, map(step.time_of, origins)), None)
            if time is not None:
                found[name] = time
        return found


def roofline(model: ModelDoc, machine: Target, times: Sequence[Times], baselines: Sequence[Times]) -> Roofline:
    """Every kernel that has a time, one plot for each origin.

    times, baselines: of the present advice and of the pinned steps, each group once in a mapping of one origin or more;
    only times of one origin are compared.
    """
    halves = any(group.fits_tensor_cores for group in model.groups)
    ceilings = [("CUDA cores", machine.fp32_rate.value)]
    ceilings += [("tensor cores", machine.tensor_rate.value)] if halves else []
    bandwidth = machine.dram_bandwidth.value
    intensities = [group.flops / group.bytes for group in model.groups if group.flops and group.bytes]
    left = 10.0 ** floor(log10(min([*intensities, 1.0])))

    ambiguous = ambiguous_titles(model)
    titles = {group.name: group.name if group.title in ambiguous else group.title for group in model.groups}

    def side(origin: str) -> OriginPoints:
        points = tuple(
            _point(group, titles[group.name], now, _of(baselines, group.name, origin), dict(ceilings), bandwidth, left)
            for group in model.groups
            for now in (_of(times, group.name, origin),)
            if now is not None and now.microseconds > 0 and group.bytes
        )
        seen = [time for each in times for time in each.values() if time.origin == origin]
        return OriginPoints(origin, where(seen, machine), points, len(model.groups) - len(points))

    found = {time.origin for each in times for time in each.values()}
    shown = [origin for origin in MEASURED if origin in found] or ["measured"]
    source = f"{machine.dram_bandwidth.source}; {machine.fp32_rate.source}"
    return Roofline(bandwidth, tuple(ceilings), source, left, tuple(map(side, ("predicted", *shown))))


def _point(
    group: GroupDoc, title: str, now: Time, baseline: Time | None,
    ceilings: Mapping[str, float], bandwidth: float, left: float,
) -> Point:  # fmt: skip
    intensity = group.flops / group.bytes
    worth = group.flops or group.bytes * left
    ceiling = ceilings["tensor cores"] if group.fits_tensor_cores else ceilings["CUDA cores"]
    ghost = worth / (baseline.microseconds * MICRO) if baseline and baseline.microseconds > 0 else None
    return Point(
        group=group.name, title=title, intensity=intensity, height=worth / (now.microseconds * MICRO), ghost=ghost,
        roof=min(bandwidth * (intensity or left), ceiling), microseconds=now.microseconds, share=group.share,
    )  # fmt: skip


def _of(times: Sequence[Times], group: str, origin: str) -> Time | None:
    found = (each[group] for each in times if group in each)
    return next((time for time in found if time.origin == origin), None)


def where(times: Iterable[Time], machine: Target) -> str:
    """Where times of one origin come from: "H200 model, uncalibrated", "NVIDIA H200, 2026-11-18"."""
    return "; ".join(filter(None, dict.fromkeys(_place(time, machine) for time in times)))


def _place(time: Time, machine: Target) -> str:
    if time.origin == "predicted":
        return f"{machine.name.upper()} model{', ' if time.note else ''}{time.note}"
    return ", ".join(filter(None, (time.device, time.date[:10]))) or time.note
