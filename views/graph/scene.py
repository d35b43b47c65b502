"""The graph's scene: built piece by piece, so that a large model never stops the window."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, QTimer, Signal
from PySide6.QtWidgets import QGraphicsItem, QGraphicsScene

from views.graph.drawing import Drawing, EdgeLine, GraphDrawing, keys_to_reopen, visible_box
from views.graph.handles import Handle, handle_of
from views.graph.items import BoxItem, EdgeItem
from views.graph.look import SceneState
from views.graph.polylines import distance
from views.hierarchy import groups_by_name
from views.overview import Overview
from views.theme import Theme

PIECE = 120
"""Items added between two turns of the event loop."""
BORDER = 16.0
"""Room around the drawing."""


class GraphScene(QGraphicsScene):
    """Boxes and edges of one model; `built` follows when everything stands."""

    built = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.look = SceneState(theme)
        self.drawing = Drawing((), (), (0.0, 0.0, 0.0, 0.0))
        self.opened: frozenset[str] = frozenset()
        self._plan: GraphDrawing | None = None
        self._waiting: list[QGraphicsItem] = []
        self._boxes: dict[str, BoxItem] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(0)  # a piece whenever the event loop has nothing else to do
        self._timer.timeout.connect(self._add_piece)

    def show_model(self, overview: Overview, keep: bool = False) -> None:
        """Replaces everything; with `keep` what was open stays open, as far as it is still there."""
        model = overview.model
        before = [placed.box for placed in self.drawing.placed if placed.opened] if keep else []
        self._plan = overview.plan
        self.look.groups = groups_by_name(model)
        self.look.beside = overview.beside
        self.look.predicted = {group.name: group.time for group in model.groups if group.time}
        self.look.measured = {}
        self.look.show(self.look.colour_by)
        self.look.heaviest = max((group.bytes for group in model.groups), default=1) or 1
        self.opened = keys_to_reopen(before, overview.plan.top) if keep else overview.opened
        self._build(overview.plan.draw(self.opened) if keep else overview.drawing)

    def toggle(self, key: str) -> None:
        """Opens or closes a layer."""
        self.show_open(self.opened ^ {key})

    def show_open(self, opened: frozenset[str]) -> None:
        """Draws anew with these layers open."""
        assert self._plan is not None
        self.opened = opened
        self._build(self._plan.draw(opened))

    def open_to(self, node: str) -> str:
        """Opens the boxes around a launch; the key of its box, "" where it is in no box that is drawn."""
        assert self._plan is not None
        path = self._plan.path_to(node)
        if not self.opened.issuperset(path[:-1]):
            self.show_open(self.opened | frozenset(path[:-1]))
        return path[-1] if path else ""

    def toggle_operators(self) -> None:
        """Opens every launch that is drawn, or closes them all where one is open."""
        boxes = [each.box for each in self.drawing.placed]
        launches = {box.key for box in boxes if not (box.children or box.operator or box.is_uncompiled)}
        opened = launches & self.opened
        self.show_open(self.opened - opened if opened else self.opened | launches)

    def point_at(self, handle: Handle | None) -> None:
        """Marks a launch or an operator as the one that commands are about."""
        self.look.cursor = handle
        self.update()

    def aim(self, key: str, outcome: str) -> None:
        """Outlines the box that something is dragged over by what dropping it there would do."""
        self.look.target = (key, outcome)
        self.update()

    def mark_edge(self, line: EdgeLine | None) -> None:
        """Marks an edge as the one that the card describes."""
        self.look.edge = (line.source, line.target) if line else ("", "")
        self.update()

    def lines_at(self, handle: Handle) -> list[EdgeLine]:
        """The drawn edges of a launch or an operator, those that enter first."""
        keys = {placed.box.key for placed in self.drawing.placed if handle_of(placed.box) == handle}
        entering = [line for line in self.drawing.lines if line.target in keys]
        return entering + [line for line in self.drawing.lines if line.source in keys and line.target not in keys]

    def launch_at(self, point: QPointF) -> tuple[str, Handle | None]:
        """The launch whose box or hull a point is in, with the key of that box; None outside of all and in layers."""
        for placed in reversed(self.drawing.placed):
            box, rect = placed.box, QRectF(placed.left, placed.top, placed.width, placed.height)
            if not box.operator and rect.contains(point):
                return ("", None) if handle_of(box) is None else (box.key, Handle(box.nodes[0].id))
        return "", None

    def line_near(self, point: QPointF, reach: float) -> EdgeLine | None:
        """The edge within `reach` of a point, the nearest where there are several."""
        near = [(distance(line.points, point), number) for number, line in enumerate(self.drawing.lines)]
        closest, number = min(near, default=(reach, 0))
        return self.drawing.lines[number] if closest < reach else None

    def item_of(self, key: str) -> BoxItem | None:
        """The drawn box with a key."""
        return self._boxes.get(key)

    def boxes_of(self, group: str) -> list[BoxItem]:
        """The drawn boxes of a group, or those that hide it."""
        placed = visible_box(self.drawing, lambda box: group in box.groups)
        return [self._boxes[each.box.key] for each in placed if each.box.key in self._boxes]

    @property
    def is_building(self) -> bool:
        """Whether items are still to come."""
        return self._timer.isActive()

    def _build(self, drawing: Drawing) -> None:
        self.drawing = drawing
        fixed = [line for line in drawing.lines if line.is_fixed]
        self.look.pinned = frozenset(key for line in fixed for key in (line.source, line.target))
        self.clear()
        self._boxes = {placed.box.key: BoxItem(placed, self.look) for placed in self.drawing.placed}
        edges = [EdgeItem(line, self.look, self._groups_at(line)) for line in self.drawing.lines]
        self._waiting = [*reversed(edges), *reversed(list(self._boxes.values()))]
        left, top, right, bottom = self.drawing.extent
        width, height = right - left + 2 * BORDER, bottom - top + 2 * BORDER
        self.setSceneRect(QRectF(left - BORDER, top - BORDER, width, height))
        self._add_piece()
        if self._waiting:
            self._timer.start()

    def _add_piece(self) -> None:
        for item in self._take_items(PIECE):
            self.addItem(item)
        if not self._waiting:
            self._timer.stop()
            self.built.emit()

    def _take_items(self, count: int) -> Iterable[QGraphicsItem]:
        while self._waiting and count:
            count -= 1
            yield self._waiting.pop()

    def _groups_at(self, line: EdgeLine) -> frozenset[str]:
        """Groups whose selection lights the edge up: those of its ends that are drawn as single launches."""
        ends = [self._boxes[key].placed.box for key in (line.source, line.target) if key in self._boxes]
        return frozenset(box.nodes[0].group for box in ends if handle_of(box) is not None and not box.operator)
