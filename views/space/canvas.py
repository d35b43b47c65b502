"""The picture of an iteration space under pointer and keyboard: pick points, drag axes and the handles of tiles."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPointF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
)
from PySide6.QtWidgets import QMenu, QSizePolicy

from engine.documents.exploration import ArrowDoc, OrderDoc, SpaceDoc
from engine.documents.model import ProblemDoc
from views.format import plural
from views.picture import ResizedPicture
from views.space.geometry import ACROSS, DOWN, INTO, SpaceGeometry, named_arrow, plan
from views.space.painting import SpaceState, caption, paint_space
from views.space.trial import AxisDrag, paint_trial, verdict
from views.space.violation import ends
from views.theme import Theme
from views.themed import Themed
from views.themed_painter import ThemedPainter

Keys = Qt.Key
ARROWS = (Keys.Key_Left, Keys.Key_Right, Keys.Key_Up, Keys.Key_Down)
TILES = (1, 2, 4, 8, 16, 32, 64, 128)
"""What the menu of an axis offers."""
TOLD = 6
"""Violated dependences that the tool tip of a point spells out."""
CAPTION = 26
"""Height of the line that tells how time runs."""
HINTS = {
    None: "Left and Right step through the points in the order of execution, Return selects the statement",
    ACROSS: "Drag onto the other axis to interchange, drag the handle to tile. Keys: arrow tries the interchange, "
    "Shift+arrow another tile, Return applies, Esc drops it",
}
HINTS |= {DOWN: HINTS[ACROSS], INTO: HINTS[ACROSS]}


class SpaceCanvas(ResizedPicture, Themed):
    """Paints one iteration space; what is tried on it leaves as a `AxisDrag`, and again when it is let go."""

    statement_selected = Signal(str)
    laid_out = Signal(tuple)
    """How many values of each axis are drawn."""
    tried = Signal(object)
    dropped = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Iteration space")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.plan: SpaceGeometry | None = None
        self._doc: SpaceDoc | None = None
        self._selected: frozenset[str] = frozenset()
        self._point: int | None = None
        self._arrow: int | None = None
        self._part: int | None = None
        """The axis that has the keyboard; None for the points."""
        self.trial: AxisDrag | None = None
        self._answer: OrderDoc | ProblemDoc | None = None
        self._handle_held = False
        self._caption = ""
        self._kept: tuple[tuple[SpaceState, str, float], QPixmap] | None = None

    def show_space(self, doc: SpaceDoc) -> None:
        """Replaces the picture; what was in hand is dropped."""
        self._doc, self._caption = doc, caption(doc)
        self._point = self.trial = self._answer = None
        self._arrow = named_arrow(doc)
        self._part = self._part if self._part is not None and self._part < len(doc.axes) else None
        self._describe()
        self.lay_out()

    def show_selection(self, statements: Iterable[str]) -> None:
        """Colours the instances of statements."""
        self._selected = frozenset(statements)
        self.update()

    def show_answer(self, trial: AxisDrag, answer: OrderDoc | ProblemDoc | None) -> None:
        """What is known about a trial, if it is still the one in hand."""
        if self.trial is not None and _same(trial, self.trial):
            self._answer = answer
            self.setAccessibleDescription(f"{self.trial.title(self._shown)}. {verdict(self.trial, answer)[1]}")
            self.update()

    @property
    def _shown(self) -> SpaceDoc:
        assert self._doc is not None
        return self._doc

    def paintEvent(self, event: QPaintEvent) -> None:
        """The picture, and what is in hand over it."""
        if self.theme is None:
            return
        painter = ThemedPainter(self, self.theme)
        painter.qt.drawPixmap(0, 0, self._picture(self.theme))
        if self.plan is not None and self.trial is not None:
            paint_trial(painter, self.plan, self.trial, self._answer)

    def _picture(self, theme: Theme) -> QPixmap:
        """The space as it looks now.  A picture has some hundred marks: it is kept until something of it changes."""
        focus = self._part if self.hasFocus() else None
        look = SpaceState(self._selected, self._point, self._arrow, focus, self._caption)
        ratio = self.devicePixelRatio()
        key = look, theme.name, ratio
        if self._kept is None or self._kept[0] != key:
            made = QPixmap(self.size() * ratio)
            made.setDevicePixelRatio(ratio)
            made.fill(theme.colour("panel"))
            if self.plan is not None:
                with QPainter(made) as painter:
                    paint_space(ThemedPainter(painter, theme), self.plan, look)
            self._kept = key, made
        return self._kept[1]

    def focusNextPrevChild(self, forwards: bool) -> bool:
        """Tab goes from the points to each axis and then on."""
        parts = [None, *range(len(self._doc.axes))] if self._doc else [None]
        number = parts.index(self._part) + (1 if forwards else -1)
        if not 0 <= number < len(parts):
            return super().focusNextPrevChild(forwards)
        self._part = parts[number]
        self._let_go()
        self._describe()
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tab enters at the points, Shift+Tab at the last axis."""
        if event.reason() == Qt.FocusReason.TabFocusReason:
            self._part = None
        elif event.reason() == Qt.FocusReason.BacktabFocusReason and self._doc:
            self._part = len(self._doc.axes) - 1
        self._describe()
        super().focusInEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Takes hold of an axis or of a handle, or selects the statement of a point."""
        if self.plan is None or event.button() != Qt.MouseButton.LeftButton:
            return
        axis, handle = self.plan.label_at(event.position()), self.plan.handle_at(event.position())
        if axis is not None or handle is not None:
            self._part = axis if axis is not None else handle
            self._hold(AxisDrag(self._part or 0, at=event.position()))
            self._handle_held = axis is None
            return
        point = self.plan.point_at(event.position())
        self._part = None
        self.statement_selected.emit(self._shown.points[point].statement if point is not None else "")
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drags what is held, else names what the pointer is over."""
        if self.plan is None:
            return
        if self.trial is not None and event.buttons() & Qt.MouseButton.LeftButton:
            self._drag(event.position())
            return
        point = self.plan.point_at(event.position())
        over = self.plan.label_at(event.position()) is not None or self.plan.handle_at(event.position()) is not None
        shape = Qt.CursorShape.OpenHandCursor if over else Qt.CursorShape.ArrowCursor
        self.setCursor(Qt.CursorShape.PointingHandCursor if point is not None else shape)
        if point != self._point:
            self._point = point
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Asks for what was dragged somewhere; a click takes the keyboard to the axis."""
        trial = self.trial
        self._let_go()
        if trial is not None and trial.is_change and trial.at is not None:
            self.dropped.emit(trial)

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is pointed at any more."""
        self._point = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Steps through points, or tries and applies a change of the axis that has the keyboard."""
        if self._doc is None:
            super().keyPressEvent(event)
            return
        key, axis = event.key(), self._part
        if key == Keys.Key_Escape and self.trial is not None:
            self._let_go()
        elif key in (Keys.Key_Return, Keys.Key_Enter):
            self._accept()
        elif axis is None and key in (*ARROWS, Keys.Key_Home, Keys.Key_End):
            self._step(key)
        elif axis is not None and key in ARROWS and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._resize_tile(axis, key in (Keys.Key_Right, Keys.Key_Down))
        elif axis is not None and key in ARROWS:
            self._exchange(axis)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What an axis can do, as a menu."""
        if self.plan is None:
            return
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        axis = self._part if by_key else self.plan.label_at(QPointF(event.pos()))
        if axis is None:
            return
        at = self.mapToGlobal(self.plan.label_box(axis).center().toPoint()) if by_key else event.globalPos()
        self.axis_menu(axis).popup(at)

    def axis_menu(self, axis: int) -> QMenu:
        """Interchanges and tiles of an axis."""
        doc, menu = self._shown, QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for other in range(len(doc.axes)):
            if other != axis:
                trial = AxisDrag(axis, target=other)
                menu.addAction(trial.title(doc)).triggered.connect(lambda _=False, each=trial: self.dropped.emit(each))
        if axis < INTO:
            tiles = menu.addMenu(f"Tile of {doc.axes[axis].name}")
            for size in (size for size in TILES if size <= doc.axes[axis].extent):
                trial = AxisDrag(axis, tile=size)
                action = tiles.addAction(str(size) if size > 1 else "none")
                action.setCheckable(True)
                action.setChecked(size == doc.axes[axis].tile)
                action.triggered.connect(lambda _=False, each=trial: self.dropped.emit(each))
        return menu

    def lay_out(self) -> None:
        """Lays the picture out, and says how many values of each axis it has room for."""
        self.plan = plan(self._doc, QSizeF(self.size())) if self._doc is not None else None
        self._kept = None
        if self.plan is not None:
            self.laid_out.emit(self.plan.shown)
        self.update()

    def _hold(self, trial: AxisDrag) -> None:
        if self.trial is None or not _same(trial, self.trial):
            self._answer = None
            self.trial = trial
            if trial.is_change:
                self.tried.emit(trial)
        self.trial = trial
        self.update()

    def _let_go(self) -> None:
        self.trial = self._answer = None
        self.unsetCursor()
        self.update()

    def _drag(self, position: QPointF) -> None:
        assert self.plan is not None and self.trial is not None
        self.setCursor(Qt.CursorShape.ClosedHandCursor)
        axis = self.trial.axis
        if self._handle_held:
            tile = self.plan.tile_at(axis, position)
            self._hold(AxisDrag(axis, None, 0 if tile == self._shown.axes[axis].tile else tile, position))
            return
        target = self.plan.label_at(position)
        self._hold(AxisDrag(axis, None if target == axis else target, 0, position))

    def _accept(self) -> None:
        if self.trial is not None and self.trial.is_change:
            trial = self.trial
            self._let_go()
            self.dropped.emit(trial)
        elif self._part is None and self._point is not None:
            self.statement_selected.emit(self._shown.points[self._point].statement)

    def _step(self, key: int) -> None:
        """The next or previous point in the order of execution; Up and Down stay with the statement."""
        points = self._shown.points
        order = sorted(self.plan.drawn if self.plan else (), key=lambda k: (points[k].rank, k))
        if key in (Keys.Key_Up, Keys.Key_Down) and self._point is not None:
            statement = points[self._point].statement
            order = [k for k in order if points[k].statement == statement]
        if not order:
            return
        forwards = key in (Keys.Key_Right, Keys.Key_Down)
        if key in (Keys.Key_Home, Keys.Key_End) or self._point not in order:
            place = len(order) - 1 if key == Keys.Key_End else 0
        else:
            place = min(max(order.index(self._point) + (1 if forwards else -1), 0), len(order) - 1)
        self._point = order[place]
        broken = self._broken_at(self._point)
        told = f", {plural(len(broken), 'violated dependence')}" if broken else ""
        self.setAccessibleDescription(f"{points[self._point].text}, {place + 1} of {len(order)}{told}")
        self.update()

    def _exchange(self, axis: int) -> None:
        """The interchange with the next axis; a second press takes the one after it."""
        count = len(self._shown.axes)
        if count < 2:
            return
        held = self.trial.target if self.trial is not None and self.trial.target is not None else axis
        target = (held + 1) % count
        self._hold(AxisDrag(axis, target=target if target != axis else (target + 1) % count))

    def _resize_tile(self, axis: int, larger: bool) -> None:
        """The next power of two above or below the tile in hand."""
        doc = self._shown.axes[axis]
        tile = self.trial.tile if self.trial is not None and self.trial.tile else doc.tile
        sizes = [size for size in TILES if size <= doc.extent]
        wanted = [size for size in sizes if (size > tile if larger else size < tile)]
        if wanted and axis < INTO:
            self._hold(AxisDrag(axis, tile=wanted[0] if larger else wanted[-1]))

    def tip_at(self, position: QPointF) -> str:
        """The instance under the pointer, or what an axis can do."""
        if self.plan is None:
            return ""
        point = self.plan.point_at(position)
        if point is not None:
            return self._tip_of_point(point)
        if position.y() < CAPTION:
            return self._caption
        axis = self.plan.label_at(position)
        handle = self.plan.handle_at(position)
        if handle is not None and axis is None:
            doc = self._shown.axes[handle]
            return f"Tile of {doc.name}: {doc.tile_because or 'none'}. Drag to change it; Shift+arrow by keyboard"
        return HINTS[axis] if axis is not None else ""

    def _tip_of_point(self, index: int) -> str:
        doc = self._shown
        lines = [f"{doc.points[index].text}, number {doc.points[index].rank + 1} in the order of execution"]
        broken = self._broken_at(index)
        lines += ["; ".join(ends(doc, arrow)) for arrow in broken[:TOLD]]
        if len(broken) > TOLD:
            lines.append(f"and {len(broken) - TOLD} more that this order violates")
        return "\n".join(lines)

    def _broken_at(self, index: int) -> list[ArrowDoc]:
        """The violated dependences of a point."""
        return [arrow for arrow in self._shown.arrows if arrow.violated and index in (arrow.source, arrow.sink)]

    def _describe(self) -> None:
        """Says which part has the keyboard and what its keys do."""
        hint = HINTS.get(self._part, "")
        name = f"Axis {self._shown.axes[self._part].name}. " if self._doc and self._part is not None else ""
        self.setAccessibleDescription(name + hint)
        self.update()


def _same(a: AxisDrag, b: AxisDrag) -> bool:
    """Whether two trials ask for the same, wherever the pointer is."""
    return (a.axis, a.target, a.tile) == (b.axis, b.target, b.tile)
