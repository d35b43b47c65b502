"""The graph panel: pan, zoom, open layers, select groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsView

from engine.documents import Time
from views.format import plural
from views.graph.items import BoxItem
from views.graph.overlay import Legend, Minimap
from views.graph.scene import GraphScene
from views.overview import Overview
from views.panel import Panel, bar, label
from views.theme import Theme

SMALLEST, LARGEST = 0.08, 3.0
ORIGINS = {
    "predicted": ("▭", "Hollow bars are predicted times"),
    "measured": ("▬", "Filled bars are measured times"),
    "synthetic": ("┅", "Dashed bars are made-up times"),
}
"""Origin -> its mark, and what the pointer is told."""
READABLE = 0.62
"""A model that would have to be smaller than this to fit starts at its top instead."""


class GraphView(Panel):
    """The fusion plan; `group_selected` carries the name of the clicked group."""

    group_selected = Signal(str)

    def __init__(self, theme: Theme) -> None:
        super().__init__("Graph")
        self.scene = GraphScene(theme)
        self.canvas = Canvas(self.scene)
        self.canvas.group_selected.connect(self.group_selected)
        self.fit_button = self.add_header_icon("fit", "Fit the whole graph (0)")
        self.fit_button.clicked.connect(self.canvas.fit_all)
        strip, layout = bar("subheader", 32)
        self.name = label("", "title")
        self.counts = label("", "chip")
        self.origin = label("▭ predicted", "outline-chip")
        layout.addWidget(self.name)
        layout.addWidget(self.counts)
        layout.addStretch(1)
        layout.addWidget(self.origin)
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(self.canvas, 1)
        self.show_empty("The graph of the opened model appears here")

    def show_model(self, overview: Overview) -> None:
        """Replaces the graph."""
        model = overview.model
        self.name.setText(model.name)
        launches = plural(len(model.nodes), "kernel")
        self.counts.setText(f"{plural(len(model.operators), 'operator')} → {launches}")
        self.show_body()
        self.canvas.fit_when_built()
        self.scene.show_model(overview)

    def show_selection(self, group: str) -> None:
        """Marks a group's boxes; scrolls only if none of them is in sight."""
        self.scene.look.selected = group
        self.scene.update()
        self.canvas.reveal(group)
        self.canvas.minimap.update()

    def show_found(self, groups: Collection[str]) -> None:
        """Dims everything but the groups that a search found; nothing found means no search."""
        self.scene.look.found = frozenset(groups)
        self.scene.update()

    def set_colour_by(self, what: str) -> None:
        """ "time", "measured", "traffic" or "bound"."""
        self.scene.look.show(what)
        self._show_origin()

    def show_times(
        self, predicted: Mapping[str, Time], predicted_where: str, measured: Mapping[str, Time], measured_where: str
    ) -> None:
        """Puts times on the nodes: those of the origin that is shown; `..._where` says where they come from."""
        look = self.scene.look
        look.predicted, look.predicted_where = predicted, predicted_where
        look.measured, look.measured_where = measured, measured_where
        look.show(look.colour_by)
        self._show_origin()

    def _show_origin(self) -> None:
        look = self.scene.look
        mark, tip = ORIGINS[look.origin]
        self.origin.setText(f"{mark} {look.origin}")
        self.origin.setToolTip(tip)
        self.scene.update()
        self.canvas.legend.fit()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        super().set_theme(theme)
        self.scene.look.theme = theme
        self.scene.update()
        self.canvas.set_theme(theme)


class Canvas(QGraphicsView):
    """The pannable, zoomable picture with its overlays."""

    group_selected = Signal(str)

    def __init__(self, scene: GraphScene) -> None:
        super().__init__(scene)
        self._scene = scene
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
        self.legend = Legend(self, scene.look)
        for axis in (self.horizontalScrollBar(), self.verticalScrollBar()):
            axis.valueChanged.connect(self._show_sight)
        scene.built.connect(self._on_built)

    def set_theme(self, theme: Theme) -> None:
        """Repaints the background."""
        self.setBackgroundBrush(theme.colour("panel"))
        self.minimap.update()
        self.legend.update()

    def fit_when_built(self) -> None:
        """Fits the next model once all of it stands."""
        self._fit_pending = True

    def fit_all(self) -> None:
        """Shows everything, or the top of it where everything would be too small to read."""
        rect = self._scene.sceneRect()
        if rect.isEmpty() or not self.viewport().width():
            return
        scale = min(self.viewport().width() / rect.width(), self.viewport().height() / rect.height(), 1.0)
        self.resetTransform()
        if scale < READABLE:
            scale = min(max(scale, READABLE), max(self.viewport().width() / rect.width(), 0.3))
            self.scale(scale, scale)
            self.centerOn(rect.center().x(), rect.top() + self.viewport().height() / scale / 2)
        else:
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

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Selects the box under a click that did not drag."""
        super().mouseReleaseEvent(event)
        item = self._box_at(event.position())
        if (
            item
            and event.button() == Qt.MouseButton.LeftButton
            and not item.placed.box.children
            and self._is_click(event)
        ):
            self.group_selected.emit(item.placed.box.nodes[0].group)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remembers where a click began."""
        self._pressed = event.position()
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Opens or closes a layer."""
        item = self._box_at(event.position())
        if item and item.placed.box.children:
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
        """0 fits all, 1 is 100 %, F finds the selection, E opens or closes its layer, + and - zoom."""
        actions = {
            Qt.Key.Key_0: self.fit_all,
            Qt.Key.Key_1: self.actual_size,
            Qt.Key.Key_F: lambda: self.centre_on(self._scene.look.selected),
            Qt.Key.Key_Plus: lambda: self.zoom(1.2),
            Qt.Key.Key_Minus: lambda: self.zoom(1 / 1.2),
            Qt.Key.Key_E: self._toggle_selected,
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
        self.legend.move(8, size.height() - self.legend.height() - 6)
        self.minimap.move(size.width() - self.minimap.width() - 10, size.height() - self.minimap.height() - 10)
        self.fit_all()

    def _toggle_selected(self) -> None:
        for placed in self._scene.drawing.placed:
            if placed.box.children and self._scene.look.selected in placed.box.groups:
                self.toggle(placed.box.key)
                return

    def _on_built(self) -> None:
        if self._fit_pending:
            self._fit_pending = False
            self.fit_all()
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
