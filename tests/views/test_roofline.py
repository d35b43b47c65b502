"""The roofline by pointer and by keys: what is pointed at is told, what is reached is selected everywhere."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt

from tests.support.plots import click, drag, spot, wheel
from tests.support.pointer import hover
from tests.support.stalls import assert_fluent
from views.roofline.canvas import range_of
from views.roofline.nodes import OriginPoints, Point, Roofline
from views.roofline.view import RooflinePage
from views.theme import load_theme

Keys = Qt.Key
BANDWIDTH = 4e12
CEILINGS = (("CUDA cores", 6e13), ("tensor cores", 6e14))


def point(group: str, intensity: float, part: float, ghost: float | None = None) -> Point:
    roof = min(BANDWIDTH * (intensity or 0.1), CEILINGS[1][1])
    return Point(group, f"the {group}", intensity, roof * part, ghost and roof * ghost, roof, 10.0, 0.1)


POINTS = (
    point("copy", 0, 0.9), point("softmax", 1, 0.8, 0.4), point("layernorm", 2, 0.7), point("matmul", 500, 0.6, 0.9),
)  # fmt: skip


def line(*sides: OriginPoints) -> Roofline:
    return Roofline(BANDWIDTH, CEILINGS, "", 0.1, sides)


def page(qtbot: object, *sides: OriginPoints) -> RooflinePage:
    made = RooflinePage()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.set_theme(load_theme("dark"))
    made.resize(640, 320)
    made.show_roofline(
        line(*(sides or (OriginPoints("predicted", "a model", POINTS, 0), OriginPoints("measured", "", (), 4))))
    )
    made.group_selected.connect(made.show_selection)
    made.show()
    return made


def spots_of(made: RooflinePage, group: str) -> list[QPoint]:
    """Where a group's points stand, in each plot that has one."""
    key, canvas = made.canvas.groups.index(group), made.canvas
    canvas.flush()
    canvas.grab()
    assert canvas.chart is not None
    having = [column for _, column in canvas.chart.plots if key in canvas.chart.plot(0, column).targets.keys]
    return [spot(canvas, key, column=column) for column in having]


def test_arrows_walk_by_intensity_and_by_rate(qtbot: object) -> None:
    made = page(qtbot)
    reached = []
    made.group_selected.connect(reached.append)
    made.canvas.setFocus()
    for key in (Keys.Key_Home, Keys.Key_Right, Keys.Key_Right, Keys.Key_Right, Keys.Key_Right, Keys.Key_Left):
        qtbot.keyClick(made.canvas, key)  # type: ignore[attr-defined]
    assert reached == ["copy", "softmax", "layernorm", "matmul", "layernorm"], "at the end it stays"
    qtbot.keyClick(made.canvas, Keys.Key_End)  # type: ignore[attr-defined]
    qtbot.keyClick(made.canvas, Keys.Key_Down)  # type: ignore[attr-defined]
    assert reached[-2:] == ["matmul", "layernorm"]
    qtbot.keyClick(made.canvas, Keys.Key_Up)  # type: ignore[attr-defined]
    assert reached[-1] == "matmul" and "the matmul" in made.canvas.accessibleDescription()


def test_a_click_selects_and_the_pointer_tells(qtbot: object) -> None:
    made = page(qtbot, OriginPoints("predicted", "", POINTS, 0), OriginPoints("measured", "", POINTS[1:2], 3))
    reached: list[str] = []
    made.group_selected.connect(reached.append)
    spots = spots_of(made, "softmax")
    assert len(spots) == 2, "one in each plot"
    assert made.canvas.chart is not None
    view = made.canvas.chart.viewport()
    for each in spots:
        hover(view, QPoint(1, 1))
        hover(view, each)
        assert made.canvas.hovered_group == "softmax"
        told = made.readout.text()
        assert "predicted 10.0 µs, at the baseline 20.0 µs" in told, "half as fast at the baseline"
        assert "measured 10.0 µs" in told and "80.0 % of the roof" in told
        click(made.canvas, each)
    assert reached == ["softmax", "softmax"]
    click(made.canvas, QPoint(3, 3))
    assert len(reached) == 2, "where there is no kernel nothing is selected"


def test_points_on_one_spot_are_reached_one_after_the_other(qtbot: object) -> None:
    twins = (point("a", 1, 0.5), point("b", 1, 0.5), point("c", 1, 0.5))
    made = page(qtbot, OriginPoints("predicted", "", twins, 0))
    at = spots_of(made, "a")[0]
    reached: list[str] = []
    made.group_selected.connect(reached.append)
    for _ in range(4):
        click(made.canvas, at)
    assert reached == ["a", "b", "c", "a"]


def test_a_region_names_the_kernels_in_it(qtbot: object) -> None:
    made = page(qtbot)
    heard: list[tuple[str, ...]] = []
    made.canvas.region_selected.connect(heard.append)
    (slow,), (fast,) = spots_of(made, "softmax"), spots_of(made, "layernorm")
    left, right = sorted((slow, fast), key=lambda spot: spot.x())
    low, high = max(left.y(), right.y()) + 8, min(left.y(), right.y()) - 8
    drag(made.canvas, QPoint(left.x() - 8, low), QPoint(right.x() + 8, high), Qt.KeyboardModifier.ShiftModifier)
    assert [set(groups) for groups in heard] == [{"softmax", "layernorm"}]
    drag(made.canvas, QPoint(right.x() + 20, low), QPoint(right.x() + 40, high), Qt.KeyboardModifier.ShiftModifier)
    assert len(heard) == 1, "a region without kernels selects none"


def test_plots_have_equal_axes_and_everything_stands_inside(qtbot: object) -> None:
    made = page(qtbot, OriginPoints("predicted", "", POINTS, 0), OriginPoints("measured", "", POINTS, 0))
    spots = {each.group: spots_of(made, each.group) for each in POINTS}
    assert made.canvas.chart is not None
    boxes = [plot.box.sceneBoundingRect() for plot in made.canvas.chart.plots.values()]
    assert boxes[0].size() == boxes[1].size() and boxes[0].right() < boxes[1].left()
    apart = {(second - first).toTuple() for first, second in spots.values()}
    assert all(abs(x - (boxes[1].x() - boxes[0].x())) <= 1 and abs(y) <= 1 for x, y in apart)
    assert all(box.contains(QPointF(spot)) for pair in spots.values() for box, spot in zip(boxes, pair, strict=True))
    wheel(made.canvas, spots["softmax"][0], 2)
    first, second = (plot.box.viewRange() for plot in made.canvas.chart.plots.values())
    assert np.allclose(first, second), "zoomed together"


def test_names_stand_inside_their_plot_from_the_first_picture_on(qtbot: object) -> None:
    """A plot has less room once another stands beside it: names were placed for all of it, and cut."""
    points = tuple(point(f"kernel number {n}", 4.0**n, 0.5) for n in range(5))
    made = page(qtbot, OriginPoints("predicted", "a model", points, 0), OriginPoints("measured", "", (), 5))
    chart = made.canvas.chart
    assert chart is not None
    made.canvas.grab()
    plot = chart.plot(0, 0)
    named = [item for name, item in plot._items.items() if name.startswith("name ")]
    assert named
    for item in named:
        assert plot.box.sceneBoundingRect().adjusted(-2, -2, 2, 2).contains(item.sceneBoundingRect())


def test_higher_is_faster_and_a_ghost_stands_straight_below_or_above(qtbot: object) -> None:
    made = page(qtbot)
    softmax, layernorm, matmul = (spots_of(made, group)[0] for group in ("softmax", "layernorm", "matmul"))
    assert softmax.x() < layernorm.x() < matmul.x() and softmax.y() > layernorm.y() > matmul.y()
    x, y, ghosts = range_of(line(OriginPoints("predicted", "", POINTS, 0))).spots(POINTS)
    assert ghosts[1] == pytest.approx(y[1] / 2) and np.isnan(ghosts[2]) and x[0] < x[1] < x[2]
    axes = range_of(line(OriginPoints("predicted", "", POINTS, 0)))
    _, y, ghosts = axes.spots(POINTS)
    assert all(axes.bottom <= each <= axes.top for each in (*y, *ghosts[~np.isnan(ghosts)]))


def test_two_thousand_kernels_are_painted_and_pointed_at_without_a_stall(qtbot: object) -> None:
    stream = random.Random(7)

    def drawn(number: int) -> Point:
        return point(f"g{number}", 10 ** stream.uniform(-0.9, 2.8), stream.uniform(0.1, 1), stream.uniform(0.1, 1))

    many = tuple(drawn(number) for number in range(2000))
    made = page(qtbot)
    qtbot.wait(50)  # type: ignore[attr-defined]  # the first letters that are painted load their fonts

    def work() -> None:
        made.show_roofline(line(OriginPoints("predicted", "", many, 0), OriginPoints("measured", "", many, 0)))
        for number in range(8):
            made.show_selection(f"g{number}")
            assert made.canvas.chart is not None
            qtbot.wait(30)  # type: ignore[attr-defined]
            plot = made.canvas.chart.plot()
            x, y = plot.places()[2 * number]
            hover(made.canvas.chart.viewport(), QPoint(round(x), round(y)))
            qtbot.wait(30)  # type: ignore[attr-defined]
            assert made.canvas.hovered_group
        made.resize(900 if made.width() == 640 else 640, 400)
        qtbot.wait(60)  # type: ignore[attr-defined]

    assert_fluent(work)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_predicted_is_hollow_measured_filled(qtbot: object, theme: str) -> None:
    far = (point("slow", 1, 0.1), point("fast", 300, 0.2))
    made = page(qtbot, OriginPoints("predicted", "", far, 0), OriginPoints("measured", "", far, 0))
    tokens = load_theme(theme)
    made.set_theme(tokens)
    spots = [spots_of(made, group) for group in ("slow", "fast")]
    image = made.canvas.grab().toImage()
    for hollow, filled in spots:
        assert image.pixelColor(hollow) == tokens.colour("panel")
        assert image.pixelColor(filled) == tokens.colour("text")


@pytest.mark.parametrize("size", [(700, 400), (700, 245), (434, 245), (420, 205)])
def test_names_of_roofs_are_whole_and_apart_or_left_out(qtbot: object, size: tuple[int, int]) -> None:
    made = page(qtbot)
    made.resize(*size)
    made.canvas.grab()
    chart = made.canvas.chart
    assert chart is not None
    said = []
    for plot in chart.plots.values():
        words = [item for item in plot.box.childGroup.childItems() if isinstance(item, pg.TextItem)]
        said += [item.toPlainText() for item in words]
        roofs = [item for item in words if item.toPlainText() in ("tensor cores", "CUDA cores", "4.00 TB/s")]
        boxes = [item.mapRectToScene(item.boundingRect()) for item in roofs]
        area = plot.box.sceneBoundingRect().adjusted(-2, -2, 2, 2)
        assert all(map(area.contains, boxes))
        assert not any(one.adjusted(1, 1, -1, -1).intersects(other) for one, other in combinations(boxes, 2))
    if size[1] == 400:
        assert [said.count(name) for name in ("tensor cores", "CUDA cores", "4.00 TB/s")] == [2, 2, 2]
