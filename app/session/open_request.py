"""A request to open a model: its file, target and sizes, and the histories to restore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.session.fusion_constraints import FREE, FUSION, DormantHistory, fixed_arguments
from app.session.history import HistoryRecord
from app.session.named_models import path_of
from app.session.selection import Selection
from engine.documents.model import ModelDoc, ProblemDoc
from engine.tensor.numerics import ARITHMETIC, OPMATH


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A model and its machine; with a workspace file also the histories to go on with and what was in sight."""

    path: str
    target: str
    dimensions: Mapping[str, int] = field(default_factory=dict)
    trails: Mapping[str, HistoryRecord] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    view: Mapping[str, str] = field(default_factory=dict)
    """What was in sight: "perspective", "colour"."""
    loom: str = ""
    """The workspace file that this is saved in, or ""."""
    warnings: tuple[ProblemDoc, ...] = ()
    unsaved: bool = False
    """Whether the histories are newer than the workspace file."""
    numerics: Mapping[str, str] | None = None
    """How kernels round (`Recipe.numerics`); None leaves it to the engine."""
    asleep: tuple[DormantHistory, ...] = ()
    """Histories of groups that other plans of the model had."""

    def problems(self, model: ModelDoc) -> Iterator[ProblemDoc]:
        """What to tell of the opened model: operators without a kernel, what reading the file found, and histories of
        groups that it does not have, which are kept, and saved again."""
        for name, reason in model.unsupported:
            yield ProblemDoc("graph", name, reason, "", "warning")
        yield from self.warnings
        known = {group.name for group in model.groups}
        for name in self.trails:
            if name not in known and name != FUSION:
                yield ProblemDoc("workspace", name, "the model has no such group", "its history is kept", "warning")

    def arguments(self) -> dict[str, object]:
        """As the worker takes them."""
        model = {"path": str(path_of(self.path)), "target": self.target, "dimensions": dict(self.dimensions)}
        if self.numerics is not None:
            model["numerics"] = dict(self.numerics)
        return model | fixed_arguments(self.fixed)

    def rounding(self, model: ModelDoc | None) -> dict[str, str]:
        """How the kernels of the opened model round, or would where it is not there yet."""
        if model is not None:
            return dict(model.numerics)
        return {ARITHMETIC: OPMATH} if self.numerics is None else dict(self.numerics)

    @property
    def fixed(self) -> str:
        """What is fixed about the groups, as text."""
        trail = self.trails.get(FUSION)
        return trail.text if trail else FREE
