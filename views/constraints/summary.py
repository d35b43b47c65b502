"""Lines above the constraint tree: whether it is legal, which kernel follows it, what came of the entries, how long it
took."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from engine.documents.model import EntryDoc, KernelDoc
from views.constraints.rows import summary
from views.format import figure, made_by
from views.panel import Elided, FixedStrip, bar
from views.shapes import paint_verdict
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

GAP = 12
LEGAL_WIDTH = 64
QUIET = ("not reached", "disabled", "matches nothing")


class OutcomeCounts(FixedStrip, Themed):
    """Counts in the order of their weight; those that find no room stand in the tool tip only."""

    def __init__(self) -> None:
        super().__init__("subheader", 32)
        self._counts: tuple[tuple[str, int], ...] = ()
        self._time = ""
        self.setAccessibleName("Verdicts")

    def show_entries(self, entries: Sequence[EntryDoc], milliseconds: float) -> None:
        """Counts the verdicts of entries; a time of 0 is not known."""
        self._counts = summary(entries)
        self._time = f"solved in {figure(milliseconds)} ms" if milliseconds else ""
        self.setAccessibleDescription(self.text)
        self.setToolTip(self.text)
        self.update()

    @property
    def text(self) -> str:
        """Everything in words."""
        parts = [f"{count} {outcome}" for outcome, count in self._counts]
        return ", ".join([*parts, self._time] if self._time else parts)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The time at the right if it fits, then counts from the left as long as they fit."""
        super().paintEvent(event)
        if self.theme is None:
            return
        painter = ThemedPainter(self, self.theme)
        box = QRectF(12, 0, self.width() - 24, self.height() - 1)
        for outcome, count in self._counts:
            text, wrong = f"{count} {outcome}", outcome == "infeasible"
            font, mark = semibold(11) if wrong else face(11), 18.0 if outcome == "honoured" else 0.0
            width = painter.width(text, font) + 1.0
            if mark + width > box.width():
                return
            if mark:
                paint_verdict(painter, QPointF(box.x() + 6, self.height() / 2 - 0.5), outcome, 4.5)
            tint = "wrong" if wrong else "text-3" if outcome in QUIET else "text"
            painter.text(box.adjusted(mark, 0, 0, 0), text, tint, font)
            box = box.adjusted(mark + width + GAP, 0, 0, 0)
        if painter.width(self._time, face(11)) <= box.width():
            painter.text(box, self._time, "text-3", face(11), RIGHT)


class KernelState(QWidget):
    """Two columns: whether the schedule is legal, and which family made its kernel or why there is none."""

    def __init__(self) -> None:
        super().__init__()
        # Not an elided line, which asks its layout for no room: the next one would stand on top of it.
        self.legal, self.kernel = QLabel(), Elided("second")
        self.legal.setFixedWidth(LEGAL_WIDTH)
        self._told = ""
        self.is_looking = False
        """Whether the smallest conflict is still looked for."""
        self.setAccessibleName("Legality and kernel")
        strip, row = bar("subheader", 28)
        row.addWidget(self.legal)
        row.addWidget(self.kernel, 1)
        around = QVBoxLayout(self)
        around.setContentsMargins(0, 0, 0, 0)
        around.addWidget(strip)

    def show_kernel(self, kernel: KernelDoc) -> None:
        """Shows what became of a group's advice."""
        self.legal.setText("Legal" if kernel.legal else "Not legal")
        self._told = _kernel_text(kernel)
        self._show()

    def show_looking(self, looking: bool) -> None:
        """The smallest conflict is looked for, or no longer."""
        self.is_looking = looking
        self._show()

    def _show(self) -> None:
        self.kernel.setText(f"Looking for the smallest conflict… {self._told}" if self.is_looking else self._told)
        self.setAccessibleDescription(f"{self.legal.text()}. {self.kernel.text()}")


def _kernel_text(kernel: KernelDoc) -> str:
    """The family, and what keeps the next better one from it: "General kernel. Gemm does not fit: ..."."""
    if not kernel.legal:
        return "No kernel: required entries cannot hold"
    if kernel.refused:
        return f"No kernel: {kernel.refused}"
    family, _, because = kernel.misfit.partition(": ")
    better = f". {family.capitalize()} does not fit: {because}" if because else ""
    return made_by(kernel).capitalize() + better
