"""The painted roofline: plots side by side, a point for each kernel, its ghost at the baseline."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from views.roofline.axes import Plot, RooflineAxes, axes_of, in_order, plot_points
from views.roofline.nodes import Point, Roofline
from views.roofline.painting import RooflinePainting
from views.theme import Theme

LEFT, BETWEEN, RIGHT, TOP, BOTTOM = 48.0, 36.0, 20.0, 30.0, 36.0
REACH = 14.0
"""Pixels around a point in which the pointer means it."""


class RooflineCanvas(QWidget):
    """Points are pointed at, clicked, and walked through with the arrow keys."""

    group_selected = Signal(str)
    pointed = Signal(str)
    """The group under the pointer, or "" ."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Roofline")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumHeight(140)
        self.theme: Theme | None = None
        self.selected = ""
        self.hovered = ""
        self.roofline: Roofline | None = None
        self._axes: RooflineAxes | None = None
        self._plots: list[Plot] = []
        """Of the present size; empty until somebody looks."""

    def show_roofline(self, roofline: Roofline) -> None:
        """Replaces all points."""
        self.roofline, self._axes = roofline, axes_of(roofline)
        self._plots = []
        self.update()

    def show_selection(self, group: str) -> None:
        """Marks a group's points."""
        self.selected = group
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def areas(self) -> list[QRectF]:
        """Where the plots stand, from left to right."""
        count = len(self.roofline.sides) if self.roofline else 1
        width = (self.width() - LEFT - RIGHT - BETWEEN * (count - 1)) / count
        height = self.height() - TOP - BOTTOM
        return [QRectF(LEFT + number * (width + BETWEEN), TOP, width, height) for number in range(count)]

    def spots(self, group: str) -> list[QPointF]:
        """Where a group's points stand, in each plot that has one."""
        return [
            QPointF(*plot.spots[number])
            for plot in self._plots_of_sides()
            for number, point in enumerate(plot.side.points)
            if point.group == group
        ]

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Everything stands elsewhere."""
        self._plots = []
        super().resizeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """One plot after the other."""
        if self.theme is None or self.roofline is None or self._axes is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        picture = RooflinePainting(
            painter, self.theme, self.roofline, self._axes, self.selected, self.hovered, self.hasFocus()
        )
        for number, plot in enumerate(self._plots_of_sides()):
            picture.plot(plot, first=number == 0)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Points at the nearest kernel."""
        self._point_at(self._nearest(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Points at nothing."""
        self._point_at("")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Selects the nearest kernel, everywhere."""
        group = self._nearest(event.position())
        if group:
            self.group_selected.emit(group)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right walk by intensity, up and down by rate; Home and End go to the ends."""
        key = Qt.Key(event.key())
        target = self._neighbour(key)
        if target is None:
            super().keyPressEvent(event)
        elif target != self.selected:
            self.group_selected.emit(target)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The focus shows at the selected point."""
        super().focusInEvent(event)
        self.update()

    focusOutEvent = focusInEvent

    def _neighbour(self, key: Qt.Key) -> str | None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: -1, Qt.Key.Key_Up: 1}
        points = self._points_in_order()
        if not points or key not in (*steps, Qt.Key.Key_Home, Qt.Key.Key_End):
            return None
        groups = [point.group for point in in_order(points, by_height=key in (Qt.Key.Key_Up, Qt.Key.Key_Down))]
        if key == Qt.Key.Key_Home or self.selected not in groups:
            return groups[0]
        if key == Qt.Key.Key_End:
            return groups[-1]
        return groups[min(max(groups.index(self.selected) + steps[key], 0), len(groups) - 1)]

    def _points_in_order(self) -> tuple[Point, ...]:
        """The points of the first plot that has any: its kernels are all that the others have."""
        sides = self.roofline.sides if self.roofline else ()
        return next((side.points for side in sides if side.points), ())

    def _plots_of_sides(self) -> list[Plot]:
        if not self._plots and self.roofline is not None and self._axes is not None:
            sides = zip(self.roofline.sides, self.areas(), strict=True)
            self._plots = [plot_points(self._axes, side, area) for side, area in sides]
        return self._plots

    def _nearest(self, at: QPointF) -> str:
        """The group whose point is nearest to a place; of points on one spot the selected one's successor."""
        near = []
        for plot in self._plots_of_sides():
            distances = np.abs(plot.spots - (at.x(), at.y())).sum(axis=1)
            near += [(distances[n], plot.side.points[n].group) for n in np.flatnonzero(distances <= REACH)]
        if not near:
            return ""
        least = min(distance for distance, _ in near)
        same = sorted({group for distance, group in near if distance <= least + 1.0})
        return same[(same.index(self.selected) + 1) % len(same)] if self.selected in same else same[0]

    def _point_at(self, group: str) -> None:
        if group != self.hovered:
            self.hovered = group
            self.setCursor(Qt.CursorShape.PointingHandCursor if group else Qt.CursorShape.ArrowCursor)
            self.update()
            self.pointed.emit(group)
