"""The Pipeline perspective with the real worker: chart, preview, NVRTC, apply as one step, listings, refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt

from app.session.client import COMMAND
from app.shell.main import make_window
from app.shell.preferences import keep_settings_in
from app.shell.window import Window
from engine.execution.sass import NO_TOOL, disassembler
from tests.app.driving import PATIENCE
from tests.support.needs import needs_nvrtc
from views.code.view import CUDA, PTX, SASS
from views.pipeline.geometry import ChartMark
from views.schedule.view import PIPELINE

ROW = "suite:gta/gemm-16x512x128"
GROUP = "matmul_0"

pytestmark = needs_nvrtc


def ready(window: Window, qtbot: object) -> None:
    """Waits until the worker has answered everything that the tabs want."""
    queries, client, scene = window.wiring.queries, window.workspace.client, window.panels.graph.scene

    def settled() -> bool:
        return client.is_idle and queries.is_settled and not scene.is_building

    qtbot.waitUntil(settled, timeout=4 * PATIENCE)  # type: ignore[attr-defined]  # real kernels, compiled by NVRTC


@pytest.fixture(scope="module")
def real(qapp: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """One window and one real worker for all tests of this module."""
    folder = tmp_path_factory.mktemp("pipeline")
    keep_settings_in(folder)
    made = make_window(theme="dark", command=COMMAND, journals=folder)
    made.show()
    made.workspace.start()
    made.open_file(ROW)
    yield made
    made.close()
    made.deleteLater()


@pytest.fixture
def piped(real: Window, qtbot: object) -> Window:
    """The Pipeline perspective with a product of halves, all sliders where the kernel stands."""
    ready(real, qtbot)
    real.workspace.bus.select_group(GROUP)
    real.action("pipeline").trigger()
    ready(real, qtbot)
    real.panels.code.select_tab(CUDA)
    real.panels.schedule.pipeline.what_if.reset.emit()
    return real


@pytest.mark.slow(sentinel=True)
def test_a_preview_is_answered_at_once_compiled_applied_and_taken_back(piped: Window, qtbot: object) -> None:
    page, history = piped.panels.schedule.pipeline, piped.workspace.histories[GROUP]
    assert piped.panels.schedule.tab == PIPELINE and page.chart is not None and page.chart.bars
    assert page.chart.registers > 0  # NVRTC was asked
    before, stages = page.chart, page.chart.stages
    slider = page.what_if.sliders["stages"]
    started = time.process_time()
    qtbot.keyPress(slider, Qt.Key.Key_Left)  # type: ignore[attr-defined]
    assert time.process_time() - started < 0.05
    assert slider.value == stages - 1 and page.what_if.state.text() == "preview, not applied"
    steps = len(history.steps)
    qtbot.keyRelease(slider, Qt.Key.Key_Left)  # type: ignore[attr-defined]
    ready(piped, qtbot)
    assert page.what_if.message.text().startswith("NVRTC sm_90a: ")

    page.what_if.apply_button.click()
    ready(piped, qtbot)
    own = history.step.text.partition("advice user")[2]
    assert len(history.steps) == steps + 1 and f"mark stages {stages - 1}" in own
    assert page.chart is not None and page.chart.stages == stages - 1
    assert not page.what_if.apply_button.isEnabled()
    piped.action("undo").trigger()
    ready(piped, qtbot)
    assert page.chart == before and history.step.text == before.recipe


@pytest.mark.slow(sentinel=True)
def test_what_cannot_be_is_refused_and_the_nearest_is_taken(piped: Window, qtbot: object) -> None:
    page = piped.panels.schedule.pipeline
    steps = len(piped.workspace.histories[GROUP].steps)
    qtbot.keyClick(page.what_if.sliders["rows"], Qt.Key.Key_Right)  # type: ignore[attr-defined]  # nearest is another
    for _ in range(6):
        qtbot.keyClick(page.what_if.sliders["stages"], Qt.Key.Key_End)  # type: ignore[attr-defined]
    assert "and the loop has" in page.what_if.refusal.text.text()
    assert not page.what_if.apply_button.isEnabled() and len(piped.workspace.histories[GROUP].steps) == steps
    page.what_if.refusal.button.click()
    ready(piped, qtbot)
    assert page.what_if.refusal.isHidden() and page.what_if.message.text().startswith("NVRTC ")
    page.what_if.reset_button.click()
    assert page.what_if.state.text() == "the kernel in use"


@pytest.mark.slow(sentinel=True)
def test_a_selected_tile_marks_its_lines_in_every_language(piped: Window, qtbot: object) -> None:
    page, code = piped.panels.schedule.pipeline, piped.panels.code
    page.canvas.select(ChartMark("compute", 1, 1))
    marked = code.text.marked
    lines = code.text.toPlainText().splitlines()
    assert marked and all("ldmatrix" in lines[n - 1] or "mma_" in lines[n - 1] for n in marked)

    code.select_tab(PTX)
    ready(piped, qtbot)
    lines = code.listing.lines
    assert lines and any("mma.sync" in lines[n - 1] for n in code.listing.marked)

    code.select_tab(SASS)
    ready(piped, qtbot)
    if disassembler() is None:
        assert code.listing.lines == [NO_TOOL]
    else:
        assert any("HMMA" in code.listing.lines[n - 1] for n in code.listing.marked)
    code.select_tab(CUDA)
    assert code.text.marked == marked
    code.line_selected.emit(next(bar.lines[0] for bar in page.chart.bars if bar.row == "copy"))  # type: ignore[union-attr]
    assert page.canvas.place is not None and page.canvas.place.row == "copy"
