"""Hulls, edges by scheme, the card and the chooser: what they show, what they ask for, what survives another plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from engine.documents.model import EdgeDoc, GroupDoc, LinkDoc, ModelDoc, NodeDoc, OperatorDoc
from tests.support.pointer import drag_over
from views.fusion.card import CardContent, FusionCard
from views.fusion.chooser import Chooser, Option
from views.graph.canvas import READABLE
from views.graph.drawing import keys_to_reopen
from views.graph.handles import Handle
from views.graph.items import SCHEMES
from views.graph.polylines import distance
from views.graph.view import GraphView
from views.overview import overview
from views.theme import face, load_theme
from views.themed_painter import ThemedPainter

THEME = load_theme("dark")


def made() -> ModelDoc:
    """Two launches: a and b hand over in registers, beside c and d that share the launch; e reads them all."""
    operators = tuple(OperatorDoc(name, name.upper(), (), (name,), "") for name in "abcde")
    groups = tuple(
        GroupDoc(name, name, "stitched", "4 x 4", "float32", 1, (), "", (), 64, 0, "memory", 0.0, None, 0.0)
        for name in ("one_0", "two_0")
    )
    nodes = (
        NodeDoc("one_0#0", "one_0", 0, "one", "4 x 4", ("a", "b", "c", "d"), "", True),
        NodeDoc("two_0#0", "two_0", 0, "two", "4 x 4", ("e",), ""),
    )
    edges = (EdgeDoc("one_0#0", "two_0#0", "b", "4 x 4 float32", 64, "a reason", True),)
    links = (
        LinkDoc("one_0#0", "a", "b", "x", "register", 128, "the same thread"),
        LinkDoc("one_0#0", "c", "d", "y", "shared", 64, "another thread"),
        LinkDoc("one_0#0", "a", "c", "", "packing", 0, "they share a launch"),
    )
    return ModelDoc("m", "m.onnx", "h200", operators, nodes, edges, groups, (), None, (), links)


@pytest.fixture
def view(qtbot: Any) -> GraphView:
    panel = GraphView()
    panel.set_theme(THEME)
    qtbot.addWidget(panel)
    panel.set_theme(THEME)
    panel.resize(700, 800)
    panel.show_model(overview(made()))
    panel.show()
    return panel


def operators(view: GraphView) -> dict[str, tuple[float, float]]:
    """The operators that are drawn, with their middles."""
    drawn = (each for each in view.scene.drawing.placed if each.box.operator)
    return {each.box.operator: (each.left + each.width / 2, each.top + each.height / 2) for each in drawn}


def test_a_launch_opens_into_its_operators(view: GraphView) -> None:
    assert operators(view) == {} and view.canvas.schemes.isHidden()
    view.canvas.toggle("one_0#0")
    places = operators(view)
    assert set(places) == {"a", "b", "c", "d"} and view.canvas.schemes.isVisible()
    assert places["a"][1] < places["b"][1] and places["c"][1] < places["d"][1], "what is handed over goes down"
    hull = next(each for each in view.scene.drawing.placed if each.box.key == "one_0#0")
    assert all(
        hull.left < x < hull.left + hull.width and hull.top < y < hull.top + hull.height for x, y in places.values()
    )
    drawn = {line.links[0].scheme: line for line in view.scene.drawing.lines if line.links}
    assert set(drawn) == {"register", "shared", "packing"} and set(drawn) <= set(SCHEMES)
    view.canvas.toggle("one_0#0")
    assert operators(view) == {}


def test_every_launch_in_sight_opens_and_closes(view: GraphView) -> None:
    view.canvas.toggle_operators()
    assert set(operators(view)) == set("abcde")
    view.canvas.toggle_operators()
    assert operators(view) == {}


def test_what_is_open_stays_open_with_other_groups(view: GraphView) -> None:
    view.canvas.toggle("one_0#0")
    model = made()
    one, two = model.nodes
    changed = replace(model, nodes=(replace(one, id="x_0#0", group="x_0", operators=("a", "b")),
                                    replace(two, operators=("c", "d", "e"))),
                      groups=(replace(model.groups[0], name="x_0"), model.groups[1]), edges=(), links=())  # fmt: skip
    view.show_model(overview(changed), keep=True)
    assert view.scene.opened == {"x_0#0", "two_0#0"}, "both have operators of the launch that was open"
    assert keys_to_reopen([], overview(model).plan.top) == frozenset()


def test_clicks_select_operators_and_edges(view: GraphView, qtbot: object) -> None:
    view.canvas.toggle("one_0#0")
    view.canvas.fit_all()
    pointed: list[object] = []
    lines: list[object] = []
    view.pointed.connect(pointed.append)
    view.edge_selected.connect(lines.append)
    x, y = operators(view)["d"]
    QTest.mouseClick(view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=view.canvas.mapFromScene(QPointF(x, y)))
    assert pointed == [Handle("one_0#0", "d")]
    line = next(line for line in view.scene.drawing.lines if line.tensors)
    middle = QPointF(line.points[0][0], (line.points[0][1] + line.points[-1][1]) / 2)
    QTest.mouseClick(view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=view.canvas.mapFromScene(middle))
    assert lines == [line]


def test_escape_drops_nothing(view: GraphView) -> None:
    dropped: list[object] = []
    view.dropped.connect(lambda *each: dropped.append(each))
    start = view.canvas.mapFromScene(QPointF(*_middle(view, "two_0#0")))
    end = view.canvas.mapFromScene(QPointF(*_middle(view, "one_0#0")))
    for escape in (True, False):
        QTest.mousePress(view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=start)
        drag_over(view.canvas.viewport(), end)
        assert view.canvas.is_dragging and view.scene.look.target[0] == "one_0#0"
        if escape:
            QTest.keyClick(view.canvas, Qt.Key.Key_Escape)
        QTest.mouseRelease(view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=end)
        assert not view.canvas.is_dragging and view.canvas.note.isHidden()
    assert dropped == [(Handle("two_0#0"), Handle("one_0#0"))]


def _middle(view: GraphView, key: str) -> tuple[float, float]:
    placed = next(each for each in view.scene.drawing.placed if each.box.key == key)
    return placed.left + placed.width / 2, placed.top + placed.height / 2


def test_the_note_stays_inside(view: GraphView) -> None:
    note, size = view.canvas.note, view.canvas.viewport().size()
    note.tell("Merge this kernel into another", "Not legal: " + "a long reason " * 20, "infeasible")
    for corner in (QPointF(0, 0), QPointF(size.width(), size.height())):
        note.follow(corner.toPoint())
        assert view.canvas.viewport().rect().contains(note.geometry())


def test_the_card_tells_and_asks(qtbot: Any) -> None:
    card = FusionCard()
    qtbot.addWidget(card)
    chosen: list[str] = []
    card.chosen.connect(chosen.append)
    names = tuple(f"op{number}" for number in range(12))
    card.show_told(
        CardContent("a → b", ("1 kB",), "Because.", (("Memory", "+1 µs", "why"),), False, (("Split", "split"),))
    )
    assert card.isVisible() and list(card.buttons) == ["split"] and card.names.isHidden()
    card.buttons["split"].click()
    card.show_told(CardContent("No", (), "Never.", (), True, (), names))
    assert chosen == ["split"] and card.buttons == {} and card.sentence.property("role") == "wrong-text"
    assert card.names.text().endswith("op7 and 4 more") and card.names.toolTip().splitlines() == list(names)
    card.close_card()
    assert card.isHidden() and card.told is None


def test_the_chooser_shows_all_of_a_reason(qtbot: Any) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    chooser = Chooser(parent)
    chooser.set_theme(THEME)
    chooser.open("Merge with…")
    reasons = ("looking", "a tile holds only part of each row: " + "/model/layer/mlp/Gemm and " * 8)
    chooser.show_options([Option(reason, "group", reason, "infeasible") for reason in reasons])
    rows = list(chooser.list.rows.walk())
    metrics, width = QFontMetrics(face(11)), chooser.list.width() - 50
    for row, reason in zip(rows, reasons, strict=True):
        lines = -(-metrics.horizontalAdvance(reason) // width)
        assert row.height >= 22 + lines * metrics.height()
    assert rows[0].height < 60 and chooser.list.viewport().height() >= sum(row.height for row in rows)


def test_the_chooser_keeps_its_place_while_answers_come(qtbot: Any) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(600, 400)
    parent.show()
    chooser = Chooser(parent)
    chooser.set_theme(THEME)
    chosen: list[str] = []
    chooser.chosen.connect(chosen.append)
    chooser.open("Merge with…")
    options = [Option(str(number), f"group {number}", "looking", "not reached") for number in range(3)]
    chooser.show_options(options)
    QTest.keyClick(chooser.list, Qt.Key.Key_Down)
    chooser.show_options([replace(option, outcome="honoured") for option in options])
    QTest.keyClick(chooser.list, Qt.Key.Key_Return)
    assert chosen == ["1"] and chooser.isHidden()
    chooser.open("Nothing")
    chooser.show_options([])
    QTest.keyClick(chooser.list, Qt.Key.Key_Return)
    assert chosen == ["1"]
    chooser.close()


def test_the_distance_to_an_edge_is_that_to_its_nearest_stretch() -> None:
    corner = ((0.0, 0.0), (0.0, 10.0), (10.0, 10.0))
    assert distance(corner, QPointF(3, 5)) == 3 and distance(corner, QPointF(14, 13)) == 5
    assert distance(corner, QPointF(5, 10)) == 0


def test_legends_stand_below_the_picture_and_the_whole_graph_fits_above_them(view: GraphView) -> None:
    view.canvas.toggle("one_0#0")
    view.canvas.fit_all()
    canvas = view.canvas
    picture = canvas.viewport().geometry()
    for legend in (canvas.legend, canvas.schemes):
        assert legend.isVisible() and not legend.geometry().intersects(picture)
        assert canvas.rect().contains(legend.geometry())
    shown = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    assert shown.adjusted(-1, -1, 1, 1).contains(view.scene.sceneRect())


def test_fit_shows_everything_and_the_first_sight_what_can_be_read(view: GraphView) -> None:
    canvas = view.canvas
    view.scene.setSceneRect(0, 0, 400, 40 * canvas.viewport().height())
    canvas.fit_readable()
    assert canvas.transform().m11() >= READABLE
    canvas.fit_all()
    assert canvas.mapToScene(canvas.viewport().rect()).boundingRect().height() >= view.scene.sceneRect().height() - 1


@pytest.mark.parametrize("scale", [0.5, 0.62, 0.8, 1.0])
def test_the_title_of_a_box_is_legible_at_every_scale_of_a_first_sight(
    view: GraphView, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[str, float]] = []

    def note(_: object, box: object, text: str, tint: object = "", font: QFont | None = None, *more: object) -> float:
        sizes.append((text, font.pixelSize() if font else 0))
        return 0.0

    monkeypatch.setattr(ThemedPainter, "text", note)
    view.canvas.resetTransform()
    view.canvas.scale(scale, scale)
    view.canvas.grab()
    titles = [size for text, size in sizes if text in ("one_0", "two_0", "one", "two")]
    assert titles and min(titles) * scale >= 10.0, "titles of ten pixels"


def test_what_a_drop_would_do_is_told_above_the_minimap(view: GraphView) -> None:
    note, minimap = view.canvas.note, view.canvas.minimap
    minimap.show()
    note.tell("Merge", "It saves 1 µs", "honoured")
    note.move(minimap.pos())
    assert view.canvas.childAt(minimap.geometry().center()) is minimap, "it takes no clicks"
    parts = [part for part in view.canvas.children() if part in (note, minimap)]
    assert parts[-1] is note


def test_both_ends_of_what_is_kept_apart_carry_a_pin(view: GraphView) -> None:
    model = made()
    apart = tuple(replace(edge, fixed=True) for edge in model.edges)
    view.show_model(overview(replace(model, edges=apart)))
    ends = {key for line in view.scene.drawing.lines if line.is_fixed for key in (line.source, line.target)}
    assert ends and view.scene.look.pinned == ends
    assert {placed.box.key for placed in view.scene.drawing.placed if view.scene.look.is_pinned(placed)} == ends
