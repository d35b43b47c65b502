"""The roofline by pointer and by keys: what is pointed at is told, what is reached is selected everywhere."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage

from tests.support.pointer import hover
from tests.support.stalls import assert_fluent
from views.roofline.axes import axes_of
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
    spots = made.canvas.spots("softmax")
    assert len(spots) == 2, "one in each plot"
    for spot in spots:
        hover(made.canvas, QPoint(1, 1))
        hover(made.canvas, spot.toPoint())
        assert made.canvas.hovered == "softmax"
        told = made.readout.text()
        assert "predicted 10.0 µs, at the baseline 20.0 µs" in told, "half as fast at the baseline"
        assert "measured 10.0 µs" in told and "80.0 % of the roof" in told
        qtbot.mouseClick(made.canvas, Qt.MouseButton.LeftButton, pos=spot.toPoint())  # type: ignore[attr-defined]
    assert reached == ["softmax", "softmax"]
    qtbot.mouseClick(made.canvas, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))  # type: ignore[attr-defined]
    assert len(reached) == 2, "where there is no kernel nothing is selected"


def test_points_on_one_spot_are_reached_one_after_the_other(qtbot: object) -> None:
    twins = (point("a", 1, 0.5), point("b", 1, 0.5), point("c", 1, 0.5))
    made = page(qtbot, OriginPoints("predicted", "", twins, 0))
    at = made.canvas.spots("a")[0].toPoint()
    reached: list[str] = []
    made.group_selected.connect(reached.append)
    for _ in range(4):
        qtbot.mouseClick(made.canvas, Qt.MouseButton.LeftButton, pos=at)  # type: ignore[attr-defined]
    assert reached == ["a", "b", "c", "a"]


def test_plots_have_equal_axes_and_everything_stands_inside(qtbot: object) -> None:
    made = page(qtbot, OriginPoints("predicted", "", POINTS, 0), OriginPoints("measured", "", POINTS, 0))
    axes, areas = axes_of(line(OriginPoints("predicted", "", POINTS, 0))), made.canvas.areas()
    for each in POINTS:
        spots = [axes.spot(area, each.intensity, each.height) - area.topLeft() for area in areas]
        assert spots[0] == spots[1]
        heights = [height for height in (each.height, each.ghost) if height]
        assert all(area.contains(axes.spot(area, each.intensity, height)) for area in areas for height in heights)
    assert areas[0].size() == areas[1].size()


def test_higher_is_faster_and_a_ghost_stands_straight_below_or_above() -> None:
    axes = axes_of(line(OriginPoints("predicted", "", POINTS, 0)))
    area = QRectF(0, 0, 300, 200)
    for part, other in pairwise((0.1, 0.3, 0.9)):
        assert axes.spot(area, 2, 1e12 * part).y() > axes.spot(area, 2, 1e12 * other).y()
    softmax = POINTS[1]
    assert softmax.ghost is not None
    now, then = (axes.spot(area, softmax.intensity, height) for height in (softmax.height, softmax.ghost))
    assert now.x() == then.x() and then.y() > now.y()


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
            hover(made.canvas, made.canvas.spots(f"g{2 * number}")[0].toPoint())
            qtbot.wait(30)  # type: ignore[attr-defined]
            assert made.canvas.hovered
        made.resize(900 if made.width() == 640 else 640, 400)
        qtbot.wait(60)  # type: ignore[attr-defined]

    assert_fluent(work)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_predicted_is_hollow_measured_filled(qtbot: object, theme: str) -> None:
    far = (point("slow", 1, 0.1), point("fast", 300, 0.2))
    made = page(qtbot, OriginPoints("predicted", "", far, 0), OriginPoints("measured", "", far, 0))
    tokens = load_theme(theme)
    made.set_theme(tokens)
    image = made.canvas.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)

    def pixel(at: QPointF) -> int:
        return image.pixel(round(at.x() * image.devicePixelRatio()), round(at.y() * image.devicePixelRatio()))

    for group in ("slow", "fast"):
        hollow, filled = made.canvas.spots(group)
        assert pixel(hollow) == tokens.colour("panel").rgb()
        assert pixel(filled) == tokens.colour("text").rgb()
