"""The live page: samples with their clock, replay controls, or what to do where there are none."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from engine.documents.model import ProblemDoc
from views.message import Message
from views.themed import Themed
from views.timing.deck import DeckBar
from views.timing.headline import SampleHeadline
from views.timing.live import Deck, Live
from views.timing.plot import SamplePlot

NOT_YET = "Nothing measured yet. Press Time (F9) to measure the selected kernel."
CANNOT = "Nothing can be measured on this machine"
ELSE = "Everything else works; predicted times are hollow, and a run recorded elsewhere can be replayed (Ctrl+F9)."


class LivePage(QWidget, Themed):
    """Shows one moment after the other; `replay_requested` asks for a file of recorded samples."""

    replay_requested = Signal()
    dismissed = Signal()
    """What was refused has been read."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = SampleHeadline()
        self.plot = SamplePlot()
        self.deck = DeckBar()
        self.deck.hide()
        self.missing = Message((("Replay a recorded run…", self.replay_requested),))
        self.refused = Message((("Replay a recorded run…", self.replay_requested), ("Back", self.dismissed)))
        samples = QWidget()
        below = QVBoxLayout(samples)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(0)
        for widget in (self.headline, self.plot, self.deck):
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

    def show_refusal(self, title: str, problem: ProblemDoc) -> None:
        """Says why a file cannot be replayed or a kernel not measured, and what to do."""
        self.refused.show_refusal(title, problem)
        self.pages.setCurrentWidget(self.refused)
