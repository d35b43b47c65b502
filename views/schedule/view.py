"""The schedule panel: the tree as indented rows with kind pills and chips, and where every result lives."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter

from engine.documents import KernelDoc, ScheduleDoc, StatementDoc
from views.format import compact_shape, plural
from views.panel import Panel, bar, label, rule
from views.rows import Row, RowState, RowView, draw_text, text_width
from views.shapes import paint_pill, paint_pill_in
from views.theme import Theme, code_face, face

PILL = 64
ROW = 28
INDENT = 18


class ScheduleView(Panel):
    """The schedule in use; `statements_selected` carries the names under the clicked row."""

    statements_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__("Schedule")
        self._trees: tuple[Row, ...] = ()
        strip, layout = bar("subheader", 32)
        self.group = label("", "title")
        self.shape = label("", "hint")
        self.legality = label("", "second")
        for widget in (self.group, self.shape):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addWidget(self.legality)
        layout.setContentsMargins(12, 0, 12, 0)
        self.tree = RowView("Schedule tree", _paint, INDENT)
        self.tree.chevrons = False
        self.tree.row_selected.connect(self._select)
        self.placements = RowView("Where results live", _paint_placement, 0)
        self.placements.chevrons = False
        self.placements.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.placements.row_selected.connect(self._select)
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(self.tree, 1)
        self.body_layout.addWidget(rule())
        self.body_layout.addWidget(self.placements)
        self.show_empty("Select a group to see its schedule")

    def show_kernel(self, kernel: KernelDoc, title: str, shape: str, stale: bool = False) -> None:
        """Shows a legal kernel's schedule; `stale`: a later edit was refused and this is the last legal one."""
        self.group.setText(title)
        self.shape.setText("last legal one, the edit was refused" if stale else compact_shape(shape))
        self.legality.setText(f"✓  legal, {plural(kernel.dependences, 'dependence')}")
        self._trees = (_row(kernel.schedule, "0"),)
        self.tree.show_rows(self._trees)
        self.placements.show_rows(_placement(statement) for statement in kernel.statements)
        wanted = 8 + 24 * len(kernel.statements)
        self.placements.setFixedHeight(min(wanted, 24 * 6 + 8))
        self.show_body()

    def show_selection(self, statements: Iterable[str], dimension: str = "") -> None:
        """Marks the innermost rows that speak of the statements, or the band that was chosen by its dimension."""
        wanted = frozenset(statements)
        self.tree.mark(_rows_of(self._trees, wanted, dimension) if wanted or dimension else ())
        self.placements.mark(wanted)

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        super().set_theme(theme)
        self.tree.set_theme(theme)
        self.placements.set_theme(theme)

    def _select(self, row: Row) -> None:
        value = row.value
        if isinstance(value, ScheduleDoc):
            self.statements_selected.emit(value.statements)
        elif isinstance(value, StatementDoc):
            self.statements_selected.emit((value.name,))


def _row(node: ScheduleDoc, key: str) -> Row:
    """A row of the tree; a band's only statement is told in the band's own row."""
    only = node.children[0] if len(node.children) == 1 else None
    if node.kind == "band" and only and only.kind == "statement":
        return Row(key, f"{node.dimension}  {only.text}", node, (), ROW)
    children = tuple(_row(child, f"{key}.{index}") for index, child in enumerate(node.children))
    return Row(key, node.text, node, children, ROW)


def _rows_of(rows: Iterable[Row], wanted: frozenset[str], dimension: str) -> list[str]:
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


def _placement(statement: StatementDoc) -> Row:
    return Row(statement.name, f"{statement.name}: {statement.placement}", statement)


def _paint(painter: QPainter, row: Row, state: RowState, theme: Theme) -> None:
    node, box = row.value, state.box
    assert isinstance(node, ScheduleDoc)
    middle = box.center().y()
    painter.setPen(theme.colour("line"))
    for level in range(1, state.depth + 1):
        x = box.x() + 8 + (level - 1) * INDENT + 8.5
        painter.drawLine(int(x), int(box.top()), int(x), int(box.bottom()))
    left = state.left + 4
    pill = QRectF(left, middle - 8, PILL, 17)
    paint_pill_in(painter, pill, node.kind, theme, outlined=node.kind in ("domain", "sequence"))
    right = box.right() - 12
    for chip in reversed(node.chips):
        right = paint_pill(painter, right, middle, chip, theme) - 5
    painter.setFont(code_face())
    painter.setPen(theme.colour("text"))
    text_left = pill.right() + 10
    draw_text(painter, QRectF(text_left, box.y(), right - text_left - 4, box.height()), row.title)
    if node.parallel:
        after = text_left + text_width(painter, row.title) + 10
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(after, box.y(), max(right - after - 4, 0.0), box.height()), "parallel")


def _paint_placement(painter: QPainter, row: Row, state: RowState, theme: Theme) -> None:
    statement, box = row.value, state.box
    assert isinstance(statement, StatementDoc)
    place, _, reason = statement.placement.partition(":")
    painter.setFont(code_face())
    painter.setPen(theme.colour("text-2"))
    draw_text(painter, QRectF(12, box.y(), 60, box.height()), statement.name)
    painter.setFont(face())
    painter.setPen(theme.colour("text"))
    draw_text(painter, QRectF(64, box.y(), box.right() - 76, box.height()), place)
    after = 64 + text_width(painter, place)
    painter.setPen(theme.colour("text-3"))
    draw_text(painter, QRectF(after, box.y(), box.right() - 12 - after, box.height()), f" —{reason}" if reason else "")
