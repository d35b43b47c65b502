"""Predicted and measured times of the open model in the Timing panel, on the graph and in the roofline."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject

from app.controllers.timing import TimingController
from app.session.roofline import MEASURED, roofline, where
from app.session.workspace import Workspace
from engine.documents.model import Time
from engine.target.machines import machine as find_machine
from views.graph.view import GraphView
from views.timing.view import ROOFLINE, TimingView


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
        machine = find_machine(model.target)
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
