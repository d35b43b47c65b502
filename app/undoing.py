"""Undo over two kinds of edits, of one group's advice and of the groups themselves, in the order they were made in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from PySide6.QtCore import QObject

from app.fusing import Fusing
from app.groups import FUSION
from app.history import NO_STEP, History
from app.workspace import Workspace


class Undoing(QObject):
    """Takes back what was done last, of the selected group and of the groups; makes again what was done first."""

    def __init__(self, workspace: Workspace, fusing: Fusing) -> None:
        super().__init__()
        self.workspace, self.fusing = workspace, fusing
        self._clock = count(1)
        self._made: dict[tuple[int, int], int] = {}
        """(history, step) -> when it was made; what a file told of was made before everything."""
        workspace.history_changed.connect(self._note)

    def undo(self, group: str) -> None:
        """Takes the last edit back."""
        if self._is_groups(group, self.workspace.can_undo, lambda history: history.current, later=True):
            self.fusing.undo()
        elif self.workspace.can_undo(group):
            self.workspace.undo(group)

    def redo(self, group: str) -> None:
        """Makes the edit again that was taken back last."""
        if self._is_groups(group, self.workspace.can_redo, lambda history: history.next_step, later=False):
            self.fusing.redo()
        elif self.workspace.can_redo(group):
            self.workspace.redo(group)

    def can_undo(self, group: str) -> bool:
        """Whether there is anything to take back."""
        return any(self.workspace.can_undo(each) for each in (group, FUSION)) and not self.fusing.is_busy

    def can_redo(self, group: str) -> bool:
        """Whether there is anything to make again."""
        return any(self.workspace.can_redo(each) for each in (group, FUSION)) and not self.fusing.is_busy

    def _is_groups(
        self, group: str, can: Callable[[str], bool], step: Callable[[History], int], later: bool
    ) -> bool:
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
            self._made.setdefault((id(history), history.current), next(self._clock))
