"""Connects panels with the workspace: documents flow to the panels, requests flow back."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from app.controllers.exploration import ExplorationController
from app.controllers.fusion import FusionController
from app.controllers.kernel_times import KernelTimesController
from app.controllers.pipeline import PipelineController
from app.controllers.query_queue import QueryQueue
from app.controllers.timing import TimingController
from app.controllers.tuning.tuning import TuningController
from app.session import advice
from app.session.fusion_edits import FusionEdits
from app.session.selection import Selection
from app.session.workspace import Workspace
from app.shell.panels import PANELS
from engine.target.machines import is_cpu
from views.code.view import CodeView
from views.constraints.view import ConstraintsView
from views.explain.view import ExplainView
from views.graph.view import GraphView
from views.history.view import HistoryView
from views.moves.view import MovesView
from views.outline.view import OutlineView
from views.panel import Panel
from views.problems.jobs import JobsView
from views.problems.view import ProblemsView
from views.schedule.view import ScheduleView
from views.search.hits import Hit
from views.timing.view import TimingView
from views.tuning.panels import TuningPanels
from views.tuning.run import RunView
from views.tuning.search import SearchView
from views.tuning.trial import TrialView
from views.tuning.trial_table import TrialsView
from views.tuning.view import TuningView


class Panels:
    """The views of one window, under the names of their declarations; annotated are those that other code addresses."""

    outline: OutlineView
    explain: ExplainView
    graph: GraphView
    schedule: ScheduleView
    constraints: ConstraintsView
    moves: MovesView
    code: CodeView
    timing: TimingView
    history: HistoryView
    problems: ProblemsView
    jobs: JobsView
    tuning: TuningView
    trials: TrialsView
    search: SearchView
    trial: TrialView
    run: RunView

    def __init__(self) -> None:
        for info in PANELS:
            setattr(self, info.name, load(info.view)())

    def by_name(self) -> dict[str, Panel]:
        """The panels under their names, in the order of their declarations."""
        return dict(vars(self))


def load(path: str) -> Any:
    """What "MODULE:NAME" names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Wiring:
    """Keeps the panels and one workspace in step."""

    def __init__(self, panels: Panels, workspace: Workspace) -> None:
        self.panels = panels
        self.workspace = workspace
        self.queries = QueryQueue(workspace.client)
        workspace.model_changed.connect(self.queries.forget)  # before a controller asks about the new model
        self.exploration = ExplorationController(panels.schedule, panels.constraints, workspace, self.queries)
        self.pipeline = PipelineController(panels.schedule, panels.code, workspace, self.queries)
        self.questions = [
            load(info.controller)(panels.by_name()[info.name], info.question, workspace, self.queries)
            for info in PANELS
            if info.question
        ]
        self.timing = TimingController(panels.timing, workspace)
        self.fusion_edits = FusionEdits(workspace)
        self.times = KernelTimesController(panels.timing, panels.graph, workspace, self.timing)
        self.fusion = FusionController(panels.graph, self.fusion_edits)
        tuner = TuningPanels(panels.tuning, panels.trials, panels.search, panels.trial, panels.run)
        self.tuning = TuningController(tuner, workspace)
        self._connect_selection()
        self._connect_edits()
        workspace.model_changed.connect(self._show_model)
        workspace.preview.shown.connect(self._show_preview)
        workspace.times_changed.connect(self._show_times)
        workspace.kernel_changed.connect(self._show_kernel)
        workspace.problems_changed.connect(self._show_problems)
        workspace.opening_changed.connect(self._show_opening)
        workspace.bus.changed.connect(self._show_selection)

    @property
    def group(self) -> str:
        """Name of the selected group."""
        return self.workspace.bus.selection.group

    def _connect_selection(self) -> None:
        panels, bus = self.panels, self.workspace.bus
        for by_group in (panels.outline, panels.graph, panels.timing):
            by_group.group_selected.connect(bus.select_group)
        panels.graph.uncompiled_selected.connect(self.show_uncompiled)
        for by_statement in (panels.schedule, panels.code, panels.constraints):
            by_statement.statements_selected.connect(bus.select_statements)
        panels.problems.jump_requested.connect(self._jump)
        panels.problems.clear_requested.connect(lambda: self.workspace.clear_problems())

    def _connect_edits(self) -> None:
        constraints, workspace = self.panels.constraints, self.workspace
        constraints.apply_requested.connect(lambda text: workspace.edit(self.group, text))
        for signal, change in (
            (constraints.entry_requested, advice.with_pasted),
            (constraints.enabled_requested, advice.with_enabled),
            (constraints.stages_requested, advice.with_stages),
            (constraints.required_requested, advice.with_required),
            (constraints.removal_requested, advice.without_entry),
            (constraints.scenario_moved, advice.with_moved),
            (constraints.pasted, advice.with_pasted),
        ):
            signal.connect(lambda *arguments, change=change: workspace.change(self.group, change, *arguments))
        for panel in self.panels.by_name().values():
            panel.cancel_requested.connect(workspace.client.cancel)

    def _show_preview(self) -> None:
        """Graph and outline of operators; panels about kernels wait for these."""
        self._show_graph()
        self._show_opening(False)

    def _show_graph(self) -> None:
        overview, panels = self.workspace.shown, self.panels
        assert overview is not None
        panels.outline.show_model(overview)
        panels.graph.show_model(overview, keep=self.workspace.is_regrouping)
        panels.explain.show_model(overview.model)

    def _show_model(self) -> None:
        self._show_graph()
        panels = self.panels
        panels.schedule.show_empty("Select a group to see its schedule")
        model = self.workspace.model
        panels.code.show_languages(model is not None and is_cpu(model.target))
        panels.code.show_empty("Select a group to see its text")
        panels.constraints.show_empty("Select a group to see what was asked for, by whom, and what came of it")

    def _show_times(self) -> None:
        """All panels take times from the one model document; these do not follow by themselves."""
        overview, panels = self.workspace.overview, self.panels
        if overview is not None:
            panels.outline.show_times(overview)
            panels.graph.show_groups(overview.model)
            self._show_explanation()

    def _show_explanation(self) -> None:
        """The selected group in words, an operator without a kernel that was pointed at, else the whole model."""
        group, shown = self.workspace.group(self.group), self.workspace.shown
        if group is not None:
            self.panels.explain.show_group(group)
        elif shown is not None:
            model = shown.model
            told = self.panels.graph.scene.look.uncompiled
            one = next((each for each in model.uncompiled if each.id == told), None)
            self.panels.explain.show_uncompiled(one, model) if one else self.panels.explain.show_model(model)

    def show_uncompiled(self, name: str) -> None:
        """Tells about an operator that no kernel computes, in place of a group."""
        self.workspace.bus.select_group("")
        self.workspace.preview.looked_at = name
        self.panels.graph.show_uncompiled(name)
        self._show_explanation()

    def go_to(self, hit: Hit) -> None:
        """Shows what a search found."""
        if hit.statement:
            self.workspace.bus.select_statements((hit.statement,))
        elif hit.group:
            self.workspace.bus.select_group(hit.group)
        else:
            self.show_uncompiled(hit.node)
        if hit.node:
            self.panels.graph.canvas.reveal_launch(hit.node)

    def _show_selection(self, selection: Selection) -> None:
        panels, group = self.panels, self.workspace.group(selection.group)
        for panel in (panels.outline, panels.graph, panels.timing):
            panel.show_selection(selection.group)
        self._show_explanation()
        if group is not None:
            self._show_kernel(selection.group)
        self._show_statements(selection)

    def _show_statements(self, selection: Selection) -> None:
        for panel in (self.panels.schedule, self.panels.code, self.panels.constraints):
            panel.show_selection(selection.statements)

    def _show_kernel(self, name: str) -> None:
        """Schedule and code show the last legal kernel, the constraints the one that was asked for if there is one."""
        if name != self.group:
            return
        panels, workspace = self.panels, self.workspace
        group, kernel, legal = workspace.group(name), workspace.kernel(name), workspace.legal_kernel(name)
        refused = workspace.refusal(name)
        waiting = kernel is None and refused is None
        for panel in (panels.schedule, panels.code, panels.constraints):
            panel.show_loading(waiting)
        asked = kernel or (legal if refused else None)
        if asked is not None:
            panels.constraints.show_kernel(asked, workspace.recipe(name) or asked.recipe)
        panels.constraints.show_problem(refused)
        if group is not None and legal is not None:
            panels.schedule.show_kernel(legal, group.title, group.shape, stale=legal is not kernel and not waiting)
            panels.code.show_kernel(legal, workspace.check(name) if legal is kernel else None)
            panels.timing.show_kernel(legal, group.title)
        elif refused is not None:
            for panel in (panels.schedule, panels.code, panels.constraints):
                panel.show_empty(refused.sentence)
        self._show_statements(workspace.bus.selection)

    def _show_problems(self) -> None:
        self.panels.problems.show_problems([problem for _, problem in self.workspace.problems])

    def _show_opening(self, opening: bool) -> None:
        for panel in (self.panels.outline, self.panels.graph):
            panel.show_loading(opening)

    def _jump(self, number: int) -> None:
        if number < len(self.workspace.problems):
            group, problem = self.workspace.problems[number]
            if group:
                self.workspace.bus.select_group(group)
            model = self.workspace.model
            beside = (each.id for each in model.uncompiled if each.operator == problem.subject) if model else ()
            if (told := next(iter(beside), "")) and not group:
                self.show_uncompiled(told)
                self.panels.graph.canvas.reveal_launch(told)
            if problem.stage == "check" and " line " in problem.subject:
                self.panels.code.text.mark((int(problem.subject.rpartition(" ")[2]),))
