"""The roofline page: its plots, and one line about the kernel that is pointed at or selected."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from views.format import amount, duration, figure, percent
from views.panel import PADDING
from views.roofline.canvas import RooflineCanvas
from views.roofline.nodes import Point, Roofline
from views.theme import face
from views.themed import Themed
from views.themed_painter import ThemedPainter

LINE = 16
HINT = "Point at a kernel, or walk with the arrow keys; small pale marks are the baseline"


class RooflinePage(QWidget, Themed):
    """`group_selected` carries the group of the clicked or reached point."""

    group_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.canvas = RooflineCanvas()
        self.canvas.group_selected.connect(self.group_selected)
        self.canvas.pointed.connect(lambda _: self._tell())
        self.readout = Readout()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.readout)
        layout.addWidget(self.canvas, 1)
        self._roofline: Roofline | None = None

    def show_roofline(self, roofline: Roofline) -> None:
        """Replaces all points."""
        self._roofline = roofline
        self.canvas.show_roofline(roofline)
        self._tell()

    def show_selection(self, group: str) -> None:
        """Marks a group's points."""
        self.canvas.show_selection(group)
        self._tell()

    def _tell(self) -> None:
        """Says what is known about the point under the pointer, else about the selected one."""
        group = self.canvas.hovered_group or self.canvas.selected
        sides = self._roofline.sides if self._roofline else ()
        told = [_line(side.origin, point) for side in sides for point in side.points if point.group == group]
        title = next((point.title for side in sides for point in side.points if point.group == group), "")
        self.readout.show_lines([f"{title}, {told[0]}", *told[1:]] if told else [HINT])
        self.canvas.setAccessibleDescription(self.readout.text())


class Readout(QWidget, Themed):
    """At most three lines, one of each origin; each is cut at its end where it finds no room."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self.show_lines([HINT])

    def show_lines(self, lines: list[str]) -> None:
        """Replaces what is said."""
        self._lines = lines
        self.setFixedHeight(LINE * max(len(lines), 2) + 10)
        self.setToolTip(self.text())
        self.update()

    def text(self) -> str:
        """What is said."""
        return "\n".join(self._lines)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Lines from the top, a rule below."""
        if self.theme is None:
            return
        painter = ThemedPainter(self, self.theme)
        painter.area(QRectF(0, self.height() - 1, self.width(), 1), "line")
        for number, line in enumerate(self._lines):
            box = QRectF(PADDING, 5 + number * LINE, self.width() - 2 * PADDING, LINE)
            painter.text(box, line, "text-2", face(11))


def _line(origin: str, point: Point) -> str:
    part = percent(point.height / point.roof)
    time = f"{origin} {duration(point.microseconds)}"
    if point.ghost is not None and point.ghost != point.height:
        time += f", at the baseline {duration(point.microseconds * point.height / point.ghost)}"
    if not point.intensity:
        return f"{time} · no operations · {part} of the memory's rate"
    return f"{time} · {figure(point.intensity)} FLOP/B · {amount(point.height, 'FLOP/s')} · {part} of the roof"
