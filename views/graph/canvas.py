"""The graph's picture: panned, zoomed, opened, pointed at, and what is dragged over it."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsView

from views.graph.handles import Handle, handle_of
from views.graph.items import FAR, BoxItem
from views.graph.note import DropNote
from views.graph.overlay import LEGEND, CostLegend, Minimap, SchemeLegend
from views.graph.scene import GraphScene
from views.theme import Theme
from views.themed import Themed

SMALLEST, LARGEST = 0.08, 3.0
REACH = 7.0
"""Pixels from an edge at which a click is meant for it."""
READABLE = 0.5
"""A model that would have to be smaller than this to fit starts at its top instead."""


class Canvas(QGraphicsView, Themed):
    """The pannable, zoomable picture with its overlays."""

    group_selected = Signal(str)
    uncompiled_selected = Signal(str)
    pointed = Signal(object)
    edge_selected = Signal(object)
    tried = Signal(object, object)
    dropped = Signal(object, object)

    def __init__(self, scene: GraphScene) -> None:
        super().__init__(scene)
        self._scene = scene
        self._grip: Handle | None = None
        """What was under the pointer when the button went down."""
        self._over: Handle | None = None
        self.is_dragging = False
        self._last = QPoint()
        self._fit_pending = False
        self._pressed = QPointF()
        self.setAccessibleName("Graph; the outline holds the same groups as a tree")
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.SmartViewportUpdate)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.minimap = Minimap(self, scene)
        self.minimap.moved.connect(self._go_to)
        self.legend = CostLegend(self, scene.look)
        self.schemes = SchemeLegend(self, scene)
        self.note = DropNote(self)  # beside the minimap, so that it can lie above it
        for axis in (self.horizontalScrollBar(), self.verticalScrollBar()):
            axis.valueChanged.connect(self._show_sight)
        scene.built.connect(self._on_built)

    def show_theme(self, theme: Theme) -> None:
        """Repaints the background."""
        self.setBackgroundBrush(theme.colour("panel"))
        self.minimap.update()
        self.legend.update()
        self.schemes.update()

    def fit_when_built(self) -> None:
        """Fits the next model once all of it stands."""
        self._fit_pending = True

    def fit_all(self) -> None:
        """Shows everything, however small."""
        self._fit(0.0)

    def fit_readable(self) -> None:
        """Shows everything, or the top of it where everything would be too small to read."""
        self._fit(READABLE)

    def _fit(self, least: float) -> None:
        rect, room = self._scene.sceneRect(), self.viewport().size()
        if rect.isEmpty() or not room.width():
            return
        across, down = room.width() / rect.width(), room.height() / rect.height()
        self.resetTransform()
        if min(across, down) < least:
            scale = min(least, max(across, FAR))
            self.scale(scale, scale)
            self.centerOn(rect.center().x(), rect.top() + room.height() / scale / 2)
        else:
            scale = min(across, down, 1.0)
            self.scale(scale, scale)
            self.centerOn(rect.center())
        self._show_sight()

    def reveal(self, group: str) -> None:
        """Brings a group into sight if none of its boxes is."""
        boxes = self._scene.boxes_of(group) if group else []
        sight = self._sight()
        if boxes and not any(sight.contains(box.sceneBoundingRect().center()) for box in boxes):
            self.centerOn(boxes[0])
            self._show_sight()

    def reveal_launch(self, node: str) -> None:
        """Opens the layers around a launch and moves it to the middle."""
        item = self._scene.item_of(self._scene.open_to(node))
        if item:
            self.centerOn(item)
            self._show_sight()

    def zoom(self, factor: float) -> None:
        """Zooms within readable limits."""
        scale = self.transform().m11() * factor
        if SMALLEST <= scale <= LARGEST:
            self.scale(factor, factor)
            self._show_sight()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zooms about the pointer."""
        self.zoom(1.0015 ** event.angleDelta().y())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Takes a launch or an operator in hand; elsewhere the picture itself."""
        self._pressed = event.position()
        item = self._box_at(event.position()) if event.button() == Qt.MouseButton.LeftButton else None
        self._grip = handle_of(item.placed.box) if item else None
        self.setDragMode(self.DragMode.NoDrag if self._grip else self.DragMode.ScrollHandDrag)
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drags what is in hand, and asks what dropping it here would do."""
        super().mouseMoveEvent(event)
        if self._grip is None or (not self.is_dragging and self._is_click(event)):
            return
        self._last = event.position().toPoint()
        key, over = self._scene.launch_at(self.mapToScene(self._last))
        if not self.is_dragging or over != self._over:
            self.is_dragging, self._over = True, over
            self._scene.aim(key, "not reached")
            self.tried.emit(self._grip, over)
        self.note.follow(self._last)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Drops what was dragged; else selects the box or the edge under the click."""
        super().mouseReleaseEvent(event)
        grip, over, dragged = self._grip, self._over, self.is_dragging
        self.end_drag()
        if dragged and grip is not None:
            self.dropped.emit(grip, over)
        elif event.button() == Qt.MouseButton.LeftButton and self._is_click(event):
            self._click(event.position())

    def end_drag(self) -> None:
        """Lets go of what is dragged without dropping it."""
        self._grip, self._over, self.is_dragging = None, None, False
        self._scene.aim("", "")
        self.note.hide()
        self.setDragMode(self.DragMode.ScrollHandDrag)

    def show_trial(self, title: str, sentence: str, outcome: str) -> None:
        """What dropping it where it is would do; only while something is dragged."""
        if self.is_dragging:
            self._scene.aim(self._scene.look.target[0], outcome)
            self.note.tell(title, sentence, outcome)
            self.note.follow(self._last)

    def _click(self, at: QPointF) -> None:
        item = self._box_at(at)
        handle = handle_of(item.placed.box) if item else None
        if item is not None and handle is not None:
            self.point_at(handle)
            self.group_selected.emit(item.placed.box.nodes[0].group)
            return
        if item is not None and item.placed.box.is_uncompiled:
            self.uncompiled_selected.emit(item.placed.box.nodes[0].id)
            return
        reach = REACH / self.transform().m11()
        line = None if item else self._scene.line_near(self.mapToScene(at.toPoint()), reach)
        if line is not None:
            self.edge_selected.emit(line)

    def point_at(self, handle: Handle) -> None:
        """Commands are about this launch or operator from now on."""
        self._scene.point_at(handle)
        self.pointed.emit(handle)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Opens or closes a layer, or the operators of a launch."""
        item = self._box_at(event.position())
        if item and not (item.placed.box.operator or item.placed.box.is_uncompiled):
            self.toggle(item.placed.box.key, event.position())

    def toggle(self, key: str, at: QPointF | None = None) -> None:
        """Opens or closes a layer and keeps the clicked point of it under the pointer."""
        before = self._scene.item_of(key)
        anchor = at or (QPointF(self.mapFromScene(before.scenePos())) if before else QPointF())
        self._scene.toggle(key)
        after = self._scene.item_of(key)
        if after:
            top = self.mapFromScene(after.scenePos() + QPointF(after.placed.width / 2, 12))
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + top.x() - int(anchor.x()))
            self.verticalScrollBar().setValue(self.verticalScrollBar().value() + top.y() - int(anchor.y()))
        self._show_sight()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """0 fits all, 1 is 100 %, F finds the selection, E opens or closes its layer, + and - zoom.

        Up and Down go from box to box, Return opens or closes a launch, Escape drops nothing.
        """
        actions = {
            Qt.Key.Key_0: self.fit_all,
            Qt.Key.Key_1: self.actual_size,
            Qt.Key.Key_F: lambda: self.centre_on(self._scene.look.selected),
            Qt.Key.Key_Plus: lambda: self.zoom(1.2),
            Qt.Key.Key_Minus: lambda: self.zoom(1 / 1.2),
            Qt.Key.Key_E: self._toggle_selected,
            Qt.Key.Key_Escape: self.end_drag,
            Qt.Key.Key_Down: lambda: self._step(1),
            Qt.Key.Key_Up: lambda: self._step(-1),
            Qt.Key.Key_Return: self._toggle_pointed,
        }
        action = actions.get(Qt.Key(event.key()))
        if action:
            action()
        else:
            super().keyPressEvent(event)

    def actual_size(self) -> None:
        """100 %."""
        self.zoom(1.0 / self.transform().m11())

    def centre_on(self, group: str) -> None:
        """Moves a group to the middle."""
        for box in self._scene.boxes_of(group)[:1]:
            self.centerOn(box)
            self._show_sight()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the overlays in their corners."""
        super().resizeEvent(event)
        size = self.viewport().size()
        below = self.viewport().geometry().bottom() + 1
        for number, legend in enumerate((self.legend, self.schemes)):
            legend.setGeometry(0, below + number * LEGEND, self.width(), LEGEND)
        self.minimap.move(size.width() - self.minimap.width() - 10, size.height() - self.minimap.height() - 10)
        if event.oldSize().width() != event.size().width():
            self.fit_readable()  # what grows or shrinks below it must not move what one looks at

    def toggle_operators(self) -> None:
        """Opens every launch that is drawn, or closes them all; what is in the middle stays about there."""
        middle = self._scene.look.cursor
        self._scene.toggle_operators()
        if middle is not None:
            self.centre_on(self._scene.look.selected)

    def _step(self, by: int) -> None:
        """Points at the next launch or operator in the order of the picture."""
        closed = [placed for placed in self._scene.drawing.placed if not placed.opened and handle_of(placed.box)]
        closed.sort(key=lambda placed: (placed.top, placed.left))
        handles = [handle_of(placed.box) for placed in closed]
        if not handles:
            return
        present = self._scene.look.cursor
        place = handles.index(present) + by if present in handles else 0
        chosen = closed[max(min(place, len(closed) - 1), 0)]
        handle = handle_of(chosen.box)
        assert handle is not None
        self.point_at(handle)
        self.group_selected.emit(chosen.box.nodes[0].group)
        item = self._scene.item_of(chosen.box.key)
        if item is not None:
            self.ensureVisible(item, 30, 30)

    def _toggle_pointed(self) -> None:
        """Opens the launch that is pointed at, or closes the one around the operator."""
        cursor = self._scene.look.cursor
        for placed in self._scene.drawing.placed:
            box = placed.box
            if cursor and not box.children and not box.operator and box.nodes[0].id == cursor.node:
                self.toggle(box.key)
                self.point_at(Handle(cursor.node))
                return

    def _toggle_selected(self) -> None:
        for placed in self._scene.drawing.placed:
            if placed.box.children and self._scene.look.selected in placed.box.groups:
                self.toggle(placed.box.key)
                return

    def _on_built(self) -> None:
        self.schemes.fit()
        # The legends have a place of their own below the picture, so that they cover no part of it.
        self.setViewportMargins(0, 0, 0, LEGEND * (1 + self.schemes.isVisibleTo(self)))
        if self._fit_pending:
            self._fit_pending = False
            self.fit_readable()
        self._show_sight()

    def _box_at(self, position: QPointF) -> BoxItem | None:
        item = self.itemAt(position.toPoint())
        return item if isinstance(item, BoxItem) else None

    def _is_click(self, event: QMouseEvent) -> bool:
        return (event.position() - self._pressed).manhattanLength() < 5

    def _go_to(self, point: QPointF) -> None:
        self.centerOn(point)
        self._show_sight()

    def _sight(self) -> QRectF:
        return self.mapToScene(self.viewport().rect()).boundingRect()

    def _show_sight(self) -> None:
        self.minimap.show_sight(self._sight())
