"""The picture of an iteration space: where things stand, what keys and drags ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF, QSizeF, Qt

from engine.documents.exploration import ArrowDoc, OrderDoc, SpaceDoc
from tests.app.fake_documents import ADVICE
from tests.app.fake_exploration import ILLEGAL, space, with_lines
from tests.support.pointer import drag_over
from views.space.canvas import CAPTION, SpaceCanvas
from views.space.geometry import ACROSS, DOWN, named_arrow, parallel_axes, plan
from views.space.painting import caption
from views.space.trial import AxisDrag, verdict
from views.space.view import SpacePage
from views.space.violation import ends, label_boxes
from views.theme import load_theme

SIZE = QSizeF(560, 330)


def legal(*axes: str) -> SpaceDoc:
    return space("softmax_0", ADVICE, axes)


def refused() -> SpaceDoc:
    return space("softmax_0", with_lines(ADVICE, [ILLEGAL]), ())


def test_points_stand_in_their_cells_and_none_on_another() -> None:
    doc = legal()
    laid = plan(doc, SIZE)
    places = [centre.toTuple() for centre in laid.centres]
    assert len(set(places)) == len(doc.points)
    for point, centre in zip(doc.points, laid.centres, strict=True):
        assert laid.cells(*point.position).contains(centre)
    assert all(0 <= x <= SIZE.width() and 0 <= y <= SIZE.height() for x, y in places)


def test_the_pointer_finds_points_labels_and_handles() -> None:
    laid = plan(legal(), SIZE)
    assert [laid.point_at(centre + QPointF(2, -2)) for centre in laid.centres] == list(range(len(laid.centres)))
    assert laid.point_at(QPointF(2, 2)) is None
    for axis in (ACROSS, DOWN):
        assert laid.label_at(laid.label_box(axis).center()) == axis
        assert laid.handle_at(laid.handle_box(axis, laid.doc.axes[axis].tile).center()) == axis
    assert laid.label_at(laid.area.center()) is None and laid.handle_at(laid.area.center()) is None


def test_a_handle_stands_at_the_end_of_the_first_tile() -> None:
    laid = plan(legal(), SIZE)
    for tile in (1, 4, 12):
        assert laid.tile_at(ACROSS, laid.handle_box(ACROSS, tile).center()) == tile
    assert laid.tile_at(ACROSS, QPointF(10_000, 0)) == 12 and laid.tile_at(DOWN, QPointF(0, -50)) == 1


def test_what_has_no_room_is_left_out_but_never_what_is_violated() -> None:
    small = QSizeF(560, 170)
    assert plan(legal(), small).shown[DOWN] < plan(legal(), SIZE).shown[DOWN] == 6
    doc = refused()
    laid = plan(doc, small)
    (wrong,) = (arrow for arrow in doc.arrows if arrow.violated)
    assert {wrong.source, wrong.sink} <= laid.drawn < frozenset(range(len(doc.points)))


@pytest.mark.parametrize(
    ("axes", "text"),
    [(("j", "i"), "time runs left to right, then down"), (("i", "j"), "time runs down, then left to right")],
)
def test_the_caption_tells_how_time_runs(axes: tuple[str, ...], text: str) -> None:
    assert caption(legal(*axes)) == text
    assert parallel_axes(legal(*axes)) == frozenset()


def test_both_ends_of_a_violated_dependence_are_named() -> None:
    doc = refused()
    (wrong,) = (arrow for arrow in doc.arrows if arrow.violated)
    assert ends(doc, wrong) == ("S2(i=2, j=9) writes m", "S3(i=2, j=3) reads m first")


def broken_everywhere() -> SpaceDoc:
    """S3 of every cell reads what its S2 has not written; the verdict tells of the first."""
    doc = legal()
    place = {point.text: number for number, point in enumerate(doc.points)}
    arrows = tuple(
        ArrowDoc(number, place[point.text.replace("S2", "S3")], "m", "flow", True, "")
        for number, point in enumerate(doc.points)
        if point.statement == "S2"
    )
    verdict = "breaks 1 of 9 dependences: S2[i=0, j=0] writes m[0], S3[i=0, j=0] reads it first"
    return replace(doc, arrows=doc.arrows + arrows, violated=1, requested=True, verdict=verdict)


def test_the_violated_dependence_that_is_named_lies_inside_the_picture() -> None:
    doc = broken_everywhere()
    number = named_arrow(doc)
    assert number is not None
    across, down = doc.points[doc.arrows[number].source].position
    assert 3 <= across <= 8 and 1 <= down <= 4
    other = ArrowDoc(0, 13, "x", "anti", True, "")
    corner = replace(doc, arrows=(*legal().arrows, other))
    assert named_arrow(corner) == len(corner.arrows) - 1, "the only one is named wherever it is"
    assert named_arrow(replace(doc, arrows=(*doc.arrows, other))) == number, "the verdict speaks of m, not of x"
    assert named_arrow(legal()) is None


@pytest.mark.parametrize("size", [SIZE, QSizeF(430, 190), QSizeF(900, 600)])
def test_labels_stand_on_no_mark_that_they_name_nor_on_axes_and_legend(size: QSizeF, qapp: object) -> None:
    for doc in (refused(), broken_everywhere()):
        laid = plan(doc, size)
        for arrow in (arrow for arrow in doc.arrows if arrow.violated and {arrow.source, arrow.sink} <= laid.drawn):
            first, second = label_boxes(laid, arrow)
            assert not first.intersects(second)
            assert min(first.top(), second.top()) >= CAPTION
            assert min(first.left(), second.left()) >= laid.area.left()
            assert max(first.right(), second.right()) <= size.width()
            assert max(first.bottom(), second.bottom()) <= laid.area.bottom() + 6
            for end in (arrow.source, arrow.sink):
                assert not any(box.contains(laid.centres[end]) for box in (first, second))


def test_a_trial_exchanges_two_axes_of_the_order() -> None:
    doc = legal()
    assert AxisDrag(ACROSS, target=DOWN).order(doc) == ("j", "i")
    assert AxisDrag(ACROSS, tile=8).order(doc) == () and AxisDrag(ACROSS, tile=8).tiles(doc) == (("j", 8),)
    assert not AxisDrag(ACROSS).is_change
    assert verdict(AxisDrag(ACROSS, tile=8), None)[0] == "not reached"
    assert verdict(AxisDrag(ACROSS, tile=8), OrderDoc((), "", False, "m runs backwards")) == (
        "infeasible",
        "Illegal: m runs backwards",
    )


@pytest.fixture
def canvas(qtbot: object) -> SpaceCanvas:
    made = SpaceCanvas()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.set_theme(load_theme("light"))
    made.resize(560, 330)
    made.show_space(legal())
    made.show()
    return made


def drag(qtbot: object, canvas: SpaceCanvas, start: QPointF, end: QPointF, release: bool = True) -> None:
    left = Qt.MouseButton.LeftButton
    qtbot.mousePress(canvas, left, pos=start.toPoint())  # type: ignore[attr-defined]
    for part in (0.5, 1.0):
        drag_over(canvas, (start + (end - start) * part).toPoint())
    if release:
        qtbot.mouseRelease(canvas, left, pos=end.toPoint())  # type: ignore[attr-defined]


def test_an_axis_dropped_on_the_other_asks_for_an_interchange(canvas: SpaceCanvas, qtbot: object) -> None:
    assert canvas.plan is not None
    tried, dropped = [], []
    canvas.tried.connect(tried.append)
    canvas.dropped.connect(dropped.append)
    across, down = canvas.plan.label_box(ACROSS).center(), canvas.plan.label_box(DOWN).center()
    drag(qtbot, canvas, across, down)
    assert [(trial.axis, trial.target) for trial in dropped] == [(ACROSS, DOWN)]
    assert [trial.target for trial in tried] == [DOWN], "asked once, while still held"
    drag(qtbot, canvas, across, canvas.plan.area.center())
    assert len(dropped) == 1, "let go beside an axis, nothing is asked for"


def test_a_handle_dragged_asks_for_a_tile(canvas: SpaceCanvas, qtbot: object) -> None:
    assert canvas.plan is not None
    dropped: list[AxisDrag] = []
    canvas.dropped.connect(dropped.append)
    start, end = (canvas.plan.handle_box(ACROSS, tile).center() for tile in (4, 6))
    drag(qtbot, canvas, start, end)
    assert [(trial.axis, trial.tile) for trial in dropped] == [(ACROSS, 6)]
    drag(qtbot, canvas, start, start)
    assert len(dropped) == 1, "where it was, it asks for nothing"


def test_keys_interchange_tile_and_take_back(canvas: SpaceCanvas, qtbot: object) -> None:
    dropped: list[AxisDrag] = []
    canvas.dropped.connect(dropped.append)
    canvas.setFocus()
    key = qtbot.keyClick  # type: ignore[attr-defined]
    key(canvas, Qt.Key.Key_Tab)
    assert "Axis j" in canvas.accessibleDescription()
    key(canvas, Qt.Key.Key_Up)
    assert canvas.trial == AxisDrag(ACROSS, target=DOWN)
    key(canvas, Qt.Key.Key_Escape)
    key(canvas, Qt.Key.Key_Return)
    assert canvas.trial is None and not dropped
    key(canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    key(canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    key(canvas, Qt.Key.Key_Return)
    assert [(trial.axis, trial.tile) for trial in dropped] == [(ACROSS, 16)]
    key(canvas, Qt.Key.Key_Tab)
    key(canvas, Qt.Key.Key_Right)
    key(canvas, Qt.Key.Key_Return)
    assert dropped[-1] == AxisDrag(DOWN, target=ACROSS)


def test_points_are_stepped_through_in_the_order_of_execution(canvas: SpaceCanvas, qtbot: object) -> None:
    chosen: list[str] = []
    canvas.statement_selected.connect(chosen.append)
    canvas.setFocus()
    for key in (Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_Right):
        qtbot.keyClick(canvas, key)  # type: ignore[attr-defined]
    assert canvas.accessibleDescription() == "S2(i=0, j=2), 3 of 144"
    qtbot.keyClick(canvas, Qt.Key.Key_End)  # type: ignore[attr-defined]
    qtbot.keyClick(canvas, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert chosen == ["S3"]


def test_a_click_on_a_point_selects_its_statement(canvas: SpaceCanvas, qtbot: object) -> None:
    assert canvas.plan is not None
    chosen: list[str] = []
    canvas.statement_selected.connect(chosen.append)
    for place in (canvas.plan.centres[12], QPointF(4, 4)):
        qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=place.toPoint())  # type: ignore[attr-defined]
    assert chosen == ["S3", ""]


def test_the_menu_of_an_axis_offers_what_dragging_does(canvas: SpaceCanvas) -> None:
    dropped: list[AxisDrag] = []
    canvas.dropped.connect(dropped.append)
    interchange, tiles = canvas.axis_menu(ACROSS).actions()
    interchange.trigger()
    sizes = tiles.menu().actions()  # type: ignore[attr-defined]
    assert [action.text() for action in sizes if action.isChecked()] == ["4"]
    sizes[3].trigger()
    assert dropped == [AxisDrag(ACROSS, target=DOWN), AxisDrag(ACROSS, tile=8)]


def pixels(canvas: SpaceCanvas, token: str) -> int:
    picture, wanted = canvas.grab().toImage(), load_theme("light").colour(token).rgb()
    return sum(picture.pixel(x, y) == wanted for x in range(picture.width()) for y in range(picture.height()))


def reddish(canvas: SpaceCanvas) -> int:
    """Pixels with red in them, also at the soft edges of thin lines."""
    picture = canvas.grab().toImage()
    colours = (picture.pixelColor(x, y) for x in range(picture.width()) for y in range(picture.height()))
    return sum(colour.red() > colour.green() + 40 for colour in colours)


def test_red_is_for_what_is_violated(canvas: SpaceCanvas) -> None:
    assert pixels(canvas, "wrong") == 0
    canvas.show_space(refused())
    assert pixels(canvas, "wrong") > 200


def test_other_violated_dependences_are_drawn_at_the_point_in_hand(canvas: SpaceCanvas, qtbot: object) -> None:
    canvas.show_space(broken_everywhere())
    doc, before = broken_everywhere(), reddish(canvas)
    canvas.setFocus()
    qtbot.keyClick(canvas, Qt.Key.Key_Home)  # type: ignore[attr-defined]
    assert reddish(canvas) > before
    assert canvas.accessibleDescription().endswith("1 of 144, 1 violated dependence")
    canvas.show_space(replace(doc, arrows=doc.arrows[:-1]))
    assert reddish(canvas) == before, "those of other points stay out of the picture"


def test_the_verdict_counts_what_is_not_drawn(qtbot: object) -> None:
    page = SpacePage()
    qtbot.addWidget(page)  # type: ignore[attr-defined]
    page.show_space(broken_everywhere())
    drawn = page.verdict.drawn
    assert drawn.text().startswith("Drawn: S2(i=") and drawn.text().endswith("one of 72 pairs here; point at others")
    page.show_space(refused())
    assert drawn.text() == "Drawn: S2(i=2, j=9)"
    page.show_space(legal())
    assert drawn.isHidden()


def test_a_dimension_taken_twice_changes_places(qtbot: object) -> None:
    page = SpacePage()
    qtbot.addWidget(page)  # type: ignore[attr-defined]
    asked: list[tuple[str, ...]] = []
    page.axes_requested.connect(asked.append)
    page.show_space(legal())
    page.choices[0].setCurrentText("i")
    page.choices[0].activated.emit(0)
    assert asked == [("i", "j")]


def test_the_verdict_offers_the_first_repairs(qtbot: object) -> None:
    page = SpacePage()
    qtbot.addWidget(page)  # type: ignore[attr-defined]
    asked: list[str] = []
    page.repair_requested.connect(asked.append)
    page.show_space(legal())
    assert page.verdict.sentence.text() == "legal, 9 of 9 dependences" and not page.verdict.buttons
    page.show_space(refused())
    assert page.chip.text() == "order as requested"
    page.verdict.buttons[0].click()
    assert asked == [refused().repairs[0].recipe]
    page.show_loading(True)
    assert page.chip.text() == "recipe changed"
