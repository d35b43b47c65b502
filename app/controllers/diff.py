"""Compares two steps of a history: asks the worker, adds what only the history knows, shows it in its window."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.session.client import Pending
from app.session.history import HistoryStep
from app.session.workspace import Workspace
from engine.documents.exploration import DiffDoc, FigureDoc
from engine.documents.model import KernelDoc, ProblemDoc
from views.diff.view import DiffView
from views.diff.window import CompareWindow


class DiffController(QObject):
    """One comparison at a time, in a window that does not stop the other."""

    def __init__(self, parent: QWidget, workspace: Workspace) -> None:
        super().__init__(parent)
        self.view = DiffView()
        self.window = CompareWindow(parent, "Compare steps", self.view, (1080, 640))
        self._workspace = workspace
        self._group = ""
        self._asked: tuple[str, int, int] = ("", 0, 0)
        self.view.steps_chosen.connect(lambda a, b: self.compare(self._group, a, b))
        workspace.model_changed.connect(self.window.close)

    def compare(self, group: str, a: int, b: int) -> None:
        """Shows step `b` of a group beside step `a`."""
        steps = self._workspace.histories[group].steps
        self._group, self._asked = group, (group, a, b)
        asked, before, after = self._asked, steps[a], steps[b]
        self.view.show_steps(group, [step.title for step in steps], a, b)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()

        def show(document: DiffDoc) -> None:
            if asked == self._asked:
                self.view.show_document(document, tuple(self._further(group, before, after)))

        def refuse(problem: ProblemDoc) -> None:
            if asked == self._asked:
                self.view.show_refusal(problem.sentence)

        arguments, pending = {"group": group, "a": before.text, "b": after.text}, Pending(DiffDoc, show, refuse)
        self._workspace.client.request("diff", arguments, f"Comparing two steps of {group}", pending)

    def _further(self, group: str, a: HistoryStep, b: HistoryStep) -> Iterator[FigureDoc]:
        """What was measured, counted and compiled of two steps; one origin a figure."""
        origin = next((step.measured.origin for step in (a, b) if step.measured), "")
        if origin:
            times = (step.time_of(origin) for step in (a, b))
            then, now = (time.microseconds if time else None for time in times)
            yield FigureDoc("time", "µs", then, now, origin, True)
        if a.checked or b.checked:
            for name in ("sectors", "requests"):
                before, after = (float(getattr(step.checked, name)) if step.checked else None for step in (a, b))
                yield FigureDoc(name, "", before, after, "counted", True)
        yield from _compiler_figures(*(self._workspace.known_kernel(group, step.text) for step in (a, b)))


def _compiler_figures(a: KernelDoc | None, b: KernelDoc | None) -> Iterator[FigureDoc]:
    """NVRTC's figures where either side was compiled."""
    old, new = ({each.architecture: each for each in kernel.compiled} if kernel else {} for kernel in (a, b))
    for name in dict.fromkeys((*old, *new)):
        sides = old.get(name), new.get(name)
        for figure, unit, field in (("registers", "", "registers"), ("spilled", "B", "spill_bytes")):
            before, after = (float(getattr(side, field)) if side else None for side in sides)
            yield FigureDoc(f"{figure}, {name}", unit, before, after, "compiled", True)
