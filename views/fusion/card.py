"""A card under the graph: why an edge is a boundary, how it is handed over, why a wish was refused, and choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from views.icons import icon
from views.panel import PADDING, icon_button, label
from views.theme import Theme


@dataclass(frozen=True, slots=True)
class CardContent:
    """What the card says."""

    title: str
    chips: tuple[str, ...]
    sentence: str
    rows: tuple[tuple[str, str, str], ...] = ()
    """Name, value with its unit, reason."""
    is_refusal: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    """Text and name of what can be done."""
    names: tuple[str, ...] = ()
    """Operators it is about, where the title does not tell them all."""


MOST_NAMES = 8
"""Operators that are written out; the tool tip has all."""


class FusionCard(QWidget):
    """Shows one Told; hidden while there is none."""

    chosen = Signal(str)
    """The name of what shall be done."""
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("About the selected edge")
        self.told: CardContent | None = None
        self.title = label("", "title", wrap=True)
        self.sentence = label("", "paragraph", wrap=True)
        self.names = label("", "small-hint", wrap=True)
        for text in (self.sentence, self.names):
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.close_button = icon_button("Close (Escape)")
        self.close_button.clicked.connect(self.close_card)
        self._chips = QHBoxLayout()
        self._chips.setSpacing(6)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(2, 1)
        self._choices = QHBoxLayout()
        self._choices.setSpacing(8)
        self.buttons: dict[str, QPushButton] = {}
        self._lay_out()
        self.hide()

    def show_told(self, told: CardContent) -> None:
        """Says something else."""
        self.told = told
        self.title.setText(told.title)
        self.sentence.setText(told.sentence)
        self.sentence.setProperty("role", "wrong-text" if told.is_refusal else "paragraph")
        self.sentence.style().unpolish(self.sentence)
        self.sentence.style().polish(self.sentence)
        self.names.setText(_list_names(told.names))
        self.names.setToolTip("\n".join(told.names))
        self.names.setVisible(bool(told.names))
        _clear(self._chips)
        for text in told.chips:
            self._chips.addWidget(label(text, "chip"))
        self._chips.addStretch(1)
        self._fill_rows(told.rows)
        self._fill_choices(told.choices)
        self.show()

    def close_card(self) -> None:
        """Says nothing any more."""
        self.told = None
        self.hide()
        self.closed.emit()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.close_button.setIcon(icon("cancel", theme.colours["text-2"]))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.title, 1)
        head.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(PADDING, 8, 8, 10)
        layout.setSpacing(6)
        layout.addLayout(head)
        layout.addLayout(self._chips)
        layout.addWidget(self.sentence)
        layout.addWidget(self.names)
        layout.addLayout(self._grid)
        layout.addLayout(self._choices)

    def _fill_rows(self, rows: Sequence[tuple[str, str, str]]) -> None:
        _clear(self._grid)
        for number, (name, value, because) in enumerate(rows):
            figure = label(value)
            figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(label(name, "hint"), number, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(figure, number, 1)
            self._grid.addWidget(label(because, "small-hint", wrap=True), number, 2)

    def _fill_choices(self, choices: Sequence[tuple[str, str]]) -> None:
        _clear(self._choices)
        self.buttons = {}
        for text, name in choices:
            button = self.buttons[name] = QPushButton(text)
            button.setProperty("role", "small")
            button.clicked.connect(lambda _=False, name=name: self.chosen.emit(name))
            self._choices.addWidget(button)
        self._choices.addStretch(1)


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def _clear(layout: QHBoxLayout | QGridLayout) -> None:
    while item := layout.takeAt(0):
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
