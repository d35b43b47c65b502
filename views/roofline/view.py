"""The roofline page: its plots, and one line about the kernel that is pointed at or selected."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from views.format import amount, duration, figure, percent
from views.panel import bar, label
from views.roofline.canvas import RooflineCanvas
from views.roofline.nodes import Point, Roofline
from views.theme import Theme

HINT = "Point at a kernel or walk with the arrow keys; rings are predicted, discs measured, pale marks the baseline"


class RooflinePage(QWidget):
    """`group_selected` carries the group of the clicked or reached point."""

    group_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.canvas = RooflineCanvas()
        self.canvas.group_selected.connect(self.group_selected)
        self.canvas.pointed.connect(lambda _: self._tell())
        strip, row = bar("subheader", 42)
        self.readout = label(HINT, "second", wrap=True)
        self.readout.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row.addWidget(self.readout, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(strip)
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

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.canvas.set_theme(theme)

    def _tell(self) -> None:
        """Says what is known about the point under the pointer, else about the selected one."""
        group = self.canvas.hovered or self.canvas.selected
        sides = self._roofline.sides if self._roofline else ()
        told = [_line(side.origin, point) for side in sides for point in side.points if point.group == group]
        title = next((point.title for side in sides for point in side.points if point.group == group), "")
        text = "\n".join([f"{title}, {told[0]}", *told[1:]]) if told else HINT
        self.readout.setText(text)
        self.readout.setToolTip(text)
        self.canvas.setAccessibleDescription(text)


def _line(origin: str, point: Point) -> str:
    part = percent(point.height / point.roof)
    time = f"{origin} {duration(point.microseconds)}"
    if point.ghost is not None and point.ghost != point.height:
        time += f", at the baseline {duration(point.microseconds * point.height / point.ghost)}"
    if not point.intensity:
        return f"{time} · no operations · {part} of the memory's rate"
    return f"{time} · {figure(point.intensity)} FLOP/B · {amount(point.height, 'FLOP/s')} · {part} of the roof"
