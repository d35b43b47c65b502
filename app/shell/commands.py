"""What each action of the registry does, and when it can be done."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox

from app.session.check import run_check
from app.session.client import Pending
from app.session.fusion_constraints import fixed_now
from app.session.named_models import EXAMPLE, path_of
from app.session.open_request import OpenRequest
from app.session.script import group_script, workspace_script
from app.shell.actions import follow
from app.shell.exports import VERBS
from app.shell.guide import Guide
from app.shell.keyboard_focus import FocusRound
from app.shell.palette import Palette, Shortcuts
from app.shell.panels import PERSPECTIVES
from app.shell.preferences import GIGABYTE, Preferences
from app.shell.target_dialog import MachineDialog
from engine.documents.model import ProblemDoc
from views.code.find import FindStrip
from views.message import detail_of
from views.notice import News
from views.theme import SYSTEM, THEMES
from views.timing.view import LIVE, ROOFLINE
from views.tuning.trial import CODE
from views.tuning.view import ABLATION

if TYPE_CHECKING:
    from app.shell.window import Window

NO_SIZE = "has no size"
"""What the engine says of a symbolic dimension that no size was given for."""


class Commands(QObject):
    """Connects the actions of one window with what they do."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._window = window
        self._workspace = window.workspace
        self.palette = Palette(window, window.actions_by_name)
        self.shortcuts = Shortcuts(window, window.actions_by_name)
        self.guide = Guide(window, window.actions_by_name)
        self.preferences = Preferences(window, window.actions_by_name, window.settings)
        self.preferences.theme_chosen.connect(window.set_theme)
        self.preferences.map_chosen.connect(lambda _: window.set_theme())
        self.preferences.target_chosen.connect(self._prefer_target)
        self.preferences.memory_chosen.connect(lambda size: self._workspace.client.limit_memory(size * GIGABYTE))
        self.focus = FocusRound(self, window.docks)
        self.machine = MachineDialog(window)
        self.machine.chosen.connect(self._open_for)
        self._asked: OpenRequest | None = None
        """What the dialog about target and dimensions is about; None for what is open."""
        self._refused = ""
        """What could not be opened last: news until something else is to be opened."""
        self._connect()
        workspace = self._workspace
        for signal in (workspace.history_changed, workspace.kernel_changed, workspace.bus.changed):
            signal.connect(lambda _: self.show_enabled())
        for signal in (workspace.model_changed, workspace.client.jobs_changed):
            signal.connect(self.show_enabled)
        window.wiring.timing.shown.connect(self.show_enabled)
        window.wiring.tuning.state_changed.connect(self.show_enabled)
        window.wiring.fusion_edits.state_changed.connect(self.show_enabled)
        window.exports.state_changed.connect(self.show_enabled)
        window.wiring.tuning.applying.told.connect(window.status.say)
        window.wiring.queries.answered.connect(lambda _: self.show_enabled())
        window.panels.schedule.pipeline.canvas.trace_requested.connect(window.action("export-trace").trigger)
        workspace.open_refused.connect(self._tell_refusal)
        workspace.opening_changed.connect(lambda _: window.notice.withdraw(self._refused))
        window.menu.device_requested.connect(window.action("machine").trigger)
        trials, tuning = window.panels.trials, window.panels.tuning
        buttons = {"tune-best": trials.apply, "tune-best-all": trials.apply_all, "tune-ablate": tuning.ablate}
        for name, button in buttons.items():
            follow(button, window.action(name))
        self.show_enabled()

    def show_enabled(self) -> None:
        """Enables the actions that can be done now."""
        workspace, group = self._workspace, self._window.wiring.group
        known, selected = group in workspace.histories, workspace.group(group) is not None
        timing, stepping = self._window.wiring.timing, self._window.history
        fusing, tuning = self._window.wiring.fusion_edits, self._window.wiring.tuning
        chart = self._window.panels.schedule.pipeline.chart
        enabled = {
            "undo": self._window.undo_stack.can_undo(group),
            "redo": self._window.undo_stack.can_redo(group),
            "cancel": not workspace.client.is_idle or self._window.exports.is_busy,
            "script": known and selected,
            "export-trace": selected and chart is not None and chart.group == group,
            **dict.fromkeys(("pin", "note"), stepping.history is not None),
            "compare": known and selected and len(workspace.histories[group].steps) > 1,
            **dict.fromkeys(("check", "time"), selected),
            **dict.fromkeys(("why-boundary", "merge", "move", "split"), selected and not fusing.is_busy),
            **dict.fromkeys(("release", "release-all"), bool(fusing.fixed) and not fusing.is_busy),
            **dict.fromkeys(("operators", "groups"), workspace.model is not None),
            **dict.fromkeys(("replay-pause", "replay-stop", "slower", "faster"), timing.player is not None),
            "pin-samples": timing.run is not None and bool(timing.run.samples),
            **tuning.action_states(),
            **dict.fromkeys(("save", "save-as", "reload", "script-all", "machine"), workspace.model is not None),
            **dict.fromkeys(("find-text", "find-next", "find-previous"), workspace.model is not None),
            **dict.fromkeys((*VERBS, "export-tables", "compare-model"), workspace.model is not None),
        }
        for name, can in enabled.items():
            self._window.action(name).setEnabled(can)

    def _connect(self) -> None:
        window, workspace = self._window, self._workspace
        panels, stepping, files = window.panels, window.history, window.files
        timing, grouping, tuning = window.wiring.timing, window.wiring.fusion, window.wiring.tuning
        reactions = {
            "open": files.ask_open,
            "example": lambda: files.open(EXAMPLE),
            "reload": window.document.reload,
            "save": files.save,
            "save-as": files.ask_save,
            **window.exports.reactions(),
            "compare-model": files.ask_other,
            "quit": lambda: files.settle_edits(window.close),
            "undo": lambda: window.undo_stack.undo(window.wiring.group),
            "redo": lambda: window.undo_stack.redo(window.wiring.group),
            "pin": stepping.pin,
            "compare": stepping.compare,
            "note": self._edit_note,
            "script": self._copy_group,
            "script-all": self._copy_workspace,
            "operators": window.panels.graph.canvas.toggle_operators,
            "why-boundary": grouping.why,
            "merge": grouping.merge,
            "move": grouping.move,
            "split": grouping.split,
            "release": grouping.release,
            "release-all": grouping.fusing.release_all,
            "groups": self._show_groups,
            "find": window.focus_search,
            "find-text": lambda: self._finder().ask(),
            "find-next": lambda: self._finder().step(1),
            "find-previous": lambda: self._finder().step(-1),
            "palette": self.palette.ask,
            "zoom-in": lambda: panels.graph.canvas.zoom(1.2),
            "zoom-out": lambda: panels.graph.canvas.zoom(1 / 1.2),
            "fit": panels.graph.canvas.fit_all,
            "next-panel": lambda: self.focus.go(1),
            "last-panel": lambda: self.focus.go(-1),
            "reset": window.reset_layout,
            "apply": panels.constraints.text.request_apply,
            "check": lambda: run_check(workspace, window.wiring.group, window.status.report),
            "time": self._measure,
            "replay": files.ask_replay,
            "replay-pause": timing.pause,
            "replay-stop": timing.stop,
            "slower": lambda: timing.change_speed(-1),
            "faster": lambda: timing.change_speed(1),
            "pin-samples": timing.pin,
            "measured-times": self._swap_times,
            "roofline": self._show_roofline,
            "tune-start": self._tune,
            "tune-pause": tuning.control.pause_or_resume,
            "tune-stop": tuning.control.stop,
            "tune-attach": files.ask_records,
            "tune-detach": tuning.control.put_away,
            "tune-best": tuning.apply_best,
            "tune-best-all": tuning.apply_all,
            "tune-trial": lambda: tuning.apply(tuning.selected),
            "tune-ablate": self._ablate,
            "tune-all": window.panels.trials.every.toggle,
            "tune-filter": self._filter_trials,
            "cancel": self._cancel,
            "machine": self._ask_machine,
            "keys": self.shortcuts.ask,
            "guide": self.guide.ask,
            "preferences": self.preferences.ask,
            "about": self._show_about,
            **{name: partial(window.set_theme, name) for name in (SYSTEM, *THEMES)},
            **{name.lower(): partial(window.set_perspective, name) for name in PERSPECTIVES},
        }
        for name, react in reactions.items():  # `triggered` carries whether the action is checked, which nobody asks
            window.action(name).triggered.connect(lambda _=False, react=react: react())
        panels.tuning.trial_selected.connect(lambda _: window.docks["trial"].raise_())  # a dot says nothing by itself

    def _show_groups(self) -> None:
        """The history of the groups is in sight where no group is selected."""
        self._workspace.bus.select_group("")
        self.focus.bring("history")

    def _edit_note(self) -> None:
        self._window.docks["history"].show()
        self._window.panels.history.edit_note()

    def _cancel(self) -> None:
        if self._window.exports.is_busy:
            self._window.exports.cancel()
        if not self._workspace.client.is_idle:
            self._workspace.client.cancel()

    def _copy_group(self) -> None:
        group = self._window.wiring.group
        workspace = self._workspace
        text, fixed = workspace.histories[group].step.text, fixed_now(workspace.histories)
        self._copy(group_script(workspace.opened, group, text, fixed), group)

    def _copy_workspace(self) -> None:
        known = {name: history.step.text for name, history in self._workspace.histories.items()}
        advice = {name: text for name, text in known.items() if self._workspace.group(name) is not None}
        fixed = fixed_now(self._workspace.histories)
        self._copy(workspace_script(self._workspace.opened, advice, fixed), "the workspace")

    def _copy(self, script: str, what: str) -> None:
        QGuiApplication.clipboard().setText(script)
        self._window.status.say(f"Copied {what} as a script")

    def _prefer_target(self, target: str) -> None:
        """Files are opened for it from now on; what is open stays what it is."""
        if not self._workspace.opened.path:
            self._workspace.opened = replace(self._workspace.opened, target=target)

    def _open_for(self, target: str, dimensions: dict[str, int], numerics: dict[str, str]) -> None:
        """Opens a model for another machine; what was known of its steps on this one is not carried over."""
        opening = self._asked or self._window.document.present()
        self._workspace.open(opening.path, replace(opening, target=target, dimensions=dimensions, numerics=numerics))

    def _ask_machine(self, opening: OpenRequest | None = None) -> None:
        self._asked = opening
        about = opening or self._workspace.opened
        rounding = about.rounding(self._workspace.model if opening is None else None)
        self.machine.ask(about.target, about.dimensions, rounding)
        if about.path:
            pending = Pending(None, self.machine.show_dimensions, lambda problem: None)
            arguments = {"path": str(path_of(about.path))}
            self._workspace.client.request("dimensions", arguments, "Reading symbolic dimensions", pending)

    def _tell_refusal(self, opening: OpenRequest, problem: ProblemDoc) -> None:
        """Says why nothing was opened; a model whose dimensions have no sizes yet asks for them."""
        self._refused = problem.subject
        sized = NO_SIZE not in problem.reason
        choices = () if sized else (("Give sizes…", lambda: self._ask_machine(opening)),)
        detail = detail_of(problem) if sized else problem.reason
        self._window.notice.show_news(News(problem.subject, detail, choices))

    def _measure(self) -> None:
        """Brings the samples to the front before the first of them comes."""
        self._window.wiring.timing.measure(self._window.wiring.group)
        self._window.panels.timing.select_tab(LIVE)
        self.focus.bring("timing")

    def _tune(self) -> None:
        """Starts a run where it can be watched."""
        self._window.set_perspective("Tune")
        self._window.wiring.tuning.start()

    def _ablate(self) -> None:
        self._window.panels.tuning.select_tab(ABLATION)
        self.focus.bring("tuning")
        self._window.wiring.tuning.ablate()

    def _filter_trials(self) -> None:
        self.focus.bring("trials")
        self._window.panels.trials.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _finder(self) -> FindStrip:
        """Of the code panel, brought into sight; of the trial's text where that has the keyboard, or in Tune."""
        panels, docks = self._window.panels, self._window.docks
        in_trial = self.focus.focused == "trial" or (not docks["code"].isVisible() and docks["trial"].isVisible())
        self.focus.bring("trial" if in_trial else "code")
        if in_trial:
            panels.trial.select_tab(CODE)
        return panels.trial.finder if in_trial else panels.code.finder

    def _show_roofline(self) -> None:
        timing = self._window.panels.timing
        timing.select_tab(ROOFLINE)
        self.focus.bring("timing")
        timing.roofline.canvas.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _swap_times(self) -> None:
        self._window.show_colour("measured" if self._window.action("measured-times").isChecked() else "time")

    def _show_about(self) -> None:
        box = QMessageBox(self._window, text="Loomscope")
        box.setWindowTitle("About Loomscope")
        box.setInformativeText("Explore, edit, check and time GPU schedules of deep-learning operators.")
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()  # not exec: nothing may stop the event loop
