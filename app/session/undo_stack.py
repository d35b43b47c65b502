"""Undo over two kinds of edits, of one group's advice and of the groups themselves, in the order they were made in.

Edits of several groups that were made as one are taken back as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from PySide6.QtCore import QObject

from app.session.fusion_constraints import FUSION
from app.session.fusion_edits import FusionEdits
from app.session.history import NO_STEP, History
from app.session.workspace import Workspace


class UndoStack(QObject):
    """Takes back what was done last, of the selected group and of the groups; makes again what was done first."""

    def __init__(self, workspace: Workspace, fusing: FusionEdits) -> None:
        super().__init__()
        self.workspace, self.fusing = workspace, fusing
        self._clock = count(1)
        self._made: dict[tuple[int, int], int] = {}
        """(history, step) -> when it was made; steps of an opened file count as made before everything."""
        self._ties: list[Mapping[str, str]] = []
        """Group -> its advice after edits that are one, the oldest first."""
        workspace.history_changed.connect(self._note)
        workspace.model_changed.connect(self._ties.clear)

    def tie(self, texts: Mapping[str, str]) -> None:
        """Makes the edits to this advice of several groups one for undo and redo, where they stand at it then."""
        if len(texts) > 1:
            self._ties.append(texts)

    def undo(self, group: str) -> None:
        """Takes the last edit back."""
        if self._is_groups(group, self.workspace.can_undo, lambda history: history.current, later=True):
            self.fusing.undo()
        else:
            for each in self._with(group, self.workspace.can_undo, self.workspace.recipe):
                self.workspace.undo(each)

    def redo(self, group: str) -> None:
        """Makes the edit again that was taken back last."""
        if self._is_groups(group, self.workspace.can_redo, lambda history: history.next_step, later=False):
            self.fusing.redo()
        else:
            for each in self._with(group, self.workspace.can_redo, self._again):
                self.workspace.redo(each)

    def can_undo(self, group: str) -> bool:
        """Whether there is anything to take back."""
        return any(self.workspace.can_undo(each) for each in (group, FUSION)) and not self.fusing.is_busy

    def can_redo(self, group: str) -> bool:
        """Whether there is anything to make again."""
        return any(self.workspace.can_redo(each) for each in (group, FUSION)) and not self.fusing.is_busy

    def _with(self, group: str, can: Callable[[str], bool], text: Callable[[str], str | None]) -> list[str]:
        """The group, and those whose edits were made as one with that which is to be taken back or made again.

        text: the advice of a group that the edit led to.
        """
        if not can(group):
            return []
        tie = next((tie for tie in reversed(self._ties) if group in tie and text(group) == tie[group]), {})
        return [group, *(each for each in tie if each != group and can(each) and text(each) == tie[each])]

    def _again(self, group: str) -> str:
        """The advice that redo leads to."""
        history = self.workspace.histories[group]
        return history.draft or history.steps[history.next_step].text

    def _is_groups(self, group: str, can: Callable[[str], bool], step: Callable[[History], int], later: bool) -> bool:
        """Whether it is the turn of the groups rather than of the selected group's advice."""
        if not can(FUSION) or self.fusing.is_busy:
            return False
        if not can(group) or group == FUSION:
            return True
        own, groups = self.workspace.histories[group], self.workspace.histories[FUSION]
        if own.draft:
            return False
        return (self._when(groups, step(groups)) > self._when(own, step(own))) is later

    def _when(self, history: History, number: int) -> int:
        return self._made.get((id(history), number), 0) if number != NO_STEP else 0

    def _note(self, group: str) -> None:
        """Steps that are new were made just now."""
        history = self.workspace.histories.get(group)
        if history is not None:
            # By identity: a group's history keeps it when other groups give it another name.
            self._made.setdefault((id(history), history.current), next(self._clock))
