"""What is selected: one typed, immutable value that every panel follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True, slots=True)
class Selection:
    """A group, and statements within it; empty fields mean that nothing narrower is selected."""

    group: str = ""
    statements: tuple[str, ...] = ()


def known_selection(wanted: Selection, groups: Sequence[str]) -> Selection:
    """What was selected, if a model has its group; a model of one group needs nobody to select that."""
    if wanted.group in groups:
        return wanted
    return Selection(groups[0]) if len(groups) == 1 else Selection()


class SelectionBus(QObject):
    """Holds the selection; equal selections are not sent again, so panels cannot answer each other for ever."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._selection = Selection()

    @property
    def selection(self) -> Selection:
        """What is selected now."""
        return self._selection

    def select(self, selection: Selection) -> None:
        """Selects and emits `changed`."""
        if selection != self._selection:
            self.select_again(selection)

    def select_again(self, selection: Selection) -> None:
        """Selects and emits `changed`, also what was selected before: it may have become something else."""
        self._selection = selection
        self.changed.emit(selection)

    def select_group(self, group: str) -> None:
        """Selects a group; its statements are no longer narrowed down."""
        self.select(Selection(group))

    def select_statements(self, statements: tuple[str, ...]) -> None:
        """Narrows the selection down to statements of the selected group."""
        self.select(Selection(self._selection.group, tuple(statements)))
