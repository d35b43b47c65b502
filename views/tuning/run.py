"""The run panel: what to search and for how long, and what a run does that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtGui import QIntValidator
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from views.choices import choice_box, show_choices
from views.message import detail_of
from views.panel import PADDING, Elided, Panel, label, rule
from views.tuning.nodes import (
    FINISHED,
    INTERRUPTED,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    RunChoice,
    Status,
)
from views.tuning.start_file import StartFile

ALL, SELECTED = "All groups", "Selected group"
NO_LIMIT = "no limit"
TRIALS, MOST = 64, 1_000_000
"""For each group on average: where nothing is typed, and at most."""
SAID = {
    RUNNING: "running", PAUSED: "paused", STOPPED: "stopped, best kept", FINISHED: "finished",
    INTERRUPTED: "interrupted: its process gives no sign of life", STARTING: "starting…", STOPPING: "stopping…",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is to be started with."""

    strategy: str
    runner: str
    trials: int
    """For each group on average."""
    minutes: int
    """0 for no limit."""
    selected_only: bool
    start: str
    """Path of the file whose programs are tried first; "" for none."""


class RunView(Panel):
    """Settings for the next run above, the run that is shown below."""

    start_requested = Signal()
    pause_requested = Signal()
    stop_requested = Signal()
    resume_requested = Signal()
    attach_requested = Signal()
    detach_requested = Signal()
    run_chosen = Signal(int)
    """Number of another run of the file that is open."""

    def __init__(self) -> None:
        super().__init__("Run")
        self.setObjectName("tuning-run")
        self.strategy, self.runner = choice_box("Strategy"), choice_box("Time source")
        self.scope = choice_box("What is searched")
        self.scope.addItems([ALL, SELECTED])
        self.trials = _number("Trials for each group on average", str(TRIALS))
        self.minutes = _number("Minutes, at most", NO_LIMIT)
        self.start_file = StartFile()
        self.tint(self.start_file.clear, "cancel")
        self.start = _button("Start", self.start_requested, "primary-small")
        self.attach = _button("Open tuning log…", self.attach_requested)
        self.pause = _button("Pause", self.pause_requested)
        self.stop = _button("Stop", self.stop_requested)
        self.resume = _button("Resume", self.resume_requested)
        self.detach = _button("Close run", self.detach_requested)
        self.runs = choice_box("Which run of the log is shown")
        self.runs.activated.connect(lambda _: self.run_chosen.emit(self.runs.currentData()))
        self.state_title, self.state, self.count = label("", "title"), Elided("hint"), label("", "second")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Trials done")
        self.facts = QGridLayout()
        self.facts.setHorizontalSpacing(16)
        self.facts.setVerticalSpacing(2)
        self.message = label("", "wrong-text", wrap=True)
        self.message.hide()
        self._shown = self._make_shown()
        self.body_layout.addWidget(self._make_settings())
        self.body_layout.addWidget(rule())
        self.body_layout.addWidget(self._shown)
        self.body_layout.addStretch(1)
        self.show_status(None)
        self.show_body()

    @property
    def settings(self) -> RunSettings:
        """What is chosen for the next run."""
        return RunSettings(
            self.strategy.currentText(), self.runner.currentText(),
            max(int(self.trials.text() or TRIALS), 1), int(self.minutes.text() or 0),
            self.scope.currentText() == SELECTED, self.start_file.path,
        )  # fmt: skip

    def show_choices(self, strategies: Sequence[str], runners: Sequence[str]) -> None:
        """What there is to choose from, the default first; a choice that is still there stays."""
        for box, names in ((self.strategy, strategies), (self.runner, runners)):
            if [box.itemText(number) for number in range(box.count())] != list(names):
                chosen = box.currentText()
                box.clear()
                box.addItems(list(names))
                box.setCurrentText(chosen if chosen in names else names[0])

    def show_ready(self, ready: bool) -> None:
        """Whether a run can be started now."""
        self.start.setEnabled(ready)

    def show_runs(self, runs: Sequence[RunChoice], shown: int, why_fixed: str = "") -> None:
        """The runs of the file that is open; with a single one there is no choice.

        shown: number of the one that is shown.  why_fixed: why no other can be chosen now; "" where one can.
        """
        places = [one.number for one in runs]
        place = places.index(shown) if shown in places else -1
        show_choices(self.runs, [(one.text, one.number) for one in runs], place)
        self.runs.setVisible(len(runs) > 1)
        self.runs.setEnabled(not why_fixed)
        if why_fixed:
            self.runs.setToolTip(why_fixed)

    def show_status(self, status: Status | None) -> None:
        """Follows the run; None where none is shown."""
        self._shown.setVisible(status is not None)
        if status is None:
            return
        self.state_title.setText(status.title)
        said = SAID.get(status.state, status.state)
        tells = status.message and (status.state == RUNNING or not status.is_live)
        self.state.setText(f"{said}: {status.message}" if tells else said)
        count = f"{status.done:,} of {status.total:,} trials" if status.total else f"{status.done:,} trials"
        self.count.setText("  ".join(filter(None, (count, status.left))))
        self.bar.setRange(0, max(status.total, status.done, 1))
        self.bar.setValue(status.done)
        live = status.is_live
        self.pause.setVisible(status.state in (RUNNING, STARTING))
        self.resume.setVisible(status.state == PAUSED or (status.is_last and status.state in (STOPPED, INTERRUPTED)))
        self.stop.setVisible(live)
        self.stop.setEnabled(status.state != STOPPING)
        self.detach.setVisible(not live)
        self._show_facts(status.facts)
        problem = status.problem
        self.message.setVisible(problem is not None)
        if problem is not None:
            self.message.setText(f"{problem.subject}: {detail_of(problem)}")
        self.setAccessibleDescription(f"{status.title}, {self.state.text()}, {self.count.text()}")

    def _show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Name over value, side by side."""
        while (item := self.facts.takeAt(2 * len(facts))) is not None:
            if (extra := item.widget()) is not None:
                extra.deleteLater()
        for number, (name, value) in enumerate(facts):
            self.facts.setColumnStretch(number, 1)
            for row, (text, role) in enumerate(((name, "small-hint"), (value, "second"))):
                item = self.facts.itemAtPosition(row, number)
                shown = item.widget() if item is not None else Elided(role)
                assert isinstance(shown, QLabel)
                shown.setText(text)
                if item is None:
                    self.facts.addWidget(shown, row, number)

    def _make_settings(self) -> QWidget:
        made = QWidget()
        grid = QGridLayout(made)
        grid.setContentsMargins(PADDING, 8, PADDING, 8)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(6)
        fields = (("Search", self.scope), ("Strategy", self.strategy), ("Time source", self.runner))
        more = (("Trials a group", self.trials), ("Minutes", self.minutes), ("Start from", self.start_file))
        for row, line in ((0, fields), (2, more)):
            for column, (name, field) in enumerate(line):
                grid.addWidget(label(name, "small-hint"), row, column)
                grid.addWidget(field, row + 1, column)
                grid.setColumnStretch(column, 1)
        buttons = QHBoxLayout()
        buttons.setSpacing(6)
        buttons.addStretch(1)
        buttons.addWidget(self.attach)
        buttons.addWidget(self.start)
        grid.addLayout(buttons, 4, 0, 1, 3)
        return made

    def _make_shown(self) -> QWidget:
        made = QWidget()
        column = QVBoxLayout(made)
        column.setContentsMargins(PADDING, 8, PADDING, 8)
        column.setSpacing(6)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.state_title)
        head.addWidget(self.state, 1)
        for button in (self.pause, self.resume, self.stop, self.detach):
            head.addWidget(button)
        column.addWidget(self.runs)
        column.addLayout(head)
        column.addWidget(self.count)
        column.addWidget(self.bar)
        column.addLayout(self.facts)
        column.addWidget(self.message)
        return made


def _number(name: str, default: str) -> QLineEdit:
    """A whole number; what holds where nothing is typed stands there in grey."""
    made = QLineEdit()
    made.setProperty("role", "small")
    made.setValidator(QIntValidator(0, MOST, made))
    made.setPlaceholderText(default)
    made.setAccessibleName(name)
    made.setToolTip(name)
    return made


def _button(text: str, wish: SignalInstance, role: str = "small") -> QPushButton:
    made = QPushButton(text)
    made.setProperty("role", role)
    made.clicked.connect(wish)
    return made
