"""The pipeline's chart, memory map and sliders: what they show of a real kernel, what pointer and keys ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QSizeF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

import engine
from engine.documents.model import ProblemDoc
from engine.documents.pipeline import COMPUTE, COPY, STORE, BarDoc, ChartDoc, HazardDoc, VariantDoc, WhatIfDoc
from engine.explore.chrome_trace import trace_document
from engine.explore.pipeline_chart import chart
from engine.explore.what_if import turn_knob, what_if
from engine.tensorize.space import GemmConfig
from views.format import duration, figure
from views.pipeline.canvas import PipelineCanvas, describe
from views.pipeline.geometry import SHORTEST, ChartGeometry, ChartMark
from views.pipeline.shared import SharedMap
from views.pipeline.slider import ChoiceSlider
from views.pipeline.view import PipelinePage
from views.pipeline.what_if import WhatIf
from views.theme import load_theme

SIZE = QSizeF(960, 330)


@cache
def gelu() -> ChartDoc:
    """A product with a fused GELU on tensor cores, at its default knobs."""
    return chart(engine.compile(engine.fuse(engine.load("suite:transformer/8192x3072x768-bias-gelu")).groups[0]))


@cache
def softmax() -> ChartDoc:
    return chart(engine.compile(engine.fuse(engine.load("resources/models/softmax_96x512.onnx")).groups[0]))


def answer(name: str, value: int) -> WhatIfDoc:
    doc = gelu()
    assert doc.gemm is not None and doc.knobs is not None
    return what_if(doc.gemm, doc.knobs, turn_knob(doc.gemm.problem, doc.knobs, name, value), "h200")


def test_bars_stand_in_their_rows_and_inside_the_picture() -> None:
    plan = ChartGeometry(gelu(), SIZE)
    for bar in plan.doc.bars:
        box = plan.bar_box(bar)
        assert plan.left <= box.left() and box.right() <= plan.left + plan.width + 4
        assert box.top() >= plan.row_top(bar.row) and box.height() > 0 and box.width() >= 3
    for flight in plan.doc.flights:
        assert plan.flight_box(flight).top() > plan.break_at
    assert plan.height <= SIZE.height() + 40


def test_ticks_leave_out_what_is_folded() -> None:
    """The axis goes on after the fold with the block's own time."""
    plan = ChartGeometry(gelu(), SIZE)
    fold = plan.fold()
    assert fold is not None and plan.doc.folded[1] > 0
    texts = [(time, int(text.replace(",", ""))) for time, text in plan.ticks()]
    assert all(cycles == time for time, cycles in texts if time <= fold[0])
    beyond = [cycles - time for time, cycles in texts if time >= fold[1]]
    assert beyond and all(gap == pytest.approx(plan.doc.folded_cycles) for gap in beyond)


def test_a_click_selects_a_tile_with_its_copy_and_its_lines(qtbot: object) -> None:
    canvas = PipelineCanvas()
    canvas.set_theme(load_theme("dark"))
    canvas.resize(960, 330)
    canvas.show_chart(gelu())
    heard: list[tuple[int, ...]] = []
    canvas.lines_selected.connect(heard.append)
    assert canvas.plan is not None
    bar = next(bar for bar in gelu().bars if bar.row == COMPUTE and bar.step == 5 and not bar.kind)
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=canvas.plan.bar_box(bar).center().toPoint())  # type: ignore[attr-defined]
    assert canvas.place == ChartMark(COMPUTE, 5, 5)
    assert heard[-1] == bar.lines and "tile 5, stage 1" in canvas.accessibleDescription()
    copied = next(bar for bar in gelu().bars if bar.row == COPY and bar.tile == 5)
    canvas.show_line(copied.lines[0])
    assert canvas.place is not None and canvas.place.row == COPY


def test_keys_walk_through_tiles_and_rows(qtbot: object) -> None:
    canvas = PipelineCanvas()
    canvas.resize(960, 330)
    canvas.show_chart(gelu())
    places = []
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_End, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(canvas, key)  # type: ignore[attr-defined]
        places.append(canvas.place)
    last = gelu().steps - 1
    assert [(p.row, p.tile) for p in places[:4] if p] == [
        (COMPUTE, 0), (COMPUTE, 1), ("wait", 1), (COMPUTE, last)
    ]  # fmt: skip
    assert places[-1] is not None and places[-1].row == STORE
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)  # type: ignore[attr-defined]
    assert canvas.place is None and canvas.accessibleDescription() == "Nothing is selected"


def test_bars_are_told_in_words() -> None:
    stall = next(bar for bar in gelu().bars if bar.kind == "stall")
    assert describe(stall).startswith("Stall: ") and "waiting for tile 0" in describe(stall)
    wrong = BarDoc(COMPUTE, 3, 3, 1, 0.0, 10.0, "hazard", "step 3 reads it too early")
    assert "tile 3, stage 1" in describe(wrong) and describe(wrong).endswith("too early")


def test_the_map_tells_bytes_and_passes(qtbot: object) -> None:
    shared = SharedMap()
    shared.resize(480, 320)
    shared.show_chart(gelu())
    heard: list[str] = []
    shared.buffer_selected.connect(heard.append)
    assert "64 KiB of 227 KiB per block; a_2_tile: 4 stages" in shared.accessibleDescription()
    qtbot.keyClick(shared, Qt.Key.Key_Right)  # type: ignore[attr-defined]
    assert heard == ["b_2_tile"] and "1 of 8 passes" in shared.accessibleDescription()


def test_a_slider_turns_while_it_moves_and_says_when_it_stands(qtbot: object) -> None:
    slider = ChoiceSlider("Stages")
    slider.resize(220, 24)
    slider.show_choices((1, 2, 3, 4, 5, 6), 4, 4)
    turned_to: list[int] = []
    slider.turned.connect(turned_to.append)
    with qtbot.waitSignal(slider.released):  # type: ignore[attr-defined]
        qtbot.keyClick(slider, Qt.Key.Key_Left)  # type: ignore[attr-defined]
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPointF(212, 12).toPoint())  # type: ignore[attr-defined]
    assert turned_to == [3, 6]
    slider.show_choices((1, 2, 3, 4, 5, 6), 4, 6)
    assert slider.accessibleDescription().startswith("6, now 4")


def test_a_preview_stands_beside_the_present_and_can_be_applied(qtbot: object) -> None:
    panel = WhatIf()
    panel.set_theme(load_theme("dark"))
    panel.show_choices(gelu())
    stages = gelu().stages
    panel.show_answer(answer("stages", stages), gelu())
    assert not panel.apply_button.isEnabled() and panel.state.text() == "the kernel in use"
    panel.show_answer(answer("stages", 2), gelu())
    assert panel.apply_button.isEnabled() and panel.state.text() == "preview, not applied"
    assert panel._values["stages"].text() == f"{stages} → 2"
    assert panel.gain.text().startswith("▲ 8.3 % against 76.6 µs") and panel.alcop.text().count(" → ") == 1
    panel.show_answer(answer("stages", 3), gelu())
    assert panel.gain.text().startswith("no change") and panel.alcop.text().count(" → ") == 1
    panel.show_answer(answer("rows", 16), gelu())
    assert panel.gain.text().startswith("▲ ") and panel.origin.text() == "predicted, uncalibrated"
    with qtbot.waitSignals([panel.applied, panel.reset]):  # type: ignore[attr-defined]
        panel.apply_button.click()
        panel.reset_button.click()


def test_a_refusal_has_figures_and_a_way_out(qtbot: object) -> None:
    panel = WhatIf()
    panel.show_choices(gelu())
    doc = gelu()
    assert doc.gemm is not None and doc.knobs is not None
    panel.show_answer(what_if(doc.gemm, doc.knobs, GemmConfig((256, 256, 64), (64, 64), 6), "h200"), doc)
    assert not panel.refusal.isHidden() and not panel.apply_button.isEnabled()
    assert "384 KiB of shared memory, a block may have 227 KiB" in panel.refusal.text.text()
    assert panel.refusal.button.text() == "Use 3 stages" and panel.headline.text() == "–"
    with qtbot.waitSignal(panel.nearest_requested):  # type: ignore[attr-defined]
        panel.refusal.button.click()


def test_the_compiler_has_the_last_word() -> None:
    panel = WhatIf()
    panel.show_choices(gelu())
    doc = answer("stages", 3)
    panel.show_answer(doc, gelu())
    panel.show_compiling()
    assert "NVRTC is compiling" in panel.message.text()
    assert doc.then is not None
    panel.show_compiled(VariantDoc("g", "", doc.knobs, "", (), "sm_90a", 172, 8, 98304, 1, doc.then))
    assert panel.message.text().startswith("NVRTC sm_90a: 172 registers, 8 B spilled; an SM holds 1 block")
    panel.show_problem(ProblemDoc("run", "NVRTC", "cannot be loaded", "install it"))
    assert panel.message.text() == "NVRTC: cannot be loaded (install it)"


def test_a_page_follows_its_kernel(qtbot: object) -> None:
    page = PipelinePage()
    page.set_theme(load_theme("light"))
    page.resize(1000, 800)
    page.show()
    page.show_chart(gelu())
    assert page.swatch.isVisible()
    assert page.title.text() == "Block 0 of 1,536" and "✓ 0 hazards" in page.hazards.text()
    assert page.used.text() == "64 KiB of 227 KiB per block" and "uncalibrated" in page.origin.text()
    page.canvas.select(ChartMark(COMPUTE, 5, 5))
    assert page.shared._stage == 1
    page.show_chart(replace(gelu(), hazards=(HazardDoc("no barrier", 3, 1, "step 3 reads"),)))
    assert page.hazards.text() == "✕ 1 hazard" and page.hazards.toolTip() == "step 3 reads"
    page.show_chart(softmax())
    assert not page.canvas.isVisible() and "nothing to pipeline" in page.no_loop.text()
    assert not page.swatch.isVisible() and page.no_loop.text().startswith("This kernel")
    assert not page.what_if.isEnabled() and not page.what_if.figures.isVisible()
    assert "Only tiled contractions" in page.what_if.message.text()
    page.show_problem(ProblemDoc("predict", "kernel", "not one block fits", ""))
    assert page.chart is None and page.message.text() == "kernel: not one block fits"


def test_a_chart_is_a_trace_that_perfetto_opens() -> None:
    doc = gelu()
    events = trace_document(doc)["traceEvents"]
    spans = [each for each in events if each["ph"] == "X"]
    threads = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert len(spans) == len(doc.bars) + 3 * len(doc.flights)
    assert len(threads) == 4 + len({flight.stage for flight in doc.flights})
    assert all(each["dur"] >= 0 and each["ts"] >= 0 for each in spans)
    end = max(each["ts"] + each["dur"] for each in spans)
    assert end == pytest.approx(doc.cycles / doc.clock), "what is folded away keeps its time"
    first = next(each for each in spans if threads[each["tid"]] == COMPUTE and each["args"]["step"] == 0)
    bar = next(bar for bar in doc.bars if bar.row == COMPUTE and bar.step == 0)
    assert first["ts"] == pytest.approx(bar.start / doc.clock) and first["args"]["cycles"] == bar.end - bar.start


def zoomed(theme: str = "dark") -> PipelineCanvas:
    canvas = PipelineCanvas()
    canvas.set_theme(load_theme(theme))
    canvas.resize(960, 330)
    canvas.show_chart(gelu())
    return canvas


def turn_wheel(canvas: PipelineCanvas, at: QPointF, notches: int) -> QWheelEvent:
    none, phase = Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(
        at, canvas.mapToGlobal(at), QPoint(), QPoint(0, 120 * notches), Qt.MouseButton.NoButton, none, phase, False
    )
    canvas.wheelEvent(event)
    return event


def test_the_wheel_zooms_around_the_pointer_and_0_shows_everything(qtbot: object) -> None:
    canvas = zoomed()
    at = QPointF(500, 60)
    assert canvas.plan is not None
    before, end = canvas.plan.cycles(at.x()), canvas.plan.end
    turn_wheel(canvas, at, 5)
    assert canvas.span is not None and canvas.plan.cycles(at.x()) == pytest.approx(before)
    assert canvas.plan.high - canvas.plan.low == pytest.approx(end * 0.8**5)
    assert all(canvas.plan.low <= time <= canvas.plan.high for time, _ in canvas.plan.ticks())
    assert not turn_wheel(canvas, QPointF(40, 60), 1).isAccepted(), "over the names of the rows the page scrolls"
    turn_wheel(canvas, at, 60)
    assert canvas.plan.high - canvas.plan.low == pytest.approx(SHORTEST)
    canvas.grab()
    qtbot.keyClick(canvas, "0")  # type: ignore[attr-defined]
    assert canvas.span is None and (canvas.plan.low, canvas.plan.high) == (0.0, end)
    qtbot.keyClick(canvas, "-")  # type: ignore[attr-defined]
    assert canvas.span is None, "there is nothing beyond the picture"


def test_a_drag_pans_and_with_ctrl_zooms_to_a_span(qtbot: object) -> None:
    canvas = zoomed()
    assert canvas.plan is not None
    wanted = canvas.plan.cycles(300), canvas.plan.cycles(500)
    left, control = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier
    drag(canvas, QPointF(300, 60), QPointF(500, 60), control)
    assert canvas.span == pytest.approx(wanted) and canvas.place is None, "a drag selects nothing"
    seen = canvas.plan.cycles(600)
    drag(canvas, QPointF(600, 60), QPointF(520, 60))
    assert canvas.plan.cycles(520) == pytest.approx(seen), "what was under the pointer stays under it"
    drag(canvas, QPointF(200, 60), QPointF(900, 60))
    drag(canvas, QPointF(200, 60), QPointF(900, 60))
    assert canvas.plan.low == 0.0, "it ends at the beginning of the block"
    qtbot.keyClick(canvas, Qt.Key.Key_End)  # type: ignore[attr-defined]
    last = next(bar for bar in gelu().bars if bar.row == COMPUTE and bar.tile == gelu().steps - 1)
    assert canvas.plan.is_seen(last.start, last.end), "what is selected by a key comes into sight"
    qtbot.mouseDClick(canvas, left, pos=QPoint(500, 60))  # type: ignore[attr-defined]
    assert canvas.span is None


def drag(
    canvas: PipelineCanvas, start: QPointF, end: QPointF,
    held: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:  # fmt: skip
    kinds, left = QEvent.Type, Qt.MouseButton.LeftButton
    for kind, at, button in (
        (kinds.MouseButtonPress, start, left), (kinds.MouseMove, (start + end) / 2, Qt.MouseButton.NoButton),
        (kinds.MouseMove, end, Qt.MouseButton.NoButton), (kinds.MouseButtonRelease, end, left),
    ):  # fmt: skip
        QApplication.sendEvent(canvas, QMouseEvent(kind, at, canvas.mapToGlobal(at), button, left, held))


def test_the_pointer_tells_the_time_that_the_block_has() -> None:
    """Beyond the fold with what it hides; the figures are those of the axis and of the clock."""
    canvas = zoomed()
    assert canvas.plan is not None and canvas.readout() == ""
    fold = canvas.plan.fold()
    assert fold is not None
    canvas.pointer = QPointF(canvas.plan.x(fold[0] / 2), 60)
    told = fold[0] / 2
    assert canvas.readout() == f"{figure(told)} cycles, {duration(told / gelu().clock)}"
    canvas.pointer = QPointF(canvas.plan.x(sum(fold) / 2), 60)
    assert canvas.readout() == f"{gelu().folded[1]:,} more steps"
    canvas.pointer = QPointF(canvas.plan.x(canvas.plan.end), 60)
    assert canvas.readout().startswith(f"{figure(gelu().cycles)} cycles")
    canvas.grab()
    canvas.pointer = QPointF(20, 60)
    assert canvas.readout() == ""


def test_the_menu_saves_the_picture_and_asks_for_the_trace(qtbot: object) -> None:
    canvas = zoomed()
    heard: list[bool] = []
    canvas.trace_requested.connect(lambda: heard.append(True))
    menu = canvas.make_menu()
    actions = {action.text(): action for action in menu.actions() if action.text()}
    assert list(actions) == ["Show everything\t0", "Save as PNG…", "Save as SVG…", "Export Trace (Perfetto)…"]
    actions["Export Trace (Perfetto)…"].trigger()
    assert heard == [True]
