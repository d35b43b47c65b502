"""The schedule tree as indented rows with kind pills and chips, and where every result lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QMenu

from engine.documents.model import ScheduleDoc, StatementDoc
from views.rows import RowState, RowView, TreeRow
from views.schedule.loops import fill_loop_menu, loop_commands
from views.shapes import paint_pill, paint_pill_in, pill_width
from views.theme import code_face, face
from views.themed_painter import ThemedPainter

PILL, GAP = 64, 5
ROW = 28
INDENT = 18
SPELLED = 2
"""Sums of iterators that a loop's row spells out."""


class ScheduleTreeView(RowView):
    """A schedule tree; `statements_selected` carries the names under the clicked row."""

    statements_selected = Signal(tuple)
    entry_requested = Signal(str)
    interchange_requested = Signal(str, str)

    def __init__(self, name: str) -> None:
        super().__init__(name, _paint, INDENT)
        self._trees: tuple[TreeRow, ...] = ()
        self._iterators: dict[str, tuple[str, ...]] = {}
        """Of the statements; empty where nothing can be asked of the loops."""
        self.chevrons = False
        self.row_selected.connect(self._select)

    def show_schedule(self, *schedules: ScheduleDoc, statements: Iterable[StatementDoc] = ()) -> None:
        """Replaces the tree, or the trees that stand below each other; with statements its loops can be changed."""
        self._iterators = {statement.name: statement.iterators for statement in statements}
        self._trees = tuple(_row(schedule, str(number)) for number, schedule in enumerate(schedules))
        self.show_rows(self._trees)

    def show_selection(self, statements: Iterable[str], dimension: str = "") -> None:
        """Marks the innermost rows that speak of the statements, or the band that was chosen by its dimension."""
        wanted = frozenset(statements)
        self.mark(_rows_of(self._trees, wanted, dimension) if wanted or dimension else ())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What can be asked of a loop."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if not index.isValid():
            return
        menu = self.loop_menu(self.rows.row_at(index).key)
        if not menu.isEmpty():
            menu.popup(self.viewport().mapToGlobal(self.visualRect(index).center()) if by_key else event.globalPos())

    def loop_menu(self, key: str) -> QMenu:
        """The menu of a row; empty where nothing can be asked."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        path = [self.rows.row_at(self.rows.index_of(key[:end])).value for end in _ends(key)]
        if self._iterators:
            commands = list(loop_commands(path[-1], path[:-1], self._iterators))
            fill_loop_menu(menu, commands, self.entry_requested.emit, self.interchange_requested.emit)
        return menu

    def _select(self, row: TreeRow) -> None:
        assert isinstance(row.value, ScheduleDoc)
        self.statements_selected.emit(row.value.statements)


class Placements(RowView):
    """Where the result of every statement lives, with the reason."""

    statements_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__("Storage", _paint_placement, 0)
        self.chevrons = False
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.row_selected.connect(lambda row: self.statements_selected.emit((row.key,)))

    def show_statements(self, statements: Iterable[StatementDoc]) -> None:
        """Replaces the rows; at most six are in sight."""
        rows = [_placement(statement) for statement in statements]
        self.show_rows(rows)
        self.setFixedHeight(min(len(rows), 6) * 24 + 8)


def _row(node: ScheduleDoc, key: str) -> TreeRow:
    """A row of the tree; a band's only statement stands in the band's own row."""
    only = node.children[0] if len(node.children) == 1 else None
    inside, children = "", tuple(_row(child, f"{key}.{index}") for index, child in enumerate(node.children))
    if node.kind == "band" and only and only.kind == "statement":
        inside, children = f"  {only.text}", ()
    title = _head(node) + inside
    return TreeRow(key, title, node, children, ROW, "\n".join(filter(None, (title, ", ".join(node.chips)))))


def _head(node: ScheduleDoc) -> str:
    """What a row says in any case: a loop with its range, and its sum of iterators where it is no plain one."""
    more = ", …" if len(node.rows) > SPELLED else ""
    return node.text + (f" ({', '.join(node.rows[:SPELLED])}{more})" if node.rows else "")


def _ends(key: str) -> list[int]:
    """Where the keys of the rows around a row end within its own, then where that ends."""
    return [*(at for at, letter in enumerate(key) if letter == "."), len(key)]


def _rows_of(rows: Iterable[TreeRow], wanted: frozenset[str], dimension: str) -> list[str]:
    found: list[str] = []
    for row in rows:
        node = row.value
        assert isinstance(node, ScheduleDoc)
        below = _rows_of(row.children, wanted, dimension)
        if below:
            found += below
        elif wanted and frozenset(node.statements) <= wanted:
            found.append(row.key)
    return found


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    node, box = row.value, state.box
    assert isinstance(node, ScheduleDoc)
    middle = box.center().y()
    for level in range(state.depth):
        painter.area(QRectF(int(box.x() + 16.5 + level * INDENT), box.y(), 1, box.height()), "line")
    pill = QRectF(state.left + 4, middle - 8, PILL, 17)
    paint_pill_in(painter, pill, node.kind, outlined=node.kind in ("domain", "sequence"))
    right = box.right() - 12
    head = painter.width(_head(node), code_face()) if node.kind == "band" else 0.0
    for chip in reversed(fitting(painter, node.chips, right - pill.right() - 14 - head)):
        right = paint_pill(painter, right, middle, chip) - GAP
    room = QRectF(pill.right() + 10, box.y(), right - pill.right() - 14, box.height())
    used = painter.text(room, row.title, font=code_face())
    if node.parallel:
        painter.text(room.adjusted(used + 10, 0, 0, 0), "parallel", "text-3", face(11))


def fitting(painter: ThemedPainter, chips: Sequence[str], room: float) -> list[str]:
    """The first chips that find room, with the number of those that do not; the tool tip has all."""
    for count in range(len(chips), -1, -1):
        shown = [*chips[:count], *([f"+{len(chips) - count}"] if count < len(chips) else [])]
        if sum(pill_width(painter, chip) + GAP for chip in shown) <= room:
            return shown
    return []


def _placement(statement: StatementDoc) -> TreeRow:
    return TreeRow(statement.name, f"{statement.name}: {statement.placement}", statement)


def _paint_placement(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    statement, box = row.value, state.box.adjusted(64, 0, -12, 0)
    assert isinstance(statement, StatementDoc)
    place, _, reason = statement.placement.partition(":")
    painter.text(QRectF(12, box.y(), 60, box.height()), statement.name, "text-2", code_face())
    after = painter.text(box, place)
    painter.text(box.adjusted(after, 0, 0, 0), f" —{reason}" if reason else "", "text-3")
