"""The controls of a replay: which row, playing or not, how fast, how far."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QProgressBar, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from views.icons import icon
from views.panel import bar, icon_button, label
from views.theme import Theme
from views.themed import Themed
from views.timing.live import Deck

SPEEDS = (20, 100, 500, 1000)
"""Samples a second that can be chosen."""


class DeckBar(QWidget, Themed):
    """A recording's rows and its controls; requests go out, nothing plays here."""

    row_requested = Signal(int)
    speed_requested = Signal(int)
    pause_requested = Signal()
    stop_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._playing = False
        self.rows = QComboBox()
        self.rows.setAccessibleName("Row of the recording")
        self.rows.setProperty("role", "small")
        self.rows.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.rows.activated.connect(self.row_requested)
        self.speed = QComboBox()
        self.speed.setAccessibleName("Speed of the replay")
        self.speed.setToolTip("Samples a second ([ slower, ] faster)")
        self.speed.setProperty("role", "small")
        self.speed.addItems([f"{speed:,} / s" for speed in SPEEDS])
        self.speed.activated.connect(lambda index: self.speed_requested.emit(SPEEDS[index]))
        self.pause = icon_button("Pause or go on (Shift+F9)")
        self.pause.clicked.connect(self.pause_requested)
        self.stop = icon_button("Stop and put the recording away (Ctrl+Shift+F9)")
        self.stop.clicked.connect(self.stop_requested)
        self.position = label("", "small-hint")
        self.position.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        strip, row = bar("subheader", 32)
        for widget, stretch in (
            (self.pause, 0), (self.stop, 0), (self.rows, 1), (self.position, 0), (self.speed, 0),
        ):  # fmt: skip
            row.addWidget(widget, stretch)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Position in the recording")
        self.progress.setStyleSheet("min-height: 2px; max-height: 2px; border-radius: 0;")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.progress)
        layout.addWidget(strip)

    def show_deck(self, deck: Deck) -> None:
        """Follows the replay."""
        if [self.rows.itemText(number) for number in range(self.rows.count())] != list(deck.rows):
            self.rows.clear()
            self.rows.addItems(list(deck.rows))
        self.rows.setCurrentIndex(deck.row)
        self.rows.setToolTip(f"Recorded in {deck.file}")
        if deck.speed in SPEEDS:
            self.speed.setCurrentIndex(SPEEDS.index(deck.speed))
        self.progress.setRange(0, max(deck.total, 1))
        self.progress.setValue(deck.position)
        self.position.setText(f"{deck.position:,} of {deck.total:,}")
        if deck.playing != self._playing:
            self._playing = deck.playing
            self._draw_icons()

    def show_theme(self, theme: Theme) -> None:
        """Icons follow the theme."""
        self._draw_icons()

    def _draw_icons(self) -> None:
        buttons: tuple[tuple[QToolButton, str], ...] = (
            (self.pause, "pause" if self._playing else "play"),
            (self.stop, "stop"),
        )
        if self.theme is not None:
            for button, name in buttons:
                button.setIcon(icon(name, self.theme.colours["text-2"], self.theme.colours["line"]))
