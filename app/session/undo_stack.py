"""One list of undo for the document: edits of every group's advice and of the groups themselves, in their order.

Edits of several groups that were made as one are taken back as one.  What is selected does not matter, and stays.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count

from PySide6.QtCore import QObject, Signal

from app.session.fusion_constraints import FUSION
from app.session.fusion_edits import FusionEdits
from app.session.history import FIRST, History
from app.session.workspace import Workspace

LIMIT = 10_000
"""Edits whose order is known.  Older ones are taken back after them, each group's own in their order, as those of an
opened file are."""


class UndoStack(QObject):
    """Takes back what was done last in any group, and makes again what was taken back last."""

    acted = Signal(str)
    """What was taken back or made again, in words: it may be of a group that is not in sight."""

    def __init__(self, workspace: Workspace, fusing: FusionEdits) -> None:
        super().__init__()
        self.workspace, self.fusing = workspace, fusing
        self._clock = count(1)
        self._made: dict[int, tuple[History, dict[int | str, int]]] = {}
        """Identity of a history -> itself, so that no other gets its identity, and when each step or draft was made."""
        self._order: deque[tuple[int, int | str]] = deque()
        """When, and the step or draft: all edits whose order is known, the oldest first."""
        self._undone: list[tuple[History, ...]] = []
        """What was taken back, the oldest first."""
        self._ties: deque[Mapping[str, str]] = deque(maxlen=LIMIT)
        """Group -> its advice after edits that are one, the oldest first."""
        self._has_told = False
        """Whether it was said that the order of old edits is forgotten."""
        workspace.history_changed.connect(self._note)
        workspace.model_changed.connect(self._begin)

    def tie(self, texts: Mapping[str, str]) -> None:
        """Makes the edits to this advice of several groups one for undo and redo, where they stand at it then."""
        if len(texts) > 1:
            self._ties.append(texts)

    def undo(self, group: str) -> None:
        """Takes the last edit back; of edits of an opened file, whose order nobody knows, first those of `group`."""
        last = self._last(group)
        if last is None:
            return
        history = self.workspace.histories[last]
        what = "an edit" if self._is_waiting(last) or history.draft_shown else history.step.title
        names = self._with(last, self.workspace.can_undo, self.workspace.recipe)
        self._undone.append(tuple(self.workspace.histories[name] for name in names))
        if last == FUSION:
            self.fusing.undo()
        for name in names if last != FUSION else ():
            self.workspace.undo(name)
        self._tell("Undo", what, last)

    def redo(self, group: str) -> None:
        """Makes the edit again that was taken back last, else goes on in the history of `group`."""
        names = self._again(group)
        if not names:
            return
        del self._undone[-1:]
        history = self.workspace.histories[names[0]]
        what = "an edit" if history.draft else history.steps[history.next_step].title
        if FUSION in names:
            self.fusing.redo()
        for name in names if FUSION not in names else ():
            self.workspace.redo(name)
        self._tell("Redo", what, names[0])

    def can_undo(self, group: str) -> bool:
        """Whether there is anything to take back."""
        return self._last(group) is not None

    def can_redo(self, group: str) -> bool:
        """Whether there is anything to make again."""
        return bool(self._again(group))

    def _last(self, group: str) -> str | None:
        """The group whose last edit is the newest."""
        known = [name for name in self.workspace.histories if self.workspace.can_undo(name)]
        if self.fusing.is_busy or not known:
            return None
        return max(known, key=lambda name: (self._when(name), name == group))

    def _again(self, group: str) -> list[str]:
        """The groups whose edit comes next in redo."""
        if self.fusing.is_busy:
            return []
        can = self.workspace.can_redo
        while self._undone:
            last = {id(history) for history in self._undone[-1]}
            names = [name for name, history in self.workspace.histories.items() if id(history) in last and can(name)]
            if names:
                return names
            self._undone.pop()
        chosen = next((name for name in (group, FUSION) if can(name)), None)
        return self._with(chosen, can, self._text_again) if chosen else []

    def _with(self, group: str, can: Callable[[str], bool], text: Callable[[str], str | None]) -> list[str]:
        """The group, and those whose edits were made as one with that which is to be taken back or made again.

        text: the advice of a group that the edit led to.
        """
        tie = next((tie for tie in reversed(self._ties) if group in tie and text(group) == tie[group]), {})
        return [group, *(each for each in tie if each != group and can(each) and text(each) == tie[each])]

    def _text_again(self, group: str) -> str:
        """The advice that redo leads to."""
        history = self.workspace.histories[group]
        return history.draft or history.steps[history.next_step].text

    def _when(self, group: str) -> float:
        """When a group's last edit was made; one that waits for its kernel was made just now."""
        history = self.workspace.histories[group]
        return math.inf if self._is_waiting(group) else self._times(history).get(_key(history), 0)

    def _is_waiting(self, group: str) -> bool:
        return self.workspace.recipe(group) != self.workspace.histories[group].text

    def _begin(self) -> None:
        """Steps of an opened file count as made before everything; other groups of one model keep their order."""
        self._ties.clear()
        if not self.workspace.is_regrouping:
            self._undone.clear()
            self._made.clear()
            self._order.clear()
        self._drop_gone()
        for name, history in self.workspace.histories.items():
            if name == FUSION and self.workspace.is_regrouping:
                continue  # its last step led to these groups, and is told of after them
            for step in range(len(history.steps)):
                self._times(history).setdefault(step, 0)

    def _times(self, history: History) -> dict[int | str, int]:
        """When each step or draft of a history was made; one of other groups goes on where one of equal steps ended."""
        if id(history) not in self._made:
            steps = [step.text for step in history.steps]
            others = reversed(self._made.values())
            same = next((times for other, times in others if [step.text for step in other.steps] == steps), {})
            self._made[id(history)] = history, dict(same)
        return self._made[id(history)][1]

    def _note(self, group: str) -> None:
        """A step or a draft that is new was made just now, and ends what could be made again."""
        history = self.workspace.histories.get(group)
        if history is None or _key(history) in self._times(history):
            return
        now = next(self._clock)
        self._times(history)[_key(history)] = now
        self._order.append((now, _key(history)))
        if history.draft_shown or history.current != FIRST:
            self._undone.clear()
        if len(self._order) > LIMIT:
            self._forget(*self._order.popleft())

    def _forget(self, when: int, key: int | str) -> None:
        """An edit counts as made before everything."""
        for history, times in self._made.values():
            if times.get(key) != when:
                continue
            if key == history.draft or isinstance(key, int):
                times[key] = 0  # not gone: who comes back to the step makes no new edit
            else:
                del times[key]
        if key != FIRST and not self._has_told:
            self._has_told = True
            self.acted.emit(f"Undo: the order of edits before the last {LIMIT:,} is forgotten")

    def _drop_gone(self) -> None:
        """Forgets histories that no group has any more and whose edits are all of an order that nobody knows."""
        held = {id(history) for histories in self._undone for history in histories}
        held |= {id(history) for history in self.workspace.histories.values()}
        for identity in self._made.keys() - held:
            if not any(self._made[identity][1].values()):
                del self._made[identity]

    def _tell(self, verb: str, what: str, group: str) -> None:
        found = self.workspace.group(group)
        self.acted.emit(f"{verb}: {what}, {found.title if found else 'groups' if group == FUSION else group}")


def _key(history: History) -> int | str:
    """What the editor shows of a history: a step, or the draft's text."""
    return history.draft if history.draft_shown else history.current
