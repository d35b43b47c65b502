"""Controller of measurements and replays: the samples, their baseline, and the times that result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.controllers.player import Player
from app.controllers.recording import Recording, Take, read_recording
from app.controllers.sampling import SampleRun
from app.session.background import Background
from app.session.client import Pending
from app.session.current_times import measured_times
from app.session.measuring import MeasuringDevice, measuring
from app.session.selection import Selection
from app.session.workspace import Workspace
from engine.documents.model import ProblemDoc, Time
from views.timing.live import Live
from views.timing.view import LIVE, TimingView

REPAINT_MS = 50
"""Samples that come faster are shown together."""


class TimingController(QObject):
    """Fills the live page; samples come from the measuring worker or from a recording."""

    times_changed = Signal()
    """Times of a recording came or went, or samples were pinned."""
    shown = Signal()
    """Another moment is shown."""

    def __init__(self, view: TimingView, workspace: Workspace) -> None:
        super().__init__(view)
        self.view, self.workspace = view, workspace
        self.runs: dict[str, SampleRun] = {}
        """Group -> its samples of this machine, of the advice that was measured last."""
        self.pinned: dict[str, SampleRun] = {}
        """What is measured -> the run that later ones are compared with."""
        self.player: Player | None = None
        self._refusal: tuple[str, ProblemDoc] | None = None
        """What could not be measured or replayed, until it is read."""
        self._files = Background()
        self._repaint = QTimer(self, singleShot=True, interval=REPAINT_MS)
        self._repaint.timeout.connect(self.show)
        workspace.bus.changed.connect(self._on_selected)
        workspace.history_changed.connect(self._on_history)
        workspace.model_changed.connect(self._forget)
        workspace.machine.changed.connect(self._show_machine)
        workspace.model_changed.connect(self._show_machine)
        page, deck = view.live, view.live.deck
        page.dismissed.connect(self._dismiss)
        deck.row_requested.connect(self.play)
        deck.pause_requested.connect(self.pause)
        deck.stop_requested.connect(self.stop)
        deck.speed_requested.connect(lambda speed: self.player and self.player.set_speed(speed))

    @property
    def is_idle(self) -> bool:
        """Whether no file is being read."""
        return self._files.is_idle

    @property
    def refusal(self) -> ProblemDoc | None:
        """Why the last file or kernel was refused, until it is read."""
        return self._refusal[1] if self._refusal else None

    @property
    def times(self) -> dict[str, Time]:
        """Measured times of the groups: of their present advice, or of a recording that does not say of which it is."""
        recorded = {name: take.time for name, take in self._taken.items() if self._is_present(take)}
        return {**recorded, **measured_times(self.workspace.histories)}

    @property
    def baselines(self) -> dict[str, Time]:
        """Times of the pinned samples, of those groups whose samples they are."""
        groups = {take.row: group for group, take in self._taken.items()}
        found = {}
        for row, run in self.pinned.items():
            group, series = groups.get(row, row), run.series()
            found[group] = Time(series.median, run.origin, "", series.low, series.high, (), run.device, run.date)
        return found

    @property
    def run(self) -> SampleRun | None:
        """The samples that are shown: the replayed ones, else the selected group's."""
        if self.player is not None:
            return self.player.run
        group = self.workspace.bus.selection.group
        return self.runs.get(group) or self._known_run(group)

    @property
    def _taken(self) -> dict[str, Take]:
        return self.player.recording.groups if self.player else {}

    def close(self) -> None:
        """Ends the replay and waits for the file that is being read."""
        self._repaint.stop()
        if self.player is not None:
            self.player.stop()
        self._files.close()

    def measure(self, group: str) -> None:
        """Measures a group's kernel; where that cannot be, the live page says why and what to install."""
        self._refusal = None
        self.stop()
        known = self.workspace.group(group)
        run = SampleRun(known.title if known else group, group, "measured", self._measuring.device or "")
        text = self.workspace.recipe(group)
        before = self.runs.pop(group, None)
        self.runs[group] = run

        def on_sample(microseconds: float) -> None:
            run.samples.append(microseconds)
            self._show_soon()

        def on_time(time: Time) -> None:
            self.runs[group] = SampleRun.of(run.title, group, replace(time, samples=time.samples or tuple(run.samples)))
            self.runs[group].looks = run.looks
            self.workspace.learn(group, text or "", measured=time)
            self._show_soon()

        def on_problem(problem: ProblemDoc) -> None:
            self.runs.pop(group, None)
            if before is not None:
                self.runs[group] = before
            self.workspace.add_problem(group, problem)
            self._refuse(f"{run.title} was not measured", problem)

        pending = Pending(Time, on_time, on_problem, on_sample, run.look)
        self.workspace.client.request("measure", {"group": group, "recipe": text}, f"Timing {group}", pending)
        self._show_soon()

    def replay(self, path: str) -> None:
        """Reads a file of recorded samples and plays its first row, or says why it cannot be."""
        model, source = self.workspace.model, self.workspace.opened.path
        self._files.run(lambda: read_recording(path, model, source), self._on_read, partial(self._on_refused, path))

    def play(self, number: int) -> None:
        """Plays a row of the recording; the group that it is of is selected."""
        if self.player is not None:
            self.player.play(number)
            if self.player.take.group:
                self.workspace.bus.select_group(self.player.take.group)

    def pause(self) -> None:
        """Pauses the replay, or goes on."""
        if self.player is not None:
            self.player.pause()

    def stop(self) -> None:
        """Puts the recording away, with its times."""
        if self.player is not None:
            self.player.stop()
            self.player.deleteLater()
            self.player = None
            self.times_changed.emit()
            self.show()

    def change_speed(self, step: int) -> None:
        """Plays faster (1) or slower (-1)."""
        if self.player is not None:
            self.player.change_speed(step)

    def pin(self) -> None:
        """Makes the samples that are shown the baseline of later ones of the same kernel."""
        run = self.run
        if run is not None and run.samples:
            self.pinned[run.row] = replace(run, samples=run.samples[:], looks=list(run.looks), total=len(run.samples))
            self.times_changed.emit()
            self.show()

    def show(self) -> None:
        """Shows the present moment."""
        self._show()
        self.shown.emit()

    def _show(self) -> None:
        run = self.run
        if self._refusal is not None:
            self.view.live.show_refusal(*self._refusal)
            return
        if run is None:
            self.view.live.show_nothing()
            return
        baseline, title = self._baseline(run)
        comparison = (baseline.series(), title, run.against(baseline)) if baseline else (None, title, None)
        live = Live(run.series(), *comparison)
        self.view.live.show_live(live, self.player.deck() if self.player else None)

    def _baseline(self, run: SampleRun) -> tuple[SampleRun | None, str]:
        """The pinned samples, else those of the history's baseline; only of the same origin and device."""
        pinned = self.pinned.get(run.row)
        if pinned is not None and (pinned.origin, pinned.device) == (run.origin, run.device):
            other = pinned.title.rpartition(", ")[2]
            return pinned, "pinned samples" if pinned.title == run.title else f"pinned {other}"
        history = self.workspace.histories.get(run.row) if self.player is None else None
        if history is None or history.baseline == history.current:
            return None, ""
        step = history.steps[history.baseline]
        time = step.time_of(run.origin)
        if time is None or not time.samples or time.device != run.device:
            return None, ""
        return SampleRun.of(step.title, run.row, time), f"“{step.title}”"

    def _known_run(self, group: str) -> SampleRun | None:
        """The samples that the group's present step was measured with."""
        time, known = measured_times(self.workspace.histories).get(group), self.workspace.group(group)
        return SampleRun.of(known.title, group, time) if time and time.samples and known else None

    def _is_present(self, take: Take) -> bool:
        """Whether a take is of its group's present kernel, as far as can be told from its times."""
        history = self.workspace.histories.get(take.group)
        return not take.advice or history is None or history.step.text == take.advice

    def _on_history(self, group: str) -> None:
        """A recorded time belongs to the steps with the advice that it is of; a time of their own they keep."""
        take, history = self._taken.get(group), self.workspace.histories.get(group)
        untimed = [step.text for step in history.steps if step.measured is None] if history else []
        if take and take.advice and take.advice in untimed:
            self.workspace.learn(group, take.advice, measured=take.time)
        self._show_soon()

    def _show_soon(self) -> None:
        if not self._repaint.isActive():
            self._repaint.start()

    def _on_selected(self, selection: Selection) -> None:
        """A recording goes on with the row of the selected group, if it has one."""
        self._refusal = None
        if self.player is None:
            self.show()
        elif selection.group and selection.group != self.player.take.group:
            groups = [take.group for take in self.player.recording.takes]
            if selection.group in groups:
                self.player.play(groups.index(selection.group))

    def _refuse(self, title: str, problem: ProblemDoc) -> None:
        self._refusal = title, problem
        self.show()

    def _dismiss(self) -> None:
        self._refusal = None
        self.show()

    def _on_read(self, recording: Recording) -> None:
        self._refusal = None
        self.stop()
        self.player = Player(recording)
        self.player.advanced.connect(self._show_soon)
        for group in recording.groups:
            self._on_history(group)
        self.times_changed.emit()
        chosen = self.workspace.bus.selection.group
        groups = [take.group for take in recording.takes]
        if chosen:  # nobody's selection moves because a file was opened
            self.player.play(groups.index(chosen) if chosen in groups else 0)
        else:
            self.play(0)
        self.view.select_tab(LIVE)

    def _on_refused(self, path: str, problem: ProblemDoc) -> None:
        self._refuse(f"{Path(path).name} cannot be replayed", problem)
        self.view.select_tab(LIVE)

    def _forget(self) -> None:
        """Another model: nothing of the old one's samples means anything."""
        self.runs.clear()
        self.pinned.clear()
        self._refusal = None
        self.stop()
        self.show()

    @property
    def _measuring(self) -> MeasuringDevice:
        model = self.workspace.model
        return measuring(self.workspace.machine, model.target if model else "")

    def _show_machine(self) -> None:
        found = self._measuring
        self.view.live.show_machine(found.can_be, found.lacking)
