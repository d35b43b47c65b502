"""Compares the open model with another file: the worker opens it beside the open one, a window shows both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.session.background import Background
from app.session.client import Pending
from app.session.fusion_constraints import FUSION, fixed_arguments
from app.session.loom_file import SUFFIX, find_model, read_loom
from app.session.named_models import path_of
from app.session.workspace import Workspace
from engine.documents.difference import ModelComparisonDoc
from engine.documents.model import ProblemDoc
from views.diff.models import ModelDiffView
from views.diff.window import CompareWindow
from views.overview import Overview, overview


class ModelDiffController(QObject):
    """One comparison at a time, in a window that does not stop the other."""

    def __init__(self, parent: QWidget, workspace: Workspace, name: Callable[[], str]) -> None:
        """name: of what is open."""
        super().__init__(parent)
        self.view = ModelDiffView()
        self.window = CompareWindow(parent, "Compare models", self.view, (1180, 760))
        self._workspace, self._name = workspace, name
        self._background = Background()
        self._asked = ""
        workspace.model_changed.connect(self.window.close)

    @property
    def is_idle(self) -> bool:
        """Whether no file is being read."""
        return self._background.is_idle

    def compare(self, path: str) -> None:
        """Shows another model or workspace beside the open one."""
        self._asked = path
        self.view.show_asked(Path(path).name)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()
        opened = self._workspace.opened
        numerics = opened.rounding(self._workspace.model)
        machine = {"target": opened.target, "dimensions": dict(opened.dimensions), "numerics": numerics}
        self._background.run(
            lambda: {**machine, **other_arguments(path)}, lambda found: self._request(path, found), self._refuse
        )

    def close(self) -> None:
        """Waits for what is being read."""
        self._background.close()

    def _request(self, path: str, other: dict[str, object]) -> None:
        known = self._workspace.histories
        recipes = {name: history.step.text for name, history in known.items() if name != FUSION}

        def show(found: tuple[ModelComparisonDoc, Overview]) -> None:
            mine = self._workspace.overview
            if path == self._asked and mine is not None:
                document, theirs = found
                titles = self._name(), Path(path).name
                self.view.show_difference(titles, (mine, theirs), document.difference)

        pending = Pending(
            ModelComparisonDoc, show, self._refuse, prepare=lambda document: (document, overview(document.other))
        )
        title = f"Comparing with {Path(path).name}"
        self._workspace.client.request("compare-model", {**other, "recipes": recipes}, title, pending)

    def _refuse(self, problem: ProblemDoc) -> None:
        self.view.show_refusal(problem.sentence)
        self._workspace.add_problem("", problem)


def other_arguments(path: str) -> dict[str, object]:
    """A file as the worker takes it: of a workspace its model, machine, fixed groups and advice."""
    file = Path(path).absolute()
    if file.suffix.lower() != SUFFIX:
        return {"path": str(file)}
    content = read_loom(file)
    now = {name: trail.text for name, trail in content.groups.items()}
    return {
        "path": str(path_of(find_model(content.model, file.parent))), "target": content.target,
        "dimensions": dict(content.dimensions), "numerics": dict(content.numerics),
        **fixed_arguments(now.pop(FUSION, "")), "other_recipes": now,
    }  # fmt: skip
