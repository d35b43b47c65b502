"""Controller of the Pipeline page and of the Code panel's listings: charts, what-if sliders, PTX and SASS.

The model answers in the window's process, within a millisecond; kernels, NVRTC and listings are the worker's.  It is
imported with the first chart (`app.shell.main` does it ahead of that), as a window that starts has no use for it.
"""

from __future__ import annotations

from app.controllers.query_queue import QueryQueue, Question
from app.controllers.question import GroupController
from app.session.workspace import Workspace
from engine.documents.model import ProblemDoc
from engine.documents.pipeline import ChartDoc, ListingDoc, RefusalDoc, VariantDoc
from engine.support.errors import BadInput
from engine.tensorize.space import GemmConfig
from views.code.view import CUDA, CodeView
from views.schedule.view import PIPELINE, ScheduleView


class PipelineController(GroupController):
    """Keeps chart, what-if and listings in step with the selected group's advice."""

    def __init__(self, schedule: ScheduleView, code: CodeView, workspace: Workspace, queries: QueryQueue) -> None:
        super().__init__(workspace, queries, schedule, code)
        self.schedule, self.code = schedule, code
        self.page = schedule.pipeline
        self._knobs: GemmConfig | None = None
        """Where the sliders stand; None where the kernel in use does."""
        self._applying: Question | None = None
        """What is to be applied as soon as the worker has made it, while its group is selected."""
        self._refused: RefusalDoc | None = None
        """Why the sliders' values cannot be."""
        workspace.bus.changed.connect(self._leave)
        queries.answered.connect(self._on_answered)
        workspace.model_changed.connect(self._forget)
        for panel in (schedule, code):
            panel.tab_selected.connect(lambda _: self.refresh())
        self.page.lines_selected.connect(self._mark)
        code.line_selected.connect(self.page.canvas.show_line)
        knobs = self.page.what_if
        knobs.turned.connect(self._turn)
        knobs.released.connect(self._ask_compiler)
        knobs.applied.connect(self._apply)
        knobs.reset.connect(self._reset)
        knobs.nearest_requested.connect(self._take_nearest)

    def preview(self, name: str, value: int) -> None:
        """Moves a slider, as the user would.  BadInput where there is none of that name."""
        sliders = self.page.what_if.sliders
        if name not in sliders:
            hint = f"one of {', '.join(sliders)}" if sliders else f"{self.group} is no contraction with tiles"
            raise BadInput("window", f"slider {name}", "there is none of that name", hint)
        self._turn(name, value)
        self._ask_compiler()

    def refresh(self) -> None:
        """Says what the visible tabs want, and shows what is known."""
        chart, listing = self._question("chart"), self._listing_question()
        in_sight = self.schedule.isVisible() and self.schedule.tab == PIPELINE
        self.queries.want(self, [chart if in_sight else None, listing if self.code.isVisible() else None])
        self.queries.show_answer(self.page, chart, self._show_chart)
        self._show_listing(listing)

    def _question(self, verb: str, **details: object) -> Question | None:
        """About the advice of the kernel in use; None until it is known."""
        history = self.workspace.histories.get(self.group)
        return Question(verb, self.group, history.step.text, details) if history else None

    def _listing_question(self) -> Question | None:
        """The text that stands beside the CUDA text; None for the CUDA text itself."""
        language = self.code.language
        return None if language == CUDA else self._question("listing", language=language)

    def _variant_question(self) -> Question | None:
        """About the values that the sliders stand at; None where they are the kernel's own, or cannot be."""
        chart = self.page.chart
        if chart is None or self._knobs is None or self._knobs == chart.knobs:
            return None
        return self._question("variant", knobs=self._knobs)

    def _show_chart(self, chart: ChartDoc) -> None:
        if chart != self.page.chart:
            self._knobs = chart.knobs
            self.page.show_chart(chart)
            self._show_model()

    def _show_listing(self, question: Question | None) -> None:
        if question is None:
            return
        known = self.queries.answer(question)
        if isinstance(known, ProblemDoc):
            self.code.show_listing(None, known.sentence)
        else:
            self.code.show_listing(known if isinstance(known, ListingDoc) else None)

    def _mark(self, lines: tuple[int, ...]) -> None:
        """What is selected in the chart is marked in the code and, by its loop, in the schedule."""
        self.code.mark(lines)
        chart = self.page.chart
        self.schedule.tree.show_selection((), chart.loop if chart is not None and lines else "")

    def _turn(self, name: str, value: int) -> None:
        """A slider moves: the model answers at once."""
        from engine.explore.what_if import turn_knob

        chart = self.page.chart
        if chart is not None and chart.gemm is not None and self._knobs is not None:
            self._knobs = turn_knob(chart.gemm.problem, self._knobs, name, value)
            self._show_model()

    def _show_model(self) -> None:
        from engine.explore.what_if import what_if_of_chart

        chart = self.page.chart
        if chart is None or chart.gemm is None or self._knobs is None:
            return
        answer = what_if_of_chart(chart, self._knobs, self.workspace.opened.target)
        self.page.what_if.show_answer(answer, chart)
        self._refused = answer.refusal
        known = self.queries.answer(self._variant_question())
        if isinstance(known, VariantDoc):
            self.page.what_if.show_compiled(known)

    def _ask_compiler(self) -> None:
        """A slider stands: NVRTC has the last word."""
        question = self._variant_question()
        if question is None or self._refused is not None:
            return
        if self.queries.answer(question) is None:
            self.page.what_if.show_compiling()
            self.queries.ask(question)
        else:
            self._on_answered(question)

    def _apply(self) -> None:
        """Makes entries of the user of the sliders' values, as one step; the worker writes them."""
        self._applying = self._variant_question()
        if self._applying is not None:
            self._ask_compiler()

    def _reset(self) -> None:
        chart = self.page.chart
        self._applying = None
        if chart is not None:
            self._knobs = chart.knobs
            self._show_model()

    def _take_nearest(self) -> None:
        if self._refused is not None and self._refused.nearest is not None:
            self._knobs = self._refused.nearest
            self._show_model()
            self._ask_compiler()

    def _on_answered(self, question: Question) -> None:
        known = self.queries.answer(question)
        if question.verb != "variant" or question != self._variant_question():
            return
        if isinstance(known, VariantDoc):
            self.page.what_if.show_compiled(known)
            if question == self._applying:
                self._applying = None
                self.workspace.edit(self.group, known.changed)
        elif isinstance(known, ProblemDoc):
            self._applying = None
            self.page.what_if.show_problem(known)

    def _leave(self) -> None:
        self._applying = None

    def _forget(self) -> None:
        self._applying = self._knobs = None
        self.page.show_nothing()
