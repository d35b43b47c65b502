"""Every panel of the window, declared once: wiring, layout, menus, palette, help and `render` read this table.

Nothing here imports Qt, so that the command line can name the panels; views and controllers are imported by
their names when a window is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PERSPECTIVES: Mapping[str, tuple[float, ...]] = {
    "Explore": (0.258, 0.377, 0.365),
    "Schedule": (0.3, 0.4, 0.3),
    "Pipeline": (0.306, 0.694),
    "Tune": (0.64, 0.36),
}
"""Perspective -> the widths of its columns, as parts of the window's."""


@dataclass(frozen=True, slots=True)
class Column:
    """A place in a column, below the panels of the same column that are declared before."""

    number: int
    """From the left, 0 for the first."""
    height: float = 1.0
    """Part of the window's height."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A tab behind another panel."""

    front: str


@dataclass(frozen=True, slots=True)
class Bottom:
    """Along the whole lower edge."""

    height: int
    """Pixels."""


@dataclass(frozen=True, slots=True)
class PanelInfo:
    """How a panel is called, made and reached, and where it stands."""

    name: str
    """In code, in `render --panel` and, capitalised, in its header and in menus."""
    view: str
    """"MODULE:CLASS" of the widget, a `views.panel.Panel`."""
    tip: str
    places: Mapping[str, Column | Behind | Bottom] = field(default_factory=dict)
    """Perspective -> where it stands there; it is hidden in the others."""
    strip: float = 0.0
    """Its part of the strip below all perspectives, which opens on demand; 0 for a panel that is none of it."""
    keys: str = ""
    """Shortcut that shows and hides it."""
    question: str = ""
    """The question (`engine.documents.exploration.QUESTIONS`) about the selected group that it shows the answer to."""
    controller: str = "app.controllers.question:QuestionController"
    """"MODULE:CLASS" of what asks the question; unused without one."""

    @property
    def title(self) -> str:
        """What its header says."""
        return self.name.capitalize()

    @property
    def action(self) -> str:
        """Name of the action that shows and hides it."""
        return f"panel-{self.name}"

    @property
    def picture_action(self) -> str:
        """Name of the action that writes its picture."""
        return f"picture-{self.name}"


PANELS = (
    PanelInfo("outline", "views.outline.view:OutlineView", "Groups of the model with their times",
              {"Explore": Column(0, 0.57), "Schedule": Column(0, 0.28)}),
    PanelInfo("explain", "views.explain.view:ExplainView", "The selected group in words", {"Explore": Column(0, 0.43)}),
    PanelInfo("graph", "views.graph.view:GraphView", "The model as a graph of kernels", {"Explore": Column(1)}),
    PanelInfo("schedule", "views.schedule.view:ScheduleView", "Tree, iteration space, decisions, addresses, pipeline",
              {"Explore": Column(2, 0.54), "Schedule": Column(1), "Pipeline": Column(1)}),
    PanelInfo("constraints", "views.constraints.view:ConstraintsView",
              "What was asked for, by whom, and what came of it", {"Schedule": Column(2, 0.62)},
              question="conflict", controller="app.controllers.question:ConflictController"),
    PanelInfo("moves", "views.moves.view:MovesView", "Next steps that are possible, with their predicted gains",
              {"Schedule": Column(2, 0.38)}, question="moves", controller="app.controllers.question:MovesController"),
    PanelInfo("code", "views.code.view:CodeView", "CUDA text, PTX and SASS",
              {"Schedule": Column(0, 0.72), "Pipeline": Column(0)}),
    PanelInfo("timing", "views.timing.view:TimingView", "Predicted and measured times, live samples, roofline",
              {"Explore": Column(2, 0.46), "Schedule": Behind("moves")}),
    PanelInfo("history", "views.history.view:HistoryView", "Steps of the selected group and their gains",
              {"Schedule": Bottom(132)}),
    PanelInfo("problems", "views.problems.view:ProblemsView", "What was refused, failed or not supported", strip=0.62),
    PanelInfo("jobs", "views.problems.jobs:JobsView", "What the worker does and what waits for it", strip=0.38),
    PanelInfo("tuning", "views.tuning.view:TuningView", "Progress of a search, predictions, dimensions, ablation",
              {"Tune": Column(0, 0.53)}),
    PanelInfo("trials", "views.tuning.trial_table:TrialsView", "Trials of a search", {"Tune": Column(0, 0.47)}),
    PanelInfo("search", "views.tuning.search:SearchView", "Where trials went", {"Tune": Column(1, 0.71)}),
    PanelInfo("trial", "views.tuning.trial:TrialView", "The chosen trial", {"Tune": Behind("search")}),
    PanelInfo("run", "views.tuning.run:RunView", "Settings, start and stop of a run", {"Tune": Column(1, 0.29)}),
)  # fmt: skip
