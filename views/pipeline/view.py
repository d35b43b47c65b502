"""The Pipeline tab: a block over time, its shared memory, and what other knobs would give."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSplitter, QVBoxLayout, QWidget

from engine.documents.pipeline import ChartDoc
from engine.documents.units import kib
from views.answer import AnswerPage
from views.format import duration, figure, origin_of, percent, plural
from views.panel import Elided, bar, label, rule
from views.pipeline.canvas import PipelineCanvas
from views.pipeline.painting import paint_hatch
from views.pipeline.shared import SharedMap
from views.pipeline.what_if import WhatIf
from views.theme import Theme
from views.themed import Themed, restyle
from views.themed_painter import ThemedPainter

EMPTY = "Select a group to see how its copies and its arithmetic overlap"
WIDE = 700
"""Pixels from which shared memory and knobs stand side by side."""


class PipelinePage(AnswerPage):
    """Shows a chart; `lines_selected` carries lines of the CUDA text, other requests are signals of its parts."""

    lines_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__(EMPTY)
        self.canvas, self.shared, self.what_if = PipelineCanvas(), SharedMap(), WhatIf()
        self.canvas.lines_selected.connect(self.lines_selected)
        self.canvas.selected.connect(lambda _: self._show_stage())
        self.pages.addWidget(self._make_body())
        self.column.addWidget(self.pages, 1)
        self._doc: ChartDoc | None = None

    @property
    def chart(self) -> ChartDoc | None:
        """What is shown."""
        return self._doc

    def show_chart(self, doc: ChartDoc) -> None:
        """Replaces everything but the values of the sliders."""
        if doc == self._doc:
            return
        self._doc = doc
        self._show_head(doc)
        self._show_swatch()
        self.canvas.setVisible(bool(doc.bars))
        self.no_loop.setVisible(not doc.bars)
        self.no_loop.setText(doc.because[:1].upper() + doc.because[1:])
        self.canvas.show_chart(doc)
        self.shared.show_chart(doc)
        self.what_if.show_choices(doc)
        self.used.setText(f"{kib(doc.shared_bytes)} of {kib(doc.shared_limit)} per block")
        self._show_stage()
        self.show_body()

    def show_nothing(self, sentence: str = "") -> None:
        """Nothing is known."""
        self._doc = None
        super().show_nothing(sentence)

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        if self._doc is not None:
            self._show_head(self._doc)

    def resizeEvent(self, event: object) -> None:
        """Shared memory and knobs stand side by side where there is room, else below each other."""
        wide = self.width() >= WIDE
        self.below.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)
        for part in (self.subtitle, self.stall):
            part.setVisible(wide)
        self._show_swatch()

    def _make_body(self) -> QWidget:
        inside = QWidget()
        inside.setProperty("role", "body")
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._make_head())
        column.addWidget(self.canvas)
        self.no_loop = label("", "hint", wrap=True)
        self.no_loop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.no_loop.setContentsMargins(24, 24, 24, 24)
        column.addWidget(self.no_loop)
        column.addWidget(rule())
        self.below = QSplitter()
        self.below.setHandleWidth(1)
        self.below.setChildrenCollapsible(False)
        self.below.addWidget(self._make_shared())
        self.below.addWidget(self.what_if)
        self.below.setStretchFactor(0, 1)
        self.below.setStretchFactor(1, 1)
        self.below.setSizes([520, 480])
        column.addWidget(self.below, 1)
        scroll = QScrollArea()
        scroll.setWidget(inside)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        return scroll

    def _make_head(self) -> QWidget:
        strip, layout = bar("subheader", 32)
        self.title, self.subtitle = label("", "title"), Elided("hint")
        self.hazards, self.stall, self.swatch = label("", "second"), label("", "second"), _Swatch()
        self.origin = label("", "outline-chip")
        layout.addWidget(self.title)
        layout.addWidget(self.subtitle, 1)
        for widget in (self.hazards, self.swatch, self.stall, self.origin):
            layout.addWidget(widget)
        layout.setContentsMargins(12, 0, 12, 0)
        return strip

    def _make_shared(self) -> QWidget:
        part = QWidget()
        column = QVBoxLayout(part)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        strip, layout = bar("subheader", 28)
        self.used = label("", "hint")
        layout.addWidget(label("Shared memory", "title"))
        layout.addWidget(self.used)
        layout.addStretch(1)
        column.addWidget(strip)
        column.addWidget(self.shared, 1)
        return part

    def _show_head(self, doc: ChartDoc) -> None:
        self.title.setText(doc.title)
        loop = f"loop {doc.loop}, {plural(doc.steps, 'step')}, {plural(doc.stages, 'stage')}" if doc.loop else ""
        if doc.register_stages > 1:
            loop += f", {doc.register_stages} in registers"
        self.subtitle.setText(f"{loop}; 1 of {plural(doc.resident, 'block')} on its SM" if loop else "")
        self.hazards.setText(f"{'✕' if doc.hazards else '✓'} {plural(len(doc.hazards), 'hazard')}" if doc.loop else "")
        self.hazards.setToolTip("\n".join(hazard.text for hazard in doc.hazards[:12]))
        restyle(self.hazards, "role", "wrong" if doc.hazards else "second")
        share = percent(doc.stalled / doc.cycles) if doc.cycles else ""
        self.stall.setText(f"stall {figure(doc.stalled)} cycles, {share}" if doc.loop else "")
        self.stall.setToolTip("Time of this block with nothing left to do but wait for memory: amber in the chart")
        self.origin.setText(origin_of(doc.time))
        terms = (f"{term.name}  {figure(term.value)} {term.unit}: {term.because}" for term in doc.terms)
        models = (f"{origin_of(time)}: {duration(time.microseconds)}" for time in (doc.time, doc.alcop, doc.baseline))
        self.origin.setToolTip("\n".join([*models, *terms]))

    def _show_swatch(self) -> None:
        """Only a block that has a loop waits."""
        self.swatch.setVisible(self.width() >= WIDE and self._doc is not None and bool(self._doc.loop))

    def _show_stage(self) -> None:
        """Marks in the map the stage that holds the selected tile."""
        place, doc = self.canvas.place, self._doc
        flight = next((f for f in doc.flights if place is not None and f.tile == place.tile), None) if doc else None
        self.shared.show_stage(flight.stage if flight else -1)


class _Swatch(QWidget, Themed):
    """What waiting for memory looks like in the chart."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(18, 12)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A small bar of the chart."""
        if self.theme is None:
            return
        painter, box = ThemedPainter(self, self.theme), QRectF(self.rect())
        painter.box(box, "worse", radius=3)
        paint_hatch(painter, box.adjusted(0.5, 0.5, -0.5, -0.5), "worse", 1.2)
