"""The live page: samples with their clock, replay controls, or what to do where there are none."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from engine.documents import Problem
from views.panel import label
from views.theme import Theme
from views.timing.deck import DeckBar
from views.timing.headline import Headline
from views.timing.live import Deck, Live
from views.timing.plot import SamplePlot
from views.timing.strip import ClockStrip

NOT_YET = "Nothing measured yet. Press Time (F9) to measure the selected kernel."
CANNOT = "Nothing can be measured on this machine"
ELSE = "Everything else works; predicted times are hollow, and a run recorded elsewhere can be replayed (Ctrl+F9)."


class LivePage(QWidget):
    """Shows one moment after the other; `replay_requested` asks for a file of recorded samples."""

    replay_requested = Signal()
    dismissed = Signal()
    """What was refused has been read."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = Headline()
        self.plot = SamplePlot()
        self.strip = ClockStrip()
        self.deck = DeckBar()
        self.deck.hide()
        self.missing = _Message((("Replay a recorded run…", self.replay_requested),))
        self.refused = _Message((("Replay a recorded run…", self.replay_requested), ("Back", self.dismissed)))
        samples = QWidget()
        below = QVBoxLayout(samples)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(0)
        for widget in (self.headline, self.plot, self.strip, self.deck):
            below.addWidget(widget, 1 if widget is self.plot else 0)
        self.pages = QStackedWidget()
        for page in (self.missing, self.refused, samples):
            self.pages.addWidget(page)
        self._samples = samples
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)
        self.show_machine(True, "")

    def show_live(self, live: Live, deck: Deck | None) -> None:
        """Shows samples; `deck`: the replay that they come from, None for those of this machine."""
        self.headline.show_live(live, replayed=deck is not None)
        self.plot.show_live(live)
        self.strip.show_live(live)
        self.deck.setVisible(deck is not None)
        if deck is not None:
            self.deck.show_deck(deck)
        self.pages.setCurrentWidget(self._samples)

    def show_nothing(self) -> None:
        """Says what to do where there are no samples."""
        self.pages.setCurrentWidget(self.missing)

    def show_machine(self, can_measure: bool, lacking: str) -> None:
        """`lacking`: what to install before anything can be measured."""
        text = NOT_YET if can_measure else "\n\n".join(filter(None, (lacking, ELSE)))
        self.missing.show_text("" if can_measure else CANNOT, text)

    def show_refusal(self, title: str, problem: Problem) -> None:
        """Says why a file cannot be replayed or a kernel not measured, and what to do."""
        known = PurePath(problem.subject).name in title
        said = f"It {problem.reason}" if known else f"{problem.subject}: {problem.reason}"
        lines = (said, problem.hint)
        self.refused.show_text(title, "\n".join(f"{line[:1].upper()}{line[1:]}." for line in lines if line))
        self.pages.setCurrentWidget(self.refused)

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        for part in (self.headline, self.plot, self.strip, self.deck):
            part.set_theme(theme)


class _Message(QWidget):
    """A title, a few lines, at most two buttons."""

    def __init__(self, buttons: tuple[tuple[str, object], ...]) -> None:
        super().__init__()
        self.title = label("", "title")
        self.title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text = label("", "hint", wrap=True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = [QPushButton(name) for name, _ in buttons]
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addStretch(1)
        for button, (_, wish) in zip(self.buttons, buttons, strict=True):
            button.clicked.connect(wish)
            row.addWidget(button)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(32, 8, 32, 8)
        layout.setSpacing(10)
        layout.addStretch(1)
        layout.addWidget(self.title)
        layout.addWidget(self.text)
        layout.addLayout(row)
        layout.addStretch(1)

    def show_text(self, title: str, text: str) -> None:
        """Replaces title and lines."""
        self.title.setText(title)
        self.title.setVisible(bool(title))
        self.text.setText(text)
        self.setAccessibleDescription(text)
