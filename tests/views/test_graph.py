"""Folding equal layers, and where boxes and edges go."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from dataclasses import replace

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from engine.documents.model import EdgeDoc, ModelDoc, NodeDoc
from tests.app.fake_documents import model
from views.graph.drawing import Drawing, GraphDrawing, first_open
from views.graph.items import BoxItem
from views.graph.layout import BOXES_A_ROW, Size, lay_out_layers
from views.graph.look import SceneState
from views.hierarchy import LEVEL, GraphBox, boxes, longest_run
from views.theme import load_theme
from views.themed_painter import ThemedPainter

BOX = Size(100.0, 40.0)


def drawn(whole: ModelDoc, opened: Collection[str] | None = None) -> Drawing:
    """A model with these boxes open, or with those that start open."""
    top = boxes(whole)
    return GraphDrawing(whole, top).draw(first_open(whole, top) if opened is None else opened)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("abcabcabc", (0, 3, 3)),
        ("xabcabcabcy", (1, 3, 3)),
        ("aaaa", (0, 1, 4)),
        ("abab", (0, 2, 2)),
        ("abcd", None),
        ("aab", None),
        ("", None),
    ],
)
def test_longest_run(names: str, expected: tuple[int, int, int] | None) -> None:
    run = longest_run(list(names), [""] * len(names))
    assert (None if run is None else (run.start, run.period, run.count)) == expected


def test_a_copy_begins_where_its_module_does() -> None:
    """With one launch to spare, "b" could be the first launch of a copy; the module paths say that "a" is."""
    names = list("babababab")
    scopes = ["start", *(f"layer.{number // 2}" for number in range(8))]
    run = longest_run(names, scopes)
    assert run is not None and (run.start, run.period, run.count) == (1, 2, 4)


def test_twelve_layers_are_one_box() -> None:
    top = boxes(model())
    assert [(box.title, box.count) for box in top] == [
        ("embeddings + layernorm", 1),
        ("encoder layer", 12),
        ("pooler", 1),
    ]
    assert top[1].period == 9
    assert len(top[1].children) == 9


def test_without_module_paths_layers_still_fold() -> None:
    bare = model()
    bare = replace(bare, nodes=tuple(replace(node, scope="") for node in bare.nodes))
    assert [(box.title, box.count) for box in boxes(bare)][1] == ("layer", 12)


def test_a_layer_that_differs_stays_outside() -> None:
    whole = model()
    odd = NodeDoc("odd#0", "odd", 0, "odd", "1", (), "encoder.layer.6")
    nodes = [*whole.nodes[:55], odd, *whole.nodes[55:]]
    counts = [box.count for box in boxes(replace(whole, nodes=tuple(nodes))) if box.children]
    assert counts == [6, 6]


def leaves(level: tuple[GraphBox, ...]) -> list[GraphBox]:
    return [leaf for box in level for leaf in (leaves(box.children) if box.children else [box])]


@pytest.mark.parametrize("scoped", [True, False])
def test_what_does_not_repeat_is_parted_into_levels(scoped: bool) -> None:
    """Every launch is in one place, in order, and the way to it leads from level to level."""
    lot = random.Random(3)
    scopes = [f"net.stage{k // 300}.part{k // 100}" if scoped else "" for k in range(2000)]
    nodes = tuple(
        NodeDoc(f"n{k}", f"g{lot.randrange(30)}", k, "t", "1", (), scope) for k, scope in enumerate(scopes)
    )
    edges = tuple(EdgeDoc(a.id, b.id, "t", "1", 4, "") for a, b in itertools.pairwise(nodes))
    large = replace(model(), nodes=nodes, edges=edges)
    top = boxes(large)
    levels = [top]
    for level in levels:
        assert len(level) <= LEVEL and len({box.key for box in level}) == len(level)
        levels += [box.children for box in level if box.children]
        for box in (each for each in level if each.children):
            assert box.nodes == tuple(node for child in box.children for node in child.nodes)
    assert [leaf.nodes[0] for leaf in leaves(top)] == list(nodes)
    titles = ["net stage0", "net stage1"] if scoped else ["kernels 1 – 45", "kernels 46 – 90"]
    assert [box.title for box in top[:2]] == titles
    plan = GraphDrawing(large, top)
    path = plan.path_to("n1234")
    assert path[-1] == "n1234" and plan.path_to("nowhere") == ()
    drawing = plan.draw(frozenset(path[:-1]))
    assert path[-1] in {placed.box.key for placed in drawing.placed}
    inner = {placed.box.key for placed in drawing.placed if not placed.opened}
    lines = {(line.source, line.target) for line in drawing.lines}
    assert ("n1233", "n1234") in lines or "n1233" not in inner


def crossing(route: tuple[tuple[float, float], ...], box: tuple[float, float, float, float]) -> bool:
    """Whether an orthogonal polyline passes through the inside of a rectangle (left, top, right, bottom)."""
    left, top, right, bottom = box
    for (x0, y0), (x1, y1) in itertools.pairwise(route):
        if (
            max(x0, x1) > left + 0.5
            and min(x0, x1) < right - 0.5
            and max(y0, y1) > top + 0.5
            and min(y0, y1) < bottom - 0.5
        ):
            return True
    return False


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_is_drawn_cleanly(seed: int) -> None:
    """Edges are orthogonal, go down, end at their boxes; boxes do not overlap; no edge crosses a box."""
    random.seed(seed)
    keys = [f"n{number}" for number in range(random.randint(4, 18))]
    edges = {(a, b) for a, b in itertools.combinations(keys, 2) if random.random() < 2.0 / len(keys)}
    level = lay_out_layers(dict.fromkeys(keys, BOX), sorted(edges))
    rectangles = {key: (x - 50, y, x + 50, y + 40) for key, (x, y) in level.places.items()}
    for one, other in itertools.combinations(rectangles.values(), 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert set(level.routes) == edges
    for (source, target), route in level.routes.items():
        assert level.places[source][1] < level.places[target][1]
        assert all(abs(a[0] - b[0]) < 0.6 or abs(a[1] - b[1]) < 0.6 for a, b in itertools.pairwise(route))
        others = [box for key, box in rectangles.items() if key not in (source, target)]
        assert not any(crossing(route, box) for box in others), f"{source} to {target}"
    assert level.columns <= BOXES_A_ROW


def test_ports_stand_alone_above_and_below() -> None:
    """Also where a box has no edge to them, and ends above others."""
    sizes = {"in": Size(0.0, 0.0), "a": BOX, "free": BOX, "b": BOX, "c": BOX, "out": Size(0.0, 0.0)}
    edges = [("in", "a"), ("a", "b"), ("free", "b"), ("b", "c"), ("a", "out")]
    tops = {key: y for key, (_, y) in lay_out_layers(sizes, edges, "in", "out").places.items()}
    assert all(tops["in"] < tops[key] < tops["out"] for key in ("a", "free", "b", "c"))


def test_an_edge_against_the_order_is_left_out() -> None:
    level = lay_out_layers({"a": BOX, "b": BOX}, [("a", "b"), ("b", "a")])
    assert set(level.routes) == {("a", "b")}


def test_an_open_layer_shows_one_copy_with_its_border_edges() -> None:
    whole = model()
    drawing = drawn(whole)
    inside = [placed for placed in drawing.placed if placed.depth == 1]
    assert [placed.box.title for placed in inside] == [node.title for node in whole.nodes[1:10]]
    frame = next(placed for placed in drawing.placed if placed.opened)
    for placed in inside:
        assert frame.left < placed.left and placed.left + placed.width < frame.left + frame.width
        assert frame.top < placed.top and placed.top + placed.height < frame.top + frame.height
    entering = [line for line in drawing.lines if line.source == "entry"]
    assert {line.target for line in entering} == {"matmul_0#0", "layernorm_0#0"}
    assert [line.source for line in drawing.lines if line.target == "exit"] == ["layernorm_0#1"]


@pytest.mark.parametrize("width", [200.0, 360.0])
def test_the_title_of_a_frame_takes_the_room_that_its_time_leaves(
    width: float, qapp: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, drawn_at, paint = model(), dict[str, tuple[QRectF, float]](), ThemedPainter.text

    def note(painter: ThemedPainter, box: QRectF, text: str, *look: object, **more: object) -> float:
        drawn_at[text] = box, painter.width(text, more.get("font") or (look[1] if len(look) > 1 else None))
        return paint(painter, box, text, *look, **more)

    monkeypatch.setattr(ThemedPainter, "text", note)
    frame = next(placed for placed in drawn(whole).placed if placed.opened)
    long = "reducemean + sub + pow + add"
    placed = replace(frame, width=width, box=replace(frame.box, title=long, count=1))
    look = SceneState(load_theme("dark"))
    look.sums[placed.box.key] = 12.5
    image = QImage(400, 400, QImage.Format.Format_ARGB32)
    painter = QPainter(image)
    row = QRectF(12, 0, width - 24, 30)
    BoxItem(placed, look)._title(ThemedPainter(painter, look.theme), row, 12.0)
    painter.end()
    (time, (_, of_time)) = next((text, at) for text, at in drawn_at.items() if text.endswith("µs"))
    box, needed = drawn_at[long]
    assert time == "12.5 µs" and box.left() + box.width() + of_time < width - 12
    assert (box.width() >= needed) == (width == 360.0)


@pytest.mark.parametrize(("width", "told"), [(200.0, True), (80.0, False)])
def test_a_small_box_tells_its_time_beside_a_long_title(
    width: float, told: bool, qapp: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels that took most of the time were those without a figure."""
    drawn_texts: list[str] = []
    paint = ThemedPainter.text

    def note(painter: ThemedPainter, box: QRectF, text: str, *look: object, **more: object) -> float:
        drawn_texts.append(text)
        return paint(painter, box, text, *look, **more)

    monkeypatch.setattr(ThemedPainter, "text", note)
    whole = model()
    placed = next(each for each in drawn(whole).placed if not each.opened and not each.box.children)
    placed = replace(placed, width=width, box=replace(placed.box, title="matmul + add + sigmoid + mul + 1 more"))
    look = SceneState(load_theme("dark"))
    look.sums[placed.box.key] = 14.7
    image = QImage(400, 400, QImage.Format.Format_ARGB32)
    painter = QPainter(image)
    row = QRectF(8, 0, width - 16, 20)
    BoxItem(placed, look)._title(ThemedPainter(painter, look.theme), row, 12.0, is_small=True)
    painter.end()
    assert any(text.endswith("µs") for text in drawn_texts) is told


def test_a_closed_layer_is_one_box() -> None:
    drawing = drawn(model(), ())
    assert len(drawing.placed) == 3
    assert len(drawing.lines) == 2


def test_parallel_tensors_between_two_boxes_are_one_line() -> None:
    whole = model(1)
    first, second = whole.nodes[0].id, whole.nodes[1].id
    extra = EdgeDoc(first, second, "again", "1", 4, "")
    drawing = drawn(replace(whole, edges=(*whole.edges, extra)), ())
    line = next(line for line in drawing.lines if (line.source, line.target) == (first, second))
    assert len(line.tensors) == 2
