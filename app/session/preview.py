"""The graph of a large file while its kernels are planned, so that one can look around meanwhile."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.session.selection import SelectionBus
from engine.documents.model import ModelDoc, launch_of_operators
from views.overview import Overview

PAINTED_MS = 150
"""After so long the panels have painted a model that they were given."""


class Preview(QObject):
    """A graph without kernels; made only while no model is open, as that one stays until the next is ready."""

    shown = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.overview: Overview | None = None
        self.looked_at = ""
        """Node of the operator that was looked at last."""

    def show(self, overview: Overview) -> None:
        """Shows a graph."""
        self.overview, self.looked_at = overview, ""
        self.shown.emit()

    def end(self, model: ModelDoc, bus: SelectionBus) -> None:
        """The model has kernels now: selects the one of the operator that was looked at, if one was.

        Later, once they are painted: both at once would be longer than the window may stand still.
        """
        if self.overview is not None:
            QTimer.singleShot(PAINTED_MS, partial(self._follow, model, bus))

    def _follow(self, model: ModelDoc, bus: SelectionBus) -> None:
        before, self.overview = self.overview, None
        if before is not None and self.looked_at and not bus.selection.group:
            operator = next((each.operator for each in before.model.uncompiled if each.id == self.looked_at), "")
            launch = launch_of_operators(model).get(operator)
            bus.select_group(launch.group if launch else "")
