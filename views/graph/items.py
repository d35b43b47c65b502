"""Items of the graph's scene: boxes and edges that paint themselves from one shared state."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from views.format import amount, compact_shape, duration, origin_of
from views.graph.badges import CHANGES, change_of, paint_change, paint_pin
from views.graph.drawing import HEADER, EdgeLine, PlacedBox
from views.graph.look import SceneState
from views.graph.polylines import RADIUS, rounded_path
from views.shapes import paint_bar, paint_pill_in, paint_track
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter

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
        themed, placed = ThemedPainter(painter, self._look.theme), self.placed
        self._outline(themed)
        if self._look.is_pinned(placed):
            paint_pin(themed, QPointF(placed.width, 0), scale)
        if scale < FAR:
            return
        width, height = placed.width, placed.height
        if placed.opened:
            self._title(themed, QRectF(12, 0, width - 24, HEADER), _text_size(scale, HEADER))
        elif placed.box.operator:
            self._operator_text(themed, _text_size(scale, height), scale >= NEAR)
        elif scale >= NEAR:
            self._title(themed, QRectF(12, 4, width - 24, 19), _text_size(scale, 19))
            self._second_line(themed, QRectF(12, 23, width - 24, 16))
        else:
            self._title(themed, QRectF(8, 0, width - 16, height - 8), _text_size(scale, height - 8), is_small=True)
            self._paint_cost(themed, QRectF(8, height - 9, width - 16, 5))

    def _outline(self, painter: ThemedPainter) -> None:
        theme, placed, look = self._look.theme, self.placed, self._look
        box, is_selected = QRectF(0, 0, placed.width, placed.height), look.is_selected(placed)
        if placed.box.count > 1:
            for shift in (8.0, 4.0):
                painter.ink("line", "panel").drawRoundedRect(box.translated(shift, -shift), RADIUS, RADIUS)
        pen = QPen(theme.colour("accent" if is_selected else "edge"), 1.6 if is_selected else 1.0)
        if self._hovered:
            pen.setColor(theme.colour("text-3"))
        if placed.box.is_uncompiled:
            pen.setDashPattern([3, 3])
        change = change_of(look.changes, placed.box)
        if change:
            pen = QPen(theme.author(CHANGES[change][0]), 1.8)
        if look.target[0] == placed.box.key:
            pen = QPen(theme.colour(TARGETS[look.target[1]]), 2.4)
        hull = placed.opened and not placed.box.children
        surface = "raised" if hull else "panel" if placed.opened else "accent-bg" if is_selected else "chrome"
        radius = HULL_RADIUS if hull else RADIUS
        painter.ink(pen, surface).drawRoundedRect(box, radius, radius)
        if change:
            paint_change(painter, QPointF(0, 0), change)

    def _title(self, painter: ThemedPainter, row: QRectF, size: float, is_small: bool = False) -> None:
        """The title, in grey how many copies it stands for, and at the right the time; of a small box the time stands
        there only where it leaves the title half of the row: the dearest kernels have the longest titles."""
        placed, look, box = self.placed, self._look, self.placed.box
        suffix = f"  × {box.count:,}" if box.count > 1 else ""
        time, tint, font = look.time_of(placed), "text", semibold(size)
        text = duration(time) if time else UNKNOWN * (look.shows_measured and not box.is_uncompiled)
        if placed.opened:
            text = f"{duration(time)}{' each' * (box.count > 1)}" if time else UNKNOWN
            tint, font = "text-2", face(size - 1)
        taken, whole = painter.width(text, font) + 10, painter.width(box.title + suffix, font)
        if is_small and min(whole, row.width() / 2) + taken > row.width():
            text = ""
        row = row.adjusted(0, 0, -painter.text(row, text, tint, font, RIGHT) - 10 * bool(text), 0)
        is_strong = placed.opened or look.is_selected(placed)
        room = row.adjusted(0, 0, -painter.width(suffix, face(size)), 0)
        used = painter.text(room, box.title, font=semibold(size) if is_strong else face(size, QFont.Weight.Medium))
        painter.text(row.adjusted(used + 1, 0, 1, 0), suffix, "text-3", face(size))

    def _operator_text(self, painter: ThemedPainter, size: float, whole: bool) -> None:
        """The operator's type and, in grey, its name."""
        row, box = QRectF(10, 0, self.placed.width - 20, self.placed.height), self.placed.box
        rest = row.adjusted(painter.text(row, box.title, font=face(size, QFont.Weight.Medium)) + 10, 0, 0, 0)
        if whole and rest.width() > 24:
            painter.text(rest, box.operator.rstrip("/").rpartition("/")[2], "text-3", face(10.5), RIGHT)

    def _second_line(self, painter: ThemedPainter, row: QRectF) -> None:
        look, box, group = self._look, self.placed.box, self._look.group_of(self.placed)
        if group is None:
            beside = look.beside.get(box.nodes[0].id) if box.is_uncompiled else None
            inside = f"{box.contents}{' each' * (box.count > 1)}, double-click to open"
            if beside is not None:
                inside = f"{beside.state}  ·  {compact_shape(beside.shape)}"
            painter.text(row, inside, "text-3", face(10.5))
            return
        bar = 48.0 if self.placed.width > 200 else 32.0
        self._paint_cost(painter, QRectF(row.right() - bar, row.center().y() - 3.5, bar, 7))
        row, note = row.adjusted(0, 0, -bar - 8, 0), amount(group.bytes) if look.colour_by == "traffic" else group.bound
        used = painter.text(row, compact_shape(group.shape), "text-3", face(10.5))
        if used + painter.width(note, face(10.5)) + 14 <= row.width():
            painter.text(row, note, "text-3", face(10.5), RIGHT)

    def _paint_cost(self, painter: ThemedPainter, track: QRectF) -> None:
        """The bar: the launch's part of the dearest one's time, or of the most bytes."""
        theme, look, group = self._look.theme, self._look, self._look.group_of(self.placed)
        if group is None:
            return
        paint_track(painter, track)
        by_bytes, bound = look.colour_by == "traffic", BOUND_COLOURS.get(group.bound, "user")
        part = group.bytes / look.heaviest if by_bytes else look.time_of(self.placed) / look.dearest
        colour = theme.author(bound) if look.colour_by == "bound" else theme.cost_colour(part)
        paint_bar(painter, track, part, colour, look.origin_of(self.placed))


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
        themed, scale = ThemedPainter(painter, theme), option.levelOfDetailFromTransform(painter.worldTransform())
        asked = self._look.edge == (line.source, line.target)
        selected = asked or self._look.selected in self._touches
        pen = QPen(theme.colour("accent" if selected else "edge"), 2.6 if asked else 1.6 if selected else 1.2)
        if line.links:
            author, style, width = SCHEMES.get(line.links[0].scheme, ("user", Qt.PenStyle.SolidLine, 1.2))
            pen = QPen(theme.author(author), width + 1.2 * asked, style)
        themed.ink(pen).drawPath(self._path)
        if line.arrow and not any(link.scheme == PACKING for link in line.links):
            tip, before = QPointF(*points[-1]), QPointF(*points[-2])
            angle = math.atan2(tip.y() - before.y(), tip.x() - before.x())
            wings = [tip - QPointF(math.cos(angle + turn) * 7, math.sin(angle + turn) * 7) for turn in (0.5, -0.5)]
            head = QPen(pen.color(), min(pen.widthF(), 2.0))
            themed.ink(head).drawPolyline(QPolygonF([wings[0], tip, wings[1]]))
        if scale >= NEAR and len(points) == 2:
            self._paint_bytes(themed, selected)
        if line.is_fixed:
            paint_pin(themed, QPointF(points[-1][0], points[-1][1] - 4), scale)

    def _paint_bytes(self, painter: ThemedPainter, selected: bool) -> None:
        """The bytes that go through global memory, or inside a launch those that do not."""
        (x, top), (_, bottom) = self._line.points
        box = QRectF(x + 10, (top + bottom) / 2 - 8.5, 92, 17)
        if self._line.links:
            saved = sum(link.bytes for link in self._line.links)
            text, token = (f"▼ {amount(saved)}", "better") if saved else ("one launch", "text-3")
            painter.text(box, text, token, face(10.5))
            return
        text = amount(max((edge.bytes for edge in self._line.tensors), default=0))
        if selected:
            box.setWidth(painter.width(text, face(10.5)) + 12)
            paint_pill_in(painter, box, text, outlined=True)
        else:
            painter.text(box, text, "text-3", face(10.5))


def _text_size(scale: float, room: float) -> float:
    """Scene pixels of a title: 12, and more where the picture is small; steps of one, as each size is another font."""
    return min(max(12.0, round(LEGIBLE / scale)), math.floor(room * 0.8))


def _tip(placed: PlacedBox, look: SceneState) -> str:
    if placed.box.operator:
        return f"{placed.box.operator}\nDrag it to another group, or out of this one"
    group = look.group_of(placed)
    if group is None:
        if placed.box.is_uncompiled:
            beside = look.beside[placed.box.nodes[0].id]
            return f"{beside.operator}, {beside.state}\n{beside.because}"
        inside = placed.box.contents
        copies = f"{placed.box.count:,} equal copies of " if placed.box.count > 1 else ""
        return f"{placed.box.title}: {copies}{inside}"
    known = [times.get(group.name) for times in (look.predicted, look.measured)]
    told = [f"{duration(time.microseconds)} {origin_of(time)}" for time in known if time] or ["no time yet"]
    return "\n".join((group.title, group.shape, *told, f"{amount(group.bytes)}, {group.bound} bound"))


def _edge_tip(line: EdgeLine) -> str:
    return "\n".join(f"{edge.tensor}: {edge.shape}, {amount(edge.bytes)}\n{edge.because}" for edge in line.tensors[:4])
