"""Two models side by side: both graphs with what differs marked, the list of changes below, figures above."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from engine.documents.difference import GroupChange, ModelDiffDoc, OperatorChange
from engine.documents.exploration import FigureDoc
from views.diff.figures import TIMES, change
from views.format import duration, plural, with_unit
from views.graph.badges import paint_change
from views.graph.canvas import Canvas
from views.graph.scene import GraphScene
from views.overview import Overview
from views.panel import SUBHEADER, Elided, Panel, bar
from views.rows import RowState, RowView, TreeRow
from views.tables import Cell
from views.theme import Theme, load_theme, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

KERNELS, OPERATORS = "kernels", "operators"
COLUMN = 84
"""Pixels of a figure in the list."""
EQUAL = "No difference"


class ModelSide(QWidget, Themed):
    """One of the two graphs, with its name above."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.scene = GraphScene(load_theme("dark"))
        self.canvas = Canvas(self.scene)
        self.canvas.setAccessibleName(f"Graph of {name}")
        strip, layout = bar("subheader", SUBHEADER)
        self.title = Elided("title")
        layout.addWidget(self.title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(strip)
        column.addWidget(self.canvas, 1)

    def show_model(self, title: str, overview: Overview, changes: Mapping[str, str]) -> None:
        """Replaces the graph."""
        self.title.setText(f"{title}  {plural(len(overview.model.nodes), 'kernel')}")
        self.scene.look.changes = changes
        self.canvas.fit_when_built()
        self.scene.show_model(overview)

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self.scene.look.theme = theme
        self.scene.update()

    def reveal(self, node: str) -> None:
        """Goes to a launch, and opens the layers around it."""
        if node:
            self.scene.look.selected = node.partition("#")[0]
            self.canvas.reveal_launch(node)


class ModelDiffView(Panel):
    """A row of the list selects its launch in both graphs."""

    def __init__(self) -> None:
        super().__init__("Compare models")
        self.a, self.b = ModelSide("the first model"), ModelSide("the second model")
        self.list = RowView("Changes", _paint)
        self.list.cells = _cells
        self.list.row_selected.connect(self._select)
        graphs = QSplitter(Qt.Orientation.Horizontal)
        graphs.addWidget(self.a)
        graphs.addWidget(self.b)
        split = QSplitter(Qt.Orientation.Vertical)
        split.addWidget(graphs)
        split.addWidget(self.list)
        split.setSizes([480, 240])
        for each in (graphs, split):
            each.setHandleWidth(1)
            each.setChildrenCollapsible(False)
        strip, layout = bar("subheader", SUBHEADER)
        self.figures = Elided("hint")
        layout.addWidget(self.figures, 1)
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(split, 1)
        self.difference: ModelDiffDoc | None = None
        self.show_empty("The comparison appears here")

    def show_asked(self, title: str) -> None:
        """The comparison with a file is under way."""
        self.subtitle.setText(title)
        self.show_loading(True)

    def show_difference(
        self, titles: tuple[str, str], sides: tuple[Overview, Overview], difference: ModelDiffDoc
    ) -> None:
        """Shows both graphs and everything that differs."""
        self.difference = difference
        self.show_loading(False)
        for place, (side, title, overview) in enumerate(zip((self.a, self.b), titles, sides, strict=True)):
            known = {(each.a, each.b)[place]: each.state for each in difference.operators}
            known |= {(each.a, each.b)[place]: each.state for each in difference.launches}
            known.pop("", None)
            side.show_model(title, overview, known)
        self.figures.setText("    ".join(filter(None, map(_figure_text, difference.figures))))
        rows = change_rows(difference)
        self.list.show_rows(rows, opened=lambda row: row.key == KERNELS or len(difference.operators) <= 200)
        self.subtitle.setText("" if rows else EQUAL)
        self.show_body()

    def show_refusal(self, sentence: str) -> None:
        """Says why there is no comparison."""
        self.show_loading(False)
        self.show_empty(sentence)

    def _select(self, row: TreeRow) -> None:
        self.list.mark((row.key,))
        if isinstance(row.value, GroupChange | OperatorChange):
            for side, node in zip((self.a, self.b), row.value.nodes, strict=True):
                side.reveal(node)


def change_rows(difference: ModelDiffDoc) -> tuple[TreeRow, ...]:
    """Kernels by group, then operators, each under a heading with its count; nothing for what is equal."""
    kernels = tuple(
        TreeRow(f"k{number}", f"{each.title}: {each.because}", each, tip="\n".join((each.because, *each.entries)))
        for number, each in enumerate(difference.groups)
    )
    operators = tuple(
        TreeRow(f"o{number}", f"{each.kind} {each.b or each.a}: {each.because}", each)
        for number, each in enumerate(difference.operators)
    )
    rows = (
        (KERNELS, plural(len(difference.launches), "kernel"), kernels),
        (OPERATORS, plural(len(operators), "operator"), operators),
    )
    return tuple(TreeRow(key, title, None, children) for key, title, children in rows if children)


def _cells(row: TreeRow) -> dict[str, Cell]:
    """A change for a table; headings are none."""
    each = row.value
    if isinstance(each, GroupChange):
        a, b = (time if time is not None else "" for time in each.microseconds)
        return {
            "change": each.state, "what": each.title, "in A": each.a, "in B": each.b, "launches": each.launches,
            "A µs": a, "B µs": b, "A bytes": each.bytes[0], "B bytes": each.bytes[1], "because": each.because,
        }  # fmt: skip
    if isinstance(each, OperatorChange):
        return {"change": each.state, "what": each.kind, "in A": each.a, "in B": each.b, "because": each.because}
    return {}


def _figure_text(each: FigureDoc) -> str:
    """ "predicted time 21.3 µs → 18.4 µs ▼ 13.6 %", a figure that is equal only once."""
    if each.a is None or each.b is None:
        return ""
    name = f"{each.origin} {each.name}" if each.origin in TIMES else each.name
    texts = [with_unit(value, each.unit) for value in (each.a, each.b)]
    if each.a == each.b:
        return f"{name} {texts[0]}"
    return f"{name} {texts[0]} → {texts[1]} {change(each)}"


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    each, box = row.value, state.box.adjusted(state.left - state.box.x(), 0, -12, 0)
    if each is None:
        painter.text(box, row.title, font=semibold())
        return
    paint_change(painter, QPointF(state.left + 4, box.center().y()), each.state)
    title = f"{each.kind}  {each.b or each.a}" if isinstance(each, OperatorChange) else each.title
    box = box.adjusted(20, 0, 0, 0)
    if isinstance(each, GroupChange):
        before, after = ("" if time is None else duration(time) for time in each.microseconds)
        for place, text in enumerate((after, before, f"× {each.launches}")):
            painter.text(box.adjusted(0, 0, -place * COLUMN, 0), text, side=RIGHT)
        box = box.adjusted(0, 0, -3 * COLUMN - 12, 0)
    half = min(box.width() * 0.45, 420.0)
    painter.text(QRectF(box.x(), box.y(), half - 10, box.height()), title)
    painter.text(box.adjusted(half, 0, 0, 0), each.because, "text-3")
