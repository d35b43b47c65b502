"""Plots under the pointer: zoomed, panned, reset, read off, made logarithmic, saved; and what 20,000 samples cost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QFileDialog

from tests.benchmarks import plots
from tests.support.plots import drag, spot, wheel
from tests.support.pointer import hover
from views.plots import chart_import
from views.plots.mark_style import MarkStyle
from views.plots.marks import paint_marks
from views.plots.writing import csv_of, png_of, save_as
from views.theme import load_theme
from views.timing.live import GpuReading, Live, Series
from views.timing.plot import SamplePlot

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def live(count: int, origin: str = "measured", looks: bool = True) -> Live:
    draw = random.Random(count)
    samples = [draw.gauss(40, 0.5) for _ in range(count)]
    low, median, high = (sorted(samples)[count * part // 10] for part in (2, 5, 8))
    readings = [GpuReading(at, 1755.0, 50.0) for at in range(0, count, max(count // 20, 1))] if looks else []
    return Live(Series("softmax", origin, "H200", "", samples, median, low, high, looks=readings, total=count))


def shown(qtbot: object, data: Live, theme: str = "dark") -> SamplePlot:
    made = SamplePlot()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.set_theme(load_theme(theme))
    made.resize(640, 360)
    made.show()
    made.show_live(data)
    picture(made)
    return made


def picture(plot: SamplePlot) -> QImage:
    return plot.grab().toImage()


def view(plot: SamplePlot) -> QRectF:
    assert plot.chart is not None
    return QRectF(plot.chart.plot().box.viewRect())


@pytest.fixture
def end_of_import(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A thread imports charts until this is set, or until somebody who waits for it has set it."""
    ended, main = threading.Event(), threading.current_thread()

    def wait(name: str) -> None:
        (ended.set if threading.current_thread() is main else ended.wait)()

    monkeypatch.setattr(chart_import, "import_module", wait)
    thread = threading.Thread(target=chart_import.import_charts)
    thread.start()
    while not chart_import.are_charts_coming():
        pass
    yield ended
    ended.set()
    thread.join()


def wait_for_data(qtbot: object) -> SamplePlot:
    made = SamplePlot()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.set_theme(load_theme("dark"))
    made.resize(640, 360)
    made.show()
    made.show_live(live(100))
    return made


def test_a_plot_that_is_shown_while_a_thread_imports_charts_comes_when_they_are_there(
    qtbot: Any, end_of_import: threading.Event
) -> None:
    plot = wait_for_data(qtbot)
    plot.repaint()
    qtbot.wait(60)
    assert plot.chart is None and not end_of_import.is_set()
    end_of_import.set()
    qtbot.waitUntil(lambda: plot.chart is not None)


def test_a_picture_waits_for_the_import_of_charts(qtbot: object, end_of_import: threading.Event) -> None:
    plot = wait_for_data(qtbot)
    assert png_of(plot) and plot.chart is not None


MIDDLE = QPoint(340, 120)


def test_wheel_and_drags_change_the_range_and_a_double_click_or_a_key_bring_it_back(qtbot: object) -> None:
    plot = shown(qtbot, live(100))
    home = view(plot)
    wheel(plot, MIDDLE, 2)
    closer = view(plot)
    assert closer.width() < home.width() and closer.height() < home.height() and home.contains(closer)
    drag(plot, MIDDLE, MIDDLE + QPoint(60, 0))
    assert view(plot).left() < closer.left() and view(plot).width() == pytest.approx(closer.width())
    qtbot.keyClicks(plot, "0")  # type: ignore[attr-defined]
    assert view(plot) == home
    qtbot.keyClicks(plot, "+")  # type: ignore[attr-defined]
    assert view(plot).width() < home.width()
    assert plot.chart is not None
    qtbot.mouseDClick(plot.chart.viewport(), Qt.MouseButton.LeftButton, pos=MIDDLE)  # type: ignore[attr-defined]
    assert view(plot) == home


def test_a_rectangle_drawn_with_control_is_zoomed_to(qtbot: object) -> None:
    plot = shown(qtbot, live(100))
    assert plot.chart is not None
    box = plot.chart.plot().box
    first, last = MIDDLE - QPoint(80, 30), MIDDLE + QPoint(40, 20)
    corners = [box.mapSceneToView(QPointF(corner)) for corner in (first, last)]
    drag(plot, first, last, CTRL)
    found = view(plot)
    assert found.left() == pytest.approx(corners[0].x()) and found.right() == pytest.approx(corners[1].x())
    assert found.bottom() == pytest.approx(corners[0].y()) and found.top() == pytest.approx(corners[1].y())


def test_new_samples_leave_the_range_that_was_chosen(qtbot: object) -> None:
    plot = shown(qtbot, live(100))
    home = view(plot)
    plot.show_live(live(400))
    picture(plot)
    assert view(plot).width() > home.width(), "it follows while nobody has zoomed"
    wheel(plot, MIDDLE, 1)
    kept = view(plot)
    plot.show_live(live(900))
    picture(plot)
    assert view(plot) == kept


def test_the_strips_share_the_samples_axis(qtbot: object) -> None:
    plot = shown(qtbot, live(100))
    assert plot.chart is not None and len(plot.chart.plots) == 3
    wheel(plot, MIDDLE, 3)
    ranges = {tuple(each.box.viewRange()[0]) for each in plot.chart.plots.values()}
    assert len(ranges) == 1
    plot.show_live(live(100, looks=False))
    picture(plot)
    assert len(plot.chart.plots) == 1, "without a clock there are no strips"


def test_the_pointer_reads_values_and_names_the_point(qtbot: object) -> None:
    data = live(30)
    plot = shown(qtbot, data)
    at = spot(plot, 12)
    assert plot.chart is not None
    hover(plot.chart.viewport(), at)
    told = plot.chart.readout.text()
    assert f"sample 12: {data.series.samples[11]:.1f} µs" in told and "measured µs" in told
    assert plot.hovered == 12 and all(line.isVisible() for line in plot.chart.plot().cross)
    plot.chart.point_at(None)
    assert not plot.chart.readout.isVisible() and plot.hovered == -1


def test_a_logarithmic_axis_keeps_points_and_order(qtbot: object) -> None:
    plot = shown(qtbot, live(50))
    before = [spot(plot, key).y() for key in range(1, 51)]
    menu = plot.make_menu()
    assert [action.text() for action in menu.actions() if action.isCheckable()] == ["Logarithmic y"]
    plot.set_log("y", True)
    after = [spot(plot, key).y() for key in range(1, 51)]
    assert (np.diff(np.array(after)[np.argsort(before)]) >= -1).all() and before != after, "one pixel is rounding"
    assert plot.chart is not None
    x, y = plot.chart.plot().read(QPointF(spot(plot, 7)))
    assert round(x) == 7 and y == pytest.approx(plot.samples[6], rel=0.02)


def test_a_theme_is_taken_over_at_once(qtbot: object) -> None:
    plot = shown(qtbot, live(20))
    for name in ("light", "dark"):
        theme = load_theme(name)
        plot.set_theme(theme)
        image = picture(plot)
        assert image.pixelColor(2, 2) == theme.colour("panel")
        at = spot(plot, 5)
        assert image.pixelColor(at) == theme.colour("text-2")


def test_a_plot_is_saved_as_picture_drawing_and_table(qtbot: object, tmp_path: Path) -> None:
    plot = shown(qtbot, live(20))
    texts = [action.text() for action in plot.make_menu().actions()]
    assert texts[-3:] == ["Save as PNG…", "Save as SVG…", "Save as CSV…"]
    for suffix in ("png", "svg", "csv"):
        action = next(each for each in plot.make_menu().actions() if suffix.upper() in each.text())
        action.trigger()
        dialog = plot.findChildren(QFileDialog, "save")[-1]
        dialog.fileSelected.emit(str(tmp_path / f"plot.{suffix}"))
        dialog.close()
    assert not QImage(str(tmp_path / "plot.png")).isNull()
    drawing = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) >= 3
    assert any("sample" in (text.text or "") for text in drawing.iter("{http://www.w3.org/2000/svg}text"))
    lines = (tmp_path / "plot.csv").read_text().splitlines()
    assert lines[0] == "sample,microseconds" and lines[3] == f"3,{plot.samples[2]}" and len(lines) == 21


def test_a_place_that_cannot_be_written_is_told(qtbot: object, tmp_path: Path) -> None:
    plot = shown(qtbot, live(20))
    dialog = save_as(plot, "x", "csv", lambda: csv_of(("a",), [(1,)]))
    dialog.fileSelected.emit(str(tmp_path / "nowhere" / "x.csv"))
    dialog.close()
    box = next(each for each in plot.children() if each.metaObject().className() == "QMessageBox")
    assert "nowhere" in box.text()  # type: ignore[attr-defined]
    box.close()  # type: ignore[attr-defined]


def test_the_shape_of_a_mark_is_its_origin(qapp: object) -> None:
    def painted(origin: str) -> tuple[int, int]:
        image = QImage(40, 40, QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        places = np.array([20.0]), np.array([20.0])
        paint_marks(painter, QRectF(4, 4, 32, 32), *places, MarkStyle("text", origin), load_theme("dark"))
        painter.end()
        opaque = sum(image.pixelColor(x, y).alpha() > 128 for x in range(40) for y in range(40))
        return image.pixelColor(20, 20).alpha(), opaque

    measured, predicted, synthetic, published = map(painted, ("measured", "predicted", "synthetic", "published"))
    assert measured[0] == published[0] == 255 and predicted[0] == synthetic[0] == 0
    assert measured[1] > predicted[1] > synthetic[1] > 0 and measured[1] > published[1] > 0


def test_no_extreme_of_very_many_samples_is_left_out(qtbot: object) -> None:
    data = live(50_000, looks=False)
    samples = list(data.series.samples)
    samples[31_415], samples[27_182] = 38.0 - 3, 38.0 - 3.5
    data = Live(Series("s", "measured", "", "", samples, 40.0, 39.6, 40.4, total=50_000))
    plot = shown(qtbot, data)
    image, text = picture(plot), load_theme("dark").colour("text-2")
    for key in (31_416, 27_183):
        assert image.pixelColor(spot(plot, key)) == text


@pytest.mark.slow(sentinel=True)
def test_streaming_many_samples_is_fluent(qtbot: object) -> None:
    """A fifth of the benchmark's, within its budget of the processor's time."""
    took = plots.frames_of(20_000, rounds=6)
    assert all(milliseconds < plots.BUDGET for milliseconds in took.values()), took
