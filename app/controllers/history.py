"""Controller of the History panel."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.session.fusion_constraints import FUSION, fixed_of
from app.session.fusion_edits import FusionEdits
from app.session.history import FIRST, PREDICTED, History, HistoryStep
from app.session.workspace import Workspace
from engine.documents.model import GroupDoc
from views.format import amount, duration, figure, origin_of, plural
from views.history.canvas import Chip
from views.history.layout import StepTree
from views.history.view import HistoryView, StepFigure
from views.moves.rows import gain_text

UNKNOWN = "—"
NO_CHANGE = "none"
GROUPS = "which operators are one kernel"


class HistoryController(QObject):
    """Shows the history of the selected group and carries out what is asked of it."""

    compare_requested = Signal(str, int, int)
    """A group, its baseline and the step to compare with it."""

    def __init__(self, view: HistoryView, workspace: Workspace, fusing: FusionEdits) -> None:
        super().__init__()
        self.view, self.workspace, self.fusing = view, workspace, fusing
        # A turn of the event loop of its own: a new kernel also changes the code, the constraints and the graph.
        self._soon = QTimer(self, singleShot=True, interval=0)  # several changes in one event are shown once
        self._soon.timeout.connect(self._show_summary)
        workspace.history_changed.connect(self._on_changed)
        workspace.bus.changed.connect(lambda _: self._show())
        workspace.model_changed.connect(view.show_nothing)
        view.step_selected.connect(lambda _: self._show_summary())
        view.step_requested.connect(self._go)
        view.noted.connect(lambda number, note: workspace.note(self.group, number, note))
        view.compare_requested.connect(self.compare)

    @property
    def group(self) -> str:
        """The selected group, whose history is shown; where none is selected, that of the groups themselves."""
        return self.workspace.bus.selection.group or FUSION

    @property
    def history(self) -> History | None:
        """The history that is shown."""
        return self.workspace.histories.get(self.group)

    def pin(self) -> None:
        """Makes the selected step the baseline."""
        if self.history is not None:
            self.workspace.pin(self.group, self.view.selected)

    def compare(self) -> None:
        """Asks for the selected step beside the baseline; where it is the baseline, beside the present step."""
        history = self.history
        if history is not None and self.group != FUSION:
            chosen = self.view.selected
            other = history.current if chosen == history.baseline else chosen
            self.compare_requested.emit(self.group, history.baseline, other)

    def _go(self, number: int) -> None:
        if self.group == FUSION:
            self.fusing.go(number)
        else:
            self.workspace.go(self.group, number)

    def _on_changed(self, group: str) -> None:
        if group == self.group:
            self._show()

    def _show(self) -> None:
        history, group = self.history, self.workspace.group(self.group)
        if history is None or (group is None and self.group != FUSION):
            self.view.show_nothing()
            return
        parents = tuple(step.parent for step in history.steps)
        tree = StepTree(parents, history.current, history.baseline, history.next_step)
        title = group.title if group else GROUPS
        self.view.show_steps(self.group, title, tree, lambda number: _chip(history, number))
        self._soon.start()

    def _show_summary(self) -> None:
        history, group = self.history, self.workspace.group(self.group)
        if history is not None:
            number = self.view.selected
            self.view.show_summary(_headlines(history, number, group), history.steps[number].note)


def _chip(history: History, number: int) -> Chip:
    step = history.steps[number]
    status = step.checked.status if step.checked else ""
    gain = history.gain(number, step.parent)
    return Chip(step.title, step.time, gain.part if gain else None, status, _tip(step), gain is None or gain.sure)


def _tip(step: HistoryStep) -> str:
    """Everything known about a step, one origin a line."""
    lines = [step.title]
    times = filter(None, (step.predicted, step.measured))
    lines += [f"{duration(time.microseconds)} {origin_of(time)}" for time in times]
    if step.checked is not None:
        checked = step.checked
        blocks = f"{checked.blocks_run:,} of {plural(checked.blocks_total, 'block')}"
        lines.append(f"check: {checked.status}, {blocks}, {checked.extent}")
        if checked.requests:
            events = f"{plural(checked.requests, 'request')}, {plural(checked.sectors, 'sector')}"
            lines.append(f"counted over these blocks: {events}")
    return "\n".join(filter(None, (*lines, step.note)))


def _headlines(history: History, number: int, group: GroupDoc | None) -> tuple[StepFigure, ...]:
    """The summary of a step: its gains, each of its own kind, against the floor, how far checked."""
    step = history.steps[number]
    if group is None:
        return _fixed_headlines(history, number)
    known = step.measured or history.steps[history.baseline].measured
    measured = _gain(history, number, known.origin if known else "measured")
    others = _gain(history, number, PREDICTED), _event_figure(history, number), _check_figure(step), _floor(step, group)
    return (measured, *others) if known else (*others, measured)


def _fixed_headlines(history: History, number: int) -> tuple[StepFigure, ...]:
    """The summary of a step of the groups: the whole model's gain, and what is fixed."""
    fixed = fixed_of(history.steps[number].text)
    return (
        _gain(history, number, PREDICTED),
        StepFigure("Groups fixed", f"{len(fixed.groups):,}", "the rest is explored"),
        StepFigure("Author", "search" if number == FIRST else "user", "who decided last"),
        StepFigure("Kept apart", f"{len(fixed.apart):,}", f"pair{'s' * (len(fixed.apart) != 1)} of operators"),
        StepFigure("Gain, measured", UNKNOWN, "measured kernel by kernel"),
    )


def _gain(history: History, number: int, origin: str) -> StepFigure:
    """What a step saves against the baseline, in times of one origin."""
    caption = f"Gain, {origin}"
    base, time = (history.steps[each].time_of(origin) for each in (history.baseline, number))
    if number == history.baseline:
        return StepFigure(caption, UNKNOWN, f"baseline, {duration(time.microseconds)}" if time else "of the baseline")
    if base is None or time is None:
        lacking = "step" if time is None else "baseline"
        return StepFigure(caption, UNKNOWN, f"{lacking} not {origin}")
    gain = history.gain(number, history.baseline, origin)
    if gain is None:
        return StepFigure(caption, UNKNOWN, f"baseline on {base.device}")
    detail = f"{duration(base.microseconds)} → {duration(time.microseconds)}"
    if not gain.sure:
        return StepFigure(caption, NO_CHANGE, f"{detail}, not significant")
    return StepFigure(caption, gain_text(gain.part), detail, _tone(gain.part))


def _tone(gain: float) -> str:
    return "better" if gain > 0 else "worse" if gain < 0 else ""


def _floor(step: HistoryStep, group: GroupDoc) -> StepFigure:
    if step.time is None or group.floor <= 0:
        return StepFigure("Against floor", UNKNOWN, "")
    detail = f"{duration(group.floor)} for {amount(group.bytes)}"
    return StepFigure("Against floor", f"{figure(step.time.microseconds / group.floor)}×", detail)


def _check_figure(step: HistoryStep) -> StepFigure:
    checked = step.checked
    if checked is None:
        return StepFigure("Checked", UNKNOWN, "F8 to check")
    if checked.status != "pass":
        return StepFigure("Checked", checked.status, "see Problems", "worse")
    return StepFigure("Checked", f"{checked.blocks_run:,} / {checked.blocks_total:,}", f"blocks, {checked.extent}")


def _event_figure(history: History, number: int) -> StepFigure:
    """The memory events of a check, against the baseline's where both ran as many blocks."""
    checked, base = history.steps[number].checked, history.steps[history.baseline].checked
    if checked is None or not checked.requests:
        return StepFigure("Gain, counted", UNKNOWN, "its check counted none" if checked else "F8 counts sectors")
    sectors = amount(checked.sectors, "").strip()
    if number == history.baseline or base is None or not base.sectors:
        return StepFigure("Counted", sectors, f"sectors, {amount(checked.requests, '').strip()} requests")
    if checked.blocks_run * base.blocks_total != base.blocks_run * checked.blocks_total:
        return StepFigure("Counted", sectors, "sectors of other blocks")
    gain = (base.sectors - checked.sectors) / base.sectors
    detail = f"{amount(base.sectors, '').strip()} → {sectors} sectors"
    return StepFigure("Gain, counted", gain_text(gain), detail, _tone(gain))
