"""The constraint tree under pointer and keyboard: switch entries, follow repairs, drag alternatives, copy and paste."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPaintEvent,
)
from PySide6.QtWidgets import QApplication, QMenu

from engine.documents.model import EntryDoc, RepairDoc, ScenarioDoc
from views.constraints.painting import BOX_ROOM, PADDING, REFUSAL_LEFT, box_left, link_boxes, paint_constraint
from views.constraints.rows import DISABLE, RELAX, SHOW, Links, Offer, scenario_key
from views.rows import Index, RowState, RowView, TreeRow
from views.theme import face
from views.themed_painter import ThemedPainter

STAGES = (1, 2, 3, 4, 5, 6)
"""Of copies into shared memory, as many as kernels take."""
Keys = Qt.Key
GO = (Keys.Key_Return, Keys.Key_Enter, Keys.Key_Space)


def is_opened(row: TreeRow) -> bool:
    """Alternatives that were not reached start closed."""
    return not (isinstance(row.value, ScenarioDoc) and row.value.outcome == "not reached")


class ConstraintTreeView(RowView):
    """Entries with their verdicts; what is wished leaves as a signal and comes back as new rows."""

    enabled_requested = Signal(object, bool)
    required_requested = Signal(object, bool)
    removal_requested = Signal(object)
    stages_requested = Signal(object, int)
    repair_requested = Signal(RepairDoc)
    instances_requested = Signal(object)
    scenario_moved = Signal(tuple, int)
    """Path of an alternative, and its new place among its neighbours."""
    copy_requested = Signal(object)
    """The value of the row whose text is wanted."""
    pasted = Signal(str)
    menu_requested = Signal()
    text_requested = Signal(EntryDoc)
    """The entry whose line of the text is wanted."""

    def __init__(self) -> None:
        super().__init__("Constraint tree", paint_constraint, 6)
        self.setToolTip(
            "Return edits an entry, Space switches it, Delete removes it; Alt+Up and Alt+Down move an alternative"
        )
        self.row_activated.connect(self._activate)
        self._link = 0
        self._pressed: tuple[QPointF, ScenarioDoc] | None = None
        self._place: int | None = None
        """Where the alternative in hand would go."""
        self._follow = ""
        """Key of the row that takes the keyboard when the rows come back."""

    def show_rows(self, rows: Iterable[TreeRow], opened: Callable[[TreeRow], bool] = is_opened) -> None:
        """Replaces the rows; alternatives that were not reached start closed, the keyboard follows one that moved.

        Where the entry with the keyboard is gone, the one in its place has it: another row's would be switched or
        removed by the next key.
        """
        left = self.rows.row_at(self.currentIndex()) if self.currentIndex().isValid() else None
        super().show_rows(rows, opened)
        index = self.rows.index_of(self._follow)
        self._follow = ""
        if left is not None and _is_entry(left) and not index.isValid() and not self.currentIndex().isValid():
            index = self.rows.index_of(self._key_in_place_of(left.value))
        self._take_keyboard(index)
        self._show_refusal()

    def state_of(self, index: Index, box: QRectF) -> RowState:
        """Tells also which of several links has the keyboard."""
        return replace(super().state_of(index, box), part=self._link)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Switches an entry at its box, takes hold of an alternative, selects elsewhere."""
        row = self._row_at(event.position())
        if row and _is_entry(row) and self._on_box(event.position()):
            self._take_keyboard(self.rows.index_of(row.key))
            self._switch(row)
            return
        if row and _is_scenario(row) and event.button() == Qt.MouseButton.LeftButton:
            assert isinstance(row.value, ScenarioDoc)
            self._pressed = (event.position(), row.value)
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drags an alternative among its neighbours; a hand over what can be clicked."""
        if self._pressed is not None and event.buttons() & Qt.MouseButton.LeftButton:
            start, scenario = self._pressed
            far = (event.position() - start).manhattanLength() > QApplication.startDragDistance()
            if far or self._place is not None:
                self._place = self._place_at(scenario, event.position())
                self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
                self.viewport().update()
            return
        super().mouseMoveEvent(event)
        over = self._link_at(event.position()) is not None
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Lets an alternative go, or follows a link when the button goes up on its text."""
        held, place = self._pressed, self._place
        self._pressed = self._place = None
        if held is not None and place is not None:
            self.viewport().unsetCursor()
            self._move(held[1], place)
            return
        super().mouseReleaseEvent(event)
        found = self._link_at(event.position())
        pressed = self.indexAt(event.position().toPoint()) == self.currentIndex()
        if found is not None and pressed and event.button() == Qt.MouseButton.LeftButton:
            self._go(*found)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A line where the alternative in hand would go."""
        super().paintEvent(event)
        if self._pressed is None or self._place is None or self.theme is None:
            return
        boxes = self._boxes(self._pressed[1])
        own = self._pressed[1].path[-1]
        box = boxes[self._place]
        top = box.bottom() + 1 if self._place > own else box.top()
        painter = ThemedPainter(self.viewport(), self.theme)
        painter.line((12, top), (self.viewport().width() - 12, top), "accent", 2)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space switches, Return follows a link, Delete removes, Alt+Up and Alt+Down move, Ctrl+C and Ctrl+V."""
        index = self.currentIndex()
        row = self.rows.row_at(index) if index.isValid() else None
        key, alt = event.key(), event.modifiers() & Qt.KeyboardModifier.AltModifier
        if event.matches(QKeySequence.StandardKey.Paste):
            self.paste()
        elif key == Keys.Key_Insert:
            self.menu_requested.emit()
        elif row is None:
            super().keyPressEvent(event)
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.copy_requested.emit(row.value)
        elif alt and key in (Keys.Key_Up, Keys.Key_Down):
            self._move_current(row, -1 if key == Keys.Key_Up else 1)
        elif key == Keys.Key_Space and _is_entry(row):
            self._switch(row)
        elif key == Keys.Key_Delete and _is_entry(row):
            self.removal_requested.emit(row.value)
        elif isinstance(row.value, Links) and key in (Keys.Key_Left, Keys.Key_Right):
            self._link = (self._link + (1 if key == Keys.Key_Right else -1)) % len(row.value.repairs)
            self.viewport().update()
        elif key in GO and isinstance(row.value, Links | Offer):
            self._go(row, self._link)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What can be done with the entry or the alternative."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        row = self.rows.row_at(index) if index.isValid() else None
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if row is not None and isinstance(row.value, EntryDoc):
            self._fill_entry_menu(menu, row, row.value)
        elif row is not None and _is_scenario(row):
            menu.addAction("Try Earlier\tAlt+Up").triggered.connect(lambda: self._move_current(row, -1))
            menu.addAction("Try Later\tAlt+Down").triggered.connect(lambda: self._move_current(row, 1))
            menu.addAction("Copy as Text\tCtrl+C").triggered.connect(lambda: self.copy_requested.emit(row.value))
        menu.addAction("Paste Entries\tCtrl+V").triggered.connect(self.paste)
        menu.popup(event.globalPos())

    def paste(self) -> None:
        """Adds what the clipboard holds as entries."""
        text = QGuiApplication.clipboard().text()
        if text.strip():
            self.pasted.emit(text)

    def _fill_entry_menu(self, menu: QMenu, row: TreeRow, entry: EntryDoc) -> None:
        menu.addAction("Edit as Text\tReturn").triggered.connect(lambda: self.text_requested.emit(entry))
        menu.addAction("Disable\tSpace" if entry.enabled else "Enable\tSpace").triggered.connect(
            lambda: self._switch(row)
        )
        menu.addAction("Make Optional" if entry.required else "Make Required").triggered.connect(
            lambda: self.required_requested.emit(entry, not entry.required)
        )
        menu.addAction("Remove\tDel").triggered.connect(lambda: self.removal_requested.emit(entry))
        stages = menu.addMenu(f"Stages of {entry.dimension or 'its dimension'}")
        for count in STAGES:
            stages.addAction(str(count)).triggered.connect(
                lambda _=False, n=count: self.stages_requested.emit(entry, n)
            )
        menu.addSeparator()
        menu.addAction("Copy as Text\tCtrl+C").triggered.connect(lambda: self.copy_requested.emit(entry))

    def _activate(self, row: TreeRow) -> None:
        if isinstance(row.value, EntryDoc):
            self.text_requested.emit(row.value)

    def _take_keyboard(self, index: Index) -> None:
        """Moves the keyboard to a row, if there is one, and selects nothing elsewhere."""
        if index.isValid():
            self._silent = True
            self.setCurrentIndex(index)
            self._silent = False

    def _key_in_place_of(self, entry: EntryDoc) -> str:
        """Key of the entry where another one was, or of the last before it; "" where there is none."""
        *above, place = entry.path
        values = ((row.key, row.value) for row in self.rows.walk() if isinstance(row.value, EntryDoc))
        near = {
            value.path[-1]: key for key, value in values
            if value.author == entry.author and list(value.path[:-1]) == above and value.path[-1] <= place
        }  # fmt: skip
        return near[max(near)] if near else ""

    def _show_refusal(self) -> None:
        """Brings the first entry that cannot hold into sight, with its whole box."""
        for key in self.rows:
            index = self.rows.index_of(key)
            if isinstance(self.rows.row_at(index).value, Links):
                self.scrollTo(self.rows.index(self.rows.rowCount(index.parent()) - 1, 0, index.parent()))
                self.scrollTo(index.parent())
                return

    def _row_at(self, position: QPointF) -> TreeRow | None:
        index = self.indexAt(position.toPoint())
        return self.rows.row_at(index) if index.isValid() else None

    def _on_box(self, position: QPointF) -> bool:
        left = box_left(self.rows.depth_at(self.indexAt(position.toPoint())))
        return left <= position.x() <= left + BOX_ROOM

    def _switch(self, row: TreeRow) -> None:
        entry = row.value
        assert isinstance(entry, EntryDoc)
        self.enabled_requested.emit(entry, not entry.enabled)

    def _go(self, row: TreeRow, link: int) -> None:
        """Does what a link or a repair says."""
        value = row.value
        if isinstance(value, Offer):
            self.repair_requested.emit(value.repair)
        if not isinstance(value, Links):
            return
        name, repair = value.repairs[min(link, len(value.repairs) - 1)]
        if name == SHOW:
            self.instances_requested.emit(value.entry)
        elif repair is not None:
            self.repair_requested.emit(repair)
        elif name == RELAX:
            self.required_requested.emit(value.entry, False)
        elif name == DISABLE:
            self.enabled_requested.emit(value.entry, False)

    def _link_at(self, position: QPointF) -> tuple[TreeRow, int] | None:
        """The link or repair whose text is there."""
        row = self._row_at(position)
        if row is not None and isinstance(row.value, Links):
            boxes = enumerate(link_boxes(row.value))
            return next(((row, k) for k, (left, right) in boxes if left <= position.x() <= right), None)
        if row is None or not isinstance(row.value, Offer):
            return None
        width = QFontMetricsF(face(11)).horizontalAdvance(row.title)
        return (row, 0) if 0 <= position.x() - REFUSAL_LEFT - PADDING <= width else None

    def _neighbours(self, scenario: ScenarioDoc) -> list[str]:
        """Keys of the alternatives of the same level, in their order."""
        found: list[str] = []
        while self.rows.index_of(scenario_key((*scenario.path[:-1], len(found)))).isValid():
            found.append(scenario_key((*scenario.path[:-1], len(found))))
        return found

    def _boxes(self, scenario: ScenarioDoc) -> list[QRect]:
        """Where each alternative of the level stands, with everything below it."""
        boxes = []
        for key in self._neighbours(scenario):
            index = last = self.rows.index_of(key)
            while self.isExpanded(last) and self.rows.rowCount(last):
                last = self.rows.index(self.rows.rowCount(last) - 1, 0, last)
            boxes.append(self.visualRect(index).united(self.visualRect(last)))
        return boxes

    def _place_at(self, scenario: ScenarioDoc, position: QPointF) -> int:
        """Among how many neighbours above itself an alternative would be dropped."""
        boxes = self._boxes(scenario)
        others = [box for k, box in enumerate(boxes) if k != scenario.path[-1]]
        return sum(position.y() > box.center().y() for box in others)

    def _move_current(self, row: TreeRow, step: int) -> None:
        """Moves the row's alternative, or the one that the row's entry lies in."""
        index = self.rows.index_of(row.key)
        while index.isValid() and not _is_scenario(self.rows.row_at(index)):
            index = index.parent()
        if index.isValid():
            scenario = self.rows.row_at(index).value
            assert isinstance(scenario, ScenarioDoc)
            self._move(scenario, scenario.path[-1] + step)

    def _move(self, scenario: ScenarioDoc, place: int) -> None:
        self.viewport().update()
        if place != scenario.path[-1] and 0 <= place < len(self._neighbours(scenario)):
            self._follow = scenario_key((*scenario.path[:-1], place))
            self.scenario_moved.emit(scenario.path, place)


def _is_entry(row: TreeRow) -> bool:
    return isinstance(row.value, EntryDoc)


def _is_scenario(row: TreeRow) -> bool:
    return isinstance(row.value, ScenarioDoc)
