"""Boxes of which one of several things is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QComboBox


def choice_box(name: str, letters: int = 8) -> QComboBox:
    """A small box; `name` is told by its tool tip, and to screen readers.  letters: that it has room for at least."""
    made = QComboBox()
    made.setProperty("role", "small")
    made.setAccessibleName(name)
    made.setToolTip(name)
    made.setMinimumContentsLength(letters)
    made.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    return made


def show_choices(box: QComboBox, choices: Sequence[tuple[str, int]], chosen: int) -> None:
    """Replaces text and data of all items where they differ; chosen: the place of one, -1 for none.  Emits nothing.

    The tool tip has the chosen text, of which the box may have no room for all.
    """
    before = box.blockSignals(True)
    if [(box.itemText(place), box.itemData(place)) for place in range(box.count())] != list(choices):
        if box.count() == len(choices):  # an open list stays open while a run goes on
            for place, (text, number) in enumerate(choices):
                box.setItemText(place, text)
                box.setItemData(place, number)
        else:
            box.clear()
            for text, number in choices:
                box.addItem(text, number)
    if box.currentIndex() != chosen:
        box.setCurrentIndex(chosen)
    box.blockSignals(before)
    box.setToolTip("\n".join(filter(None, (box.accessibleName(), box.currentText()))))
