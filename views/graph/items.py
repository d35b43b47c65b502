"""Items of the graph's scene: boxes and edges that paint themselves from one shared state."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from views.format import amount, compact_shape, duration, origin_of, plural
from views.graph.badges import CHANGES, change_of, paint_change, paint_pin
from views.graph.drawing import HEADER, EdgeLine, PlacedBox
from views.graph.look import SceneState
from views.graph.polylines import RADIUS, rounded_path
from views.hierarchy import GraphBox
from views.rows import draw_text, text_width
from views.shapes import paint_bar, paint_pill_in, paint_track
from views.theme import Theme, face, semibold

HULL_RADIUS = 10.0
TARGETS = {"honoured": "accent", "infeasible": "wrong", "not reached": "text-3"}
"""Verdict on a drop -> the outline of where it would land."""
UNKNOWN = "—"
FAR, NEAR = 0.32, 0.8
"""Scales below which a box shows nothing but its shape, and no second line."""
LEGIBLE = 11.0
"""Pixels on the screen that a title has, however small the picture is, as long as its box has the room."""
PACKING = "packing"
SCHEMES = {
    "register": ("stitch", Qt.PenStyle.SolidLine, 1.8),
    "shuffle": ("vectorize", Qt.PenStyle.DashLine, 1.8),
    "shared": ("tensorize", Qt.PenStyle.SolidLine, 3.2),
    "packing": ("pipeline", Qt.PenStyle.DotLine, 1.8),
}
"""Scheme -> which category colour it has, and its line: shape carries the meaning, colour repeats it."""
BOUND_COLOURS = {"memory": "stitch", "compute": "tensorize", "latency": "pipeline"}
"""Which category colour stands for what limits a group."""


class BoxItem(QGraphicsItem):
    """A launch, a closed layer, or the frame of an open one."""

    def __init__(self, placed: PlacedBox, look: SceneState) -> None:
        super().__init__()
        self.placed = placed
        self._look = look
        self._hovered = False
        self.setPos(placed.left, placed.top)
        self.setZValue(placed.depth * 2 if placed.opened else 100)
        self.setAcceptHoverEvents(True)
        if not placed.opened:
            self.setCursor(Qt.CursorShape.PointingHandCursor)

    def boundingRect(self) -> QRectF:
        """The box with room for its outline and the shadows of its copies."""
        return QRectF(-12, -12, self.placed.width + 24, self.placed.height + 14)

    def shape(self) -> QPainterPath:
        """Only the header of an open layer answers the mouse."""
        path = QPainterPath()
        height = HEADER if self.placed.opened else self.placed.height
        path.addRect(QRectF(0, 0, self.placed.width, height))
        return path

    def hoverEnterEvent(self, event: object) -> None:
        """Light highlight, no scrolling."""
        self._hovered = True
        self.setToolTip(_tip(self.placed, self._look))
        self.update()

    def hoverLeaveEvent(self, event: object) -> None:
        """Ends the highlight."""
        self._hovered = False
        self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Paints as much as can be read at this scale."""
        scale = option.levelOfDetailFromTransform(painter.worldTransform())
        if self._look.is_dimmed(self.placed):
            painter.setOpacity(0.35)
        self._outline(painter)
        if self._look.is_pinned(self.placed):
            paint_pin(painter, QPointF(self.placed.width, 0), self._look.theme, scale)
        if scale < FAR:
            return
        if self.placed.opened:
            self._frame_text(painter, _text_size(scale, HEADER))
        elif self.placed.box.operator:
            self._operator_text(painter, _text_size(scale, self.placed.height), scale >= NEAR)
        elif scale >= NEAR:
            self._box_text(painter, QRectF(12, 4, self.placed.width - 24, 19), _text_size(scale, 19), True)
            self._second_line(painter, QRectF(12, 23, self.placed.width - 24, 16))
        else:
            row = QRectF(8, 0, self.placed.width - 16, self.placed.height - 8)
            self._box_text(painter, row, _text_size(scale, row.height()), False)
            self._paint_cost(painter, QRectF(8, self.placed.height - 9, self.placed.width - 16, 5))

    def _outline(self, painter: QPainter) -> None:
        theme, placed = self._look.theme, self.placed
        box = QRectF(0, 0, placed.width, placed.height)
        selected = self._look.is_selected(placed)
        pen = QPen(theme.colour("accent" if selected else "edge"), 1.6 if selected else 1.0)
        if (placed.opened and not selected) or self._hovered:
            pen.setColor(theme.colour("text-3") if self._hovered else theme.colour("edge"))
        painter.setPen(QPen(theme.colour("line"), 1))
        painter.setBrush(theme.colour("panel"))
        if placed.box.count > 1:
            for shift in (8.0, 4.0):
                painter.drawRoundedRect(box.translated(shift, -shift), RADIUS, RADIUS)
        hull = placed.opened and not placed.box.children
        change = change_of(self._look.changes, placed.box)
        if placed.box.is_uncompiled:
            pen.setDashPattern([3, 3])
        if change:
            pen = QPen(theme.author(CHANGES[change][0]), 1.8)
        if self._look.target[0] == placed.box.key:
            pen = QPen(theme.colour(TARGETS[self._look.target[1]]), 2.4)
        painter.setPen(pen)
        surface = "raised" if hull else "panel" if placed.opened else "accent-bg" if selected else "chrome"
        painter.setBrush(theme.colour(surface))
        radius = HULL_RADIUS if hull else RADIUS
        painter.drawRoundedRect(box, radius, radius)
        if change:
            paint_change(painter, QPointF(0, 0), change, theme)

    def _frame_text(self, painter: QPainter, size: float) -> None:
        theme, placed = self._look.theme, self.placed
        row = QRectF(12, 0, placed.width - 24, HEADER)
        time = self._look.time_of(placed)
        text = f"{duration(time)}{' each' * (placed.box.count > 1)}" if time else UNKNOWN
        painter.setFont(face(size - 1))
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, row, text, right=True)
        room = row.width() - text_width(painter, text) - 10
        _paint_title(painter, row, placed.box, theme, semibold(size), room)

    def _operator_text(self, painter: QPainter, size: float, whole: bool) -> None:
        """The operator's type and, in grey, its name."""
        theme, placed = self._look.theme, self.placed
        row = QRectF(10, 0, placed.width - 20, placed.height)
        painter.setFont(face(size, QFont.Weight.Medium))
        painter.setPen(theme.colour("text"))
        draw_text(painter, row, placed.box.title)
        used = text_width(painter, placed.box.title) + 10
        if whole and row.width() - used > 24:
            painter.setFont(face(10.5))
            painter.setPen(theme.colour("text-3"))
            name = placed.box.operator.rstrip("/").rpartition("/")[2]
            draw_text(painter, row.adjusted(used, 0, 0, 0), name, right=True)

    def _box_text(self, painter: QPainter, row: QRectF, size: float, with_time: bool) -> None:
        """The title, and at the right the time; of a small box the time stands there only beside a whole title."""
        theme, placed, look = self._look.theme, self.placed, self._look
        time = look.time_of(placed)
        text = duration(time) if time else UNKNOWN * (look.shows_measured and not placed.box.is_uncompiled)
        weight = semibold(size) if look.is_selected(placed) else face(size, QFont.Weight.Medium)
        painter.setFont(semibold(size))
        taken = text_width(painter, text) + 10
        if not with_time and text_width(painter, _whole_title(placed.box)) + taken > row.width():
            text, taken = "", 0.0
        painter.setPen(theme.colour("text"))
        draw_text(painter, row, text, right=True)
        _paint_title(painter, row, placed.box, theme, weight, row.width() - taken)

    def _second_line(self, painter: QPainter, row: QRectF) -> None:
        theme, look = self._look.theme, self._look
        group = look.group_of(self.placed)
        bar = 48.0 if self.placed.width > 200 else 32.0
        track = QRectF(row.right() - bar, row.center().y() - 3.5, bar, 7)
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-3"))
        if group is None:
            box, beside = self.placed.box, look.beside.get(self.placed.box.nodes[0].id)
            inside = f"{plural(len(box.copy), 'kernel')}{' each' * (box.count > 1)}, double-click to open"
            if beside is not None and box.is_uncompiled:
                inside = f"{'by the host' if beside.on_host else 'not compiled'}  ·  {compact_shape(beside.shape)}"
            draw_text(painter, row, inside)
            return
        note = amount(group.bytes) if look.colour_by == "traffic" else group.bound
        width, shape = text_width(painter, note), compact_shape(group.shape)
        if text_width(painter, shape) + width + 22 <= track.left() - row.x():
            draw_text(painter, QRectF(track.left() - 8 - width, row.y(), width + 1, row.height()), note)
        draw_text(painter, QRectF(row.x(), row.y(), track.left() - 8 - row.x(), row.height()), shape)
        self._paint_cost(painter, track)

    def _paint_cost(self, painter: QPainter, track: QRectF) -> None:
        """The bar: the launch's part of the dearest one's time, or of the most bytes."""
        theme, look = self._look.theme, self._look
        group = look.group_of(self.placed)
        if group is None:
            return
        paint_track(painter, track, theme)
        by_bytes = look.colour_by == "traffic"
        part = group.bytes / look.heaviest if by_bytes else look.time_of(self.placed) / look.dearest
        colour = (
            theme.author(BOUND_COLOURS.get(group.bound, "user"))
            if look.colour_by == "bound"
            else theme.cost_colour(part)
        )
        paint_bar(painter, track, part, colour, theme, look.origin_of(self.placed))


class EdgeItem(QGraphicsItem):
    """An orthogonal arrow; one at the selected box is drawn in the accent and tells its size."""

    def __init__(self, line: EdgeLine, look: SceneState, touches: frozenset[str]) -> None:
        super().__init__()
        self._line = line
        self._look = look
        self._touches = touches
        self._path = rounded_path(line.points)
        self.setZValue(150)
        self.setToolTip(_edge_tip(line))

    def boundingRect(self) -> QRectF:
        """The path with room for the arrow head and the label."""
        return self._path.boundingRect().adjusted(-40, -12, 40, 12)

    def shape(self) -> QPainterPath:
        """Edges do not catch clicks meant for boxes."""
        return QPainterPath()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Paints the line, its head, and what it carries."""
        theme, points, line = self._look.theme, self._line.points, self._line
        asked = self._look.edge == (line.source, line.target)
        selected = asked or self._look.selected in self._touches
        pen = QPen(theme.colour("accent" if selected else "edge"), 2.6 if asked else 1.6 if selected else 1.2)
        if line.links:
            author, style, width = SCHEMES.get(line.links[0].scheme, ("user", Qt.PenStyle.SolidLine, 1.2))
            pen = QPen(theme.author(author), width + 1.2 * asked, style)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(self._path)
        if line.arrow and not self._is_packing:
            painter.setPen(QPen(pen.color(), min(pen.widthF(), 2.0)))
            tip, before = QPointF(*points[-1]), QPointF(*points[-2])
            angle = math.atan2(tip.y() - before.y(), tip.x() - before.x())
            wings = [tip - QPointF(math.cos(angle + turn) * 7, math.sin(angle + turn) * 7) for turn in (0.5, -0.5)]
            painter.drawPolyline(QPolygonF([wings[0], tip, wings[1]]))
        scale = option.levelOfDetailFromTransform(painter.worldTransform())
        if scale >= NEAR:
            self._paint_bytes(painter, selected)
        if line.is_fixed:
            paint_pin(painter, QPointF(points[-1][0], points[-1][1] - 4), theme, scale)

    @property
    def _is_packing(self) -> bool:
        return any(link.scheme == PACKING for link in self._line.links)

    def _paint_bytes(self, painter: QPainter, selected: bool) -> None:
        """The bytes that go through global memory, or inside a launch those that do not."""
        points, theme = self._line.points, self._look.theme
        if len(points) != 2:
            return
        at = QPointF(points[0][0], (points[0][1] + points[1][1]) / 2)
        painter.setFont(face(10.5))
        if self._line.links:
            saved = sum(link.bytes for link in self._line.links)
            text, token = (f"▼ {amount(saved)}", "better") if saved else ("one launch", "text-3")
            painter.setPen(theme.colour(token))
            draw_text(painter, QRectF(at.x() + 10, at.y() - 8.5, 92, 16), text)
            return
        text = amount(max((edge.bytes for edge in self._line.tensors), default=0))
        if selected:
            box = QRectF(at.x() + 10, at.y() - 8.5, text_width(painter, text) + 12, 17)
            paint_pill_in(painter, box, text, theme, outlined=True)
        else:
            painter.setPen(theme.colour("text-3"))
            draw_text(painter, QRectF(at.x() + 10, at.y() - 8.5, 92, 16), text)


def _text_size(scale: float, room: float) -> float:
    """Scene pixels of a title: 12, and more where the picture is small; steps of one, as each size is another font."""
    return min(max(12.0, round(LEGIBLE / scale)), math.floor(room * 0.8))


def _whole_title(box: GraphBox) -> str:
    """With how many copies it stands for."""
    return f"{box.title}  × {box.count:,}" if box.count > 1 else box.title


def _paint_title(painter: QPainter, row: QRectF, box: GraphBox, theme: Theme, font: QFont, room: float) -> None:
    """A title and, in grey, how many copies it stands for."""
    suffix = _whole_title(box).removeprefix(box.title)
    light = face(font.pixelSize())
    painter.setFont(light)
    beside = text_width(painter, suffix) + 1.0
    painter.setFont(font)
    painter.setPen(theme.colour("text"))
    width = min(text_width(painter, box.title) + 1.0, room - beside)
    draw_text(painter, QRectF(row.x(), row.y(), width, row.height()), box.title)
    if suffix:
        painter.setFont(light)
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(row.x() + width, row.y(), beside, row.height()), suffix)


def _tip(placed: PlacedBox, look: SceneState) -> str:
    if placed.box.operator:
        return f"{placed.box.operator}\nDrag it to another group, or out of this one"
    group = look.group_of(placed)
    if group is None:
        if placed.box.is_uncompiled:
            beside = look.beside[placed.box.nodes[0].id]
            return f"{beside.operator}, {'by the host' if beside.on_host else 'not compiled'}\n{beside.because}"
        inside = plural(len(placed.box.copy), "kernel")
        copies = f"{placed.box.count:,} equal copies of " if placed.box.count > 1 else ""
        return f"{placed.box.title}: {copies}{inside}"
    known = [times.get(group.name) for times in (look.predicted, look.measured)]
    told = [f"{duration(time.microseconds)} {origin_of(time)}" for time in known if time] or ["no time yet"]
    return "\n".join((group.title, group.shape, *told, f"{amount(group.bytes)}, {group.bound} bound"))


def _edge_tip(line: EdgeLine) -> str:
    return "\n".join(f"{edge.tensor}: {edge.shape}, {amount(edge.bytes)}\n{edge.because}" for edge in line.tensors[:4])
