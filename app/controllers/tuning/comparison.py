"""Another run beside the shown one: chosen, followed as that is, compared group by group."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.controllers.tuning.attachment import Attachment
from app.controllers.tuning.control import RunController
from app.controllers.tuning.figures import group_trials, run_choices, run_title
from app.controllers.tuning.follower import Follower, RunUpdate
from app.controllers.tuning.shown import Shown
from engine.documents.comparison import GroupResult
from engine.documents.model import ProblemDoc
from engine.tuning.comparison import GroupTrials, Pair, best_so_far, compare, pair_groups
from views.tuning.comparison import ComparisonView
from views.tuning.nodes import ComparedGroup, RunChoice, RunCurve


class RunComparison(QObject):
    """Reads the other run on a thread of its own; shows both when it is asked to."""

    changed = Signal()
    """Another run was chosen, more of it was read, or it was refused."""
    group_selected = Signal(str)
    """A group of the shown run."""

    def __init__(self, view: ComparisonView, control: RunController) -> None:
        super().__init__()
        self.view, self.control = view, control
        self.attachment = Attachment()
        self.other: Shown | None = None
        self.refusal: tuple[str, ProblemDoc] | None = None
        """What was refused, and why, until it is read or another run is chosen."""
        self._beside: Path | None = None
        """The file of the shown run when the other was chosen."""
        self._alone = ""
        """A chosen group that only the other run has."""
        self.attachment.attached.connect(self._on_attached)
        self.attachment.updated.connect(self._on_update)
        self.attachment.refused.connect(self._on_refused)
        control.replaced.connect(self._on_replaced)
        view.run_chosen.connect(self.choose)
        view.group_chosen.connect(self._choose_group)
        view.dismissed.connect(self.dismiss)

    @property
    def is_settled(self) -> bool:
        """Whether everything that is written of an other run has been read."""
        return self.attachment.is_idle and (self.other is None or self.other.is_complete)

    @property
    def moment(self) -> object:
        """Equal as long as there is nothing else to show."""
        shown, other = self.control.shown, self.other
        count = (len(other.trials), other.condemned, other.state) if other is not None else ()
        choices = tuple((run.number, run.state) for run in shown.runs) if shown is not None else ()
        return other, count, self.refusal, self._alone, choices

    def choose(self, number: int) -> None:
        """Compares with another run of the shown file; 0 for with none."""
        if not number:
            self.forget()
        elif self.control.shown is not None:
            self._attach(self.control.shown.path, number)

    def open(self, path: str) -> None:
        """Compares with the last run of a file; of the shown one, with its newest run that is not shown."""
        shown = self.control.shown
        if shown is not None:
            is_shown = Path(path).absolute() == shown.path.absolute()
            others = [run.number for run in shown.runs if run.number != shown.follower.number] if is_shown else []
            self._attach(shown.path if is_shown else Path(path), others[-1] if others else None)

    def dismiss(self) -> None:
        """What was refused has been read."""
        self.refusal = None
        self.changed.emit()

    def forget(self) -> None:
        """Compares with no run any more."""
        self.attachment.detach()
        self.other = self.refusal = None
        self._alone = ""
        self.changed.emit()

    def close(self) -> None:
        """Lets the file go."""
        self.attachment.close()

    def show(self, group: str, title: Callable[[str], str]) -> None:
        """Shows both runs.  group: the chosen one of the shown run.  title: what its groups are called."""
        shown, other = self.control.shown, self.other
        if shown is None or shown.run is None:
            return
        self._show_choices(shown)
        if self.refusal is not None:
            self.view.show_refusal(*self.refusal)
        elif other is None or other.run is None:
            self.view.show_nothing(is_reading=other is not None or not self.attachment.is_idle)
        else:
            self._show_both(shown, other, group, title)

    def turn(self) -> None:
        """A group of the shown run was chosen."""
        self._alone = ""

    def _show_choices(self, shown: Shown) -> None:
        now, number = time.time(), shown.follower.number
        choices = [one for one in run_choices(shown.runs, now) if one.number != number]
        other, chosen = self.other, -1
        if other is not None and other.path == shown.path:
            chosen = next((n for n, one in enumerate(choices) if one.number == other.follower.number), -1)
        elif other is not None and other.run is not None:
            choices.append(RunChoice(0, run_title(other.run, now, other.path.name)))
            chosen = len(choices) - 1
        self.view.show_choices(choices, chosen)

    def _show_both(self, shown: Shown, other: Shown, group: str, title: Callable[[str], str]) -> None:
        pairs = {_key(pair): pair for pair in pair_groups(shown.groups, other.groups)}
        sides = {key: (_side(shown, pair[0]), _side(other, pair[1])) for key, pair in pairs.items()}
        found = {key: compare(*both) for key, both in sides.items()}
        groups = [ComparedGroup(key, _title(pair, title), found[key]) for key, pair in pairs.items()]
        key = self._alone if self._alone in pairs else group
        self.view.show_groups(groups, key if key in pairs else "")
        own_name, other_name = shown.name, other.name
        if other.path != shown.path:
            other_name = f"{other_name} of {other.path.name}"
        own, others = sides.get(key, (None, None))
        if key in found:
            self.view.show_curves(_curve(own_name, own, found[key].own), _curve(other_name, others, found[key].other))
        else:
            self.view.show_curves(None, None)

    def _choose_group(self, key: str) -> None:
        """A group that the shown run has is selected as elsewhere; another one only here."""
        shown = self.control.shown
        if shown is not None and key in shown.groups:
            self._alone = ""
            self.group_selected.emit(key)
        else:
            self._alone = key
        self.changed.emit()

    def _attach(self, path: Path, number: int | None) -> None:
        assert self.control.shown is not None
        self.refusal, self._beside = None, self.control.shown.path
        self.attachment.attach(path, number)
        self.changed.emit()

    def _on_attached(self, follower: Follower) -> None:
        path = self.attachment.path
        assert path is not None
        other, self._alone = Shown.of(path, follower), ""
        shown = self.control.shown
        if shown is not None and shown.is_same(other):
            self.attachment.detach()
            hint = "choose the log of another run"
            self._on_refused(path, ProblemDoc("records", str(path), "holds no run besides the shown one", hint))
            return
        self.other = other
        self.changed.emit()

    def _on_update(self, update: RunUpdate) -> None:
        if self.other is not None:
            self.other.take(update)
            self.changed.emit()

    def _on_refused(self, path: Path, problem: ProblemDoc) -> None:
        """What was compared before is let go, too: it would stand below the name of what was refused."""
        self.attachment.detach()
        self.other = None
        self.refusal = f"{path.name} cannot be compared with", problem
        self.changed.emit()

    def _on_replaced(self) -> None:
        """A comparison ends with the file that it was begun beside, and where the other run itself is shown."""
        shown, other = self.control.shown, self.other
        if shown is None:
            is_over = not self.control.is_live  # else a run of the same file follows
        else:
            is_over = shown.path != self._beside or (other is not None and shown.is_same(other))
        if is_over:
            self.forget()


def _key(pair: Pair) -> str:
    """A row of groups: the name in the shown run, or one that it has not."""
    return pair[0] if pair[0] is not None else f"other: {pair[1]}"


def _title(pair: Pair, title: Callable[[str], str]) -> str:
    """What a pair of groups is called; both names where these differ."""
    own, other = pair
    if own is None:
        return other or ""
    return title(own) if other in (own, None) else f"{title(own)}, {other}"


def _side(shown: Shown, group: str | None) -> GroupTrials | None:
    if group is None or shown.run is None:
        return None
    return group_trials(shown.trials, group, shown.run.request.origin)


def _curve(name: str, side: GroupTrials | None, result: GroupResult) -> RunCurve | None:
    return None if side is None else RunCurve(name, side.origin, best_so_far(side.times), result.reached)
