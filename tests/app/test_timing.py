"""Live samples, replays, baselines and refusals in the window; every sample here is made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog

from app.controllers.sampling import SampleRun
from app.shell.window import Window
from engine.documents.model import Time
from tests.app.driving import MODEL, PATIENCE, afresh, play, select, settle
from tests.app.recordings import entry, of_model, of_suite, written
from tests.support.stalls import assert_fluent
from views.roofline.nodes import Point
from views.timing.live import Live
from views.timing.view import LIVE

"""The longest that the window may stand still (DESIGN 10)."""


@pytest.fixture
def window(shared: Window, qtbot: object) -> Window:
    afresh(shared, qtbot)
    return shared


def shown(window: Window) -> str:
    """What stands over the samples."""
    return "\n".join(window.panels.timing.live.headline.texts())


def refused(window: Window) -> str:
    """What stands in the panel where something was refused; "" where nothing was."""
    page = window.panels.timing.live
    text = f"{page.refused.title.text()}\n{page.refused.text.text()}"
    return text if page.pages.currentWidget() is page.refused else ""


def to_end(window: Window, qtbot: object) -> None:
    """Waits for the end of a row, and until it is shown."""
    timing, page = window.wiring.timing, window.panels.timing.live
    whole = lambda: timing.run is not None and timing.run.is_whole and len(page.plot.samples) == timing.run.total  # noqa: E731
    qtbot.waitUntil(whole, timeout=PATIENCE)  # type: ignore[attr-defined]
    timing.show()


@pytest.mark.slow(sentinel=True)
def test_samples_of_the_worker_arrive_with_their_clock(
    make: Callable[..., Window], qtbot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPU", "NVIDIA H200")
    window = make()
    window.workspace.start()
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot)
    window.action("time").trigger()
    page = window.panels.timing.live
    qtbot.waitUntil(lambda: 5 <= len(page.plot.samples) < 20, timeout=PATIENCE)  # type: ignore[attr-defined]
    assert "sample" in shown(window) and window.panels.timing.tabs[LIVE].isChecked()
    settle(window, qtbot)
    to_end(window, qtbot)
    assert len(page.plot.samples) == 20 and "25.4 µs" in shown(window)
    assert "synthetic" in shown(window) and "NVIDIA H200 · 18 Nov 2026 09:12" in shown(window)
    assert "1980 MHz, 41 °C" in page.plot.accessibleDescription()
    assert not page.deck.isVisible(), "nothing is replayed"
    select(window, qtbot, "matmul_4")
    assert page.pages.currentWidget() is page.missing
    select(window, qtbot, "softmax_0")
    assert len(page.plot.samples) == 20, "samples belong to their group"


def test_a_thousand_samples_a_second_never_stop_the_window(
    make: Callable[..., Window], qtbot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPU", "NVIDIA H200")
    monkeypatch.setenv("FAKE_SAMPLES", "1000")
    window = make()
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot)

    def work() -> None:
        window.action("time").trigger()
        settle(window, qtbot)
        assert len(window.wiring.timing.runs["softmax_0"].samples) == 1000

    assert_fluent(work)


@pytest.mark.slow(sentinel=True)
def test_a_long_replay_never_stops_the_window(window: Window, qtbot: object, tmp_path: Path) -> None:
    document = of_suite(loomscope=20.0)
    document["rows"][0]["systems"]["loomscope"] = entry(20.0, 40_000)
    file = written(document, tmp_path)

    def work() -> None:
        player = play(window, qtbot, file).player
        assert player is not None
        player.run.samples.extend(player.take.time.samples[:37_500])
        to_end(window, qtbot)
        assert len(window.panels.timing.live.plot.samples) == 40_000

    assert_fluent(work)


def test_a_replay_shows_every_sample_in_its_order(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    document = of_model(window.workspace.model)
    timing = play(window, qtbot, written(document, tmp_path))
    timing.play(3)
    assert window.workspace.bus.selection.group == "softmax_0", "the group that plays is selected"
    to_end(window, qtbot)
    kernel = document["kernels"][3]
    page = window.panels.timing.live
    assert list(page.plot.samples) == kernel["samples"]
    low, middle, high = np.percentile(kernel["samples"], (20, 50, 80))
    assert f"p20–p80 {low:.1f}–{high:.1f}" in shown(window) and f"{middle:.1f} µs" in shown(window)
    assert page.deck.position.text() == "200 of 200" and "times.json" in page.deck.rows.toolTip()


def test_device_date_and_origin_are_always_told(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    timing = play(window, qtbot, written(of_model(window.workspace.model), tmp_path), speed=20)
    for _ in range(5):
        qtbot.wait(60)  # type: ignore[attr-defined]
        assert "synthetic, replayed" in shown(window) and "NVIDIA H200 · 18 Nov 2026 09:12" in shown(window)
    timing.pause()
    assert "NVIDIA H200" in shown(window)


def test_a_replay_pauses_goes_on_faster_and_stops(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    timing = play(window, qtbot, written(of_model(window.workspace.model, count=3000), tmp_path), speed=100)
    player = timing.player
    assert player is not None
    qtbot.waitUntil(lambda: len(player.run.samples) > 5, timeout=PATIENCE)  # type: ignore[attr-defined]
    window.action("replay-pause").trigger()
    held = len(player.run.samples)
    qtbot.wait(120)  # type: ignore[attr-defined]
    assert len(player.run.samples) == held and not player.is_playing
    window.action("faster").trigger()
    window.action("faster").trigger()
    window.action("faster").trigger()
    assert player.speed == 1000, "the fastest there is"
    window.action("slower").trigger()
    assert player.speed == 500
    window.action("replay-pause").trigger()
    qtbot.waitUntil(lambda: len(player.run.samples) > held + 50, timeout=PATIENCE)  # type: ignore[attr-defined]
    assert timing.times, "while it is open, its times are those of the kernels"
    window.action("replay-stop").trigger()
    assert timing.player is None and not timing.times
    assert not window.action("replay-pause").isEnabled()
    assert window.panels.timing.live.pages.currentWidget() is window.panels.timing.live.missing


def test_the_pace_is_the_chosen_one(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    timing = play(window, qtbot, written(of_model(window.workspace.model, count=4000), tmp_path), speed=500)
    player = timing.player
    assert player is not None
    timing.play(0)
    qtbot.wait(1000)  # type: ignore[attr-defined]
    timing.pause()
    assert 300 <= len(player.run.samples) <= 600, "500 in a second, give or take what the machine is late"


def test_the_same_again_is_no_significant_change_and_a_slower_peer_is_one(
    window: Window, qtbot: object, tmp_path: Path
) -> None:
    systems = {"loomscope": 20.0, "again": 20.02, "torch": 22.0}
    timing = play(window, qtbot, written(of_suite(**systems), tmp_path))
    to_end(window, qtbot)
    window.action("pin-samples").trigger()
    assert "no significant change" in shown(window), "they are the same samples"
    timing.play(1)
    to_end(window, qtbot)
    assert "no significant change against pinned loomscope, 20.0 µs" in shown(window)
    timing.play(2)
    to_end(window, qtbot)
    assert "▲ 10" in shown(window) and "95 % between" in shown(window)


def test_samples_of_other_rows_and_devices_are_not_compared(window: Window, qtbot: object, tmp_path: Path) -> None:
    document = of_suite(("suite:a/b", "suite:a/c"), loomscope=20.0, torch=20.0)
    document["rows"][0]["systems"]["torch"]["origin"] = "measured"
    timing = play(window, qtbot, written(document, tmp_path))
    to_end(window, qtbot)
    timing.pin()
    for number in (1, 2):
        timing.play(number)
        to_end(window, qtbot)
        assert "against" not in shown(window)


def test_a_restless_run_is_flagged(window: Window, qtbot: object, tmp_path: Path) -> None:
    document = of_suite(loomscope=20.0, restless=20.0)
    document["rows"][0]["systems"]["restless"] = entry(20.0, 200, spread=0.3)
    timing = play(window, qtbot, written(document, tmp_path))
    to_end(window, qtbot)
    assert "% of the median" not in shown(window)
    timing.play(1)
    to_end(window, qtbot)
    assert "p20 to p80 is" in shown(window)


def test_measured_times_reach_table_graph_and_legend(window: Window, qtbot: object, tmp_path: Path) -> None:
    model = window.workspace.model
    assert model is not None
    graph = window.panels.graph
    window.show_colour("measured")
    assert graph.canvas.legend.where == "nothing measured yet"
    document = of_model(model)
    play(window, qtbot, written(document, tmp_path))
    medians = {kernel["group"]: kernel["microseconds"] for kernel in document["kernels"]}
    assert {row.key: row.value.measured.microseconds for row in rows(window)} == medians
    assert graph.scene.look.times["softmax_0"].microseconds == medians["softmax_0"]
    tip = next(row.tip for row in rows(window) if row.key == "softmax_0")
    assert "25.6 µs predicted, uncalibrated" in tip and "synthetic, NVIDIA H200, 2026-11-18" in tip
    legend = graph.canvas.legend
    assert (legend.title, legend.where) == ("synthetic time per launch", "NVIDIA H200, 2026-11-18")
    assert graph.origin.text().endswith("synthetic")
    window.action("measured-times").trigger()
    assert graph.canvas.legend.title == "predicted time per launch" and "model" in graph.canvas.legend.where
    assert graph.scene.look.times["softmax_0"].origin == "predicted"


def rows(window: Window) -> list[object]:
    view = window.panels.timing.kernels.rows
    return [view.row_at(view.index_of(key)) for key in view]


def test_a_layer_with_one_unmeasured_kernel_has_no_measured_time(window: Window, qtbot: object, tmp_path: Path) -> None:
    model = window.workspace.model
    assert model is not None
    document = of_model(model)
    document["kernels"] = [kernel for kernel in document["kernels"] if kernel["group"] != "softmax_0"]
    play(window, qtbot, written(document, tmp_path))
    look = window.panels.graph.scene.look
    window.show_colour("measured")
    placed = {each.box.title: each for each in window.panels.graph.scene.drawing.placed}
    assert look.time_of(placed["softmax"]) == 0 and look.time_of(placed["pooler"]) > 0
    assert look.time_of(next(each for title, each in placed.items() if "encoder layer" in title)) == 0
    window.show_colour("time")
    assert look.time_of(placed["softmax"]) == pytest.approx(25.6)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text[: len(text) // 2], "It is cut short."),
        (lambda text: text.replace("NVIDIA H200", "NVIDIA A100-SXM4-80GB"), "It was recorded on NVIDIA A100-SXM4-80GB"),
        (lambda text: text.replace('"schema": 1', '"schema": 2'), "It is of version 2, this program reads version 1."),
        (lambda text: "once upon a time", "It is no JSON: Expecting value in line 1."),
        (lambda text: text.replace('"bert_base_b8_s512"', '"gpt2"'), "It is of gpt2; open is bert_base_b8_s512."),
    ],
)
def test_a_file_that_cannot_be_replayed_is_explained_in_the_panel(
    window: Window, qtbot: object, tmp_path: Path, spoil: Callable[[str], str], says: str
) -> None:
    model = window.workspace.model
    assert model is not None
    path = Path(written(of_model(model, count=20), tmp_path))
    timing = play(window, qtbot, str(path))
    before = timing.player
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    timing.replay(str(path))
    qtbot.waitUntil(lambda: bool(refused(window)), timeout=PATIENCE)  # type: ignore[attr-defined]
    assert refused(window).startswith("times.json cannot be replayed") and says in refused(window)
    assert window.panels.timing.tabs[LIVE].isChecked()
    qtbot.wait(120)  # type: ignore[attr-defined]
    assert refused(window), "it stays until it is read"
    window.panels.timing.live.refused.buttons[1].click()
    assert not refused(window) and timing.player is before, "what played before is still there"


def test_without_a_gpu_the_panel_says_what_to_install_and_offers_a_replay(
    window: Window, qtbot: object, tmp_path: Path
) -> None:
    select(window, qtbot)
    page = window.panels.timing.live
    assert page.pages.currentWidget() is page.missing
    assert "install an NVIDIA driver and PyCUDA" in page.missing.text.text()
    window.action("time").trigger()
    settle(window, qtbot)
    assert "was not measured" in refused(window) and "no GPU" in refused(window)
    asked: list[object] = []
    page.replay_requested.connect(lambda: asked.append(1))
    page.refused.buttons[0].click()
    assert asked and page.missing.buttons[0].text() == "Replay a recorded run…"
    for dialog in window.findChildren(QFileDialog):
        dialog.close()


def test_another_model_puts_the_recording_away(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    timing = play(window, qtbot, written(of_model(window.workspace.model), tmp_path))
    timing.pin()
    afresh(window, qtbot)
    assert timing.player is None and not timing.pinned and not timing.times


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_synthetic_dots_are_hollow_and_measured_ones_filled(window: Window, qtbot: object, theme: str) -> None:
    window.set_theme(theme)
    plot = window.panels.timing.live.plot
    plot.resize(500, 200)
    filled = {}
    for origin in ("measured", "synthetic"):
        time = Time(10.0, origin, samples=(10.0, 10.2, 9.9, 10.1))
        plot.show_live(Live(SampleRun.of("softmax", "softmax_0", time).series()))
        image = plot.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        colour = window.theme.colour("text-2").rgb()
        filled[origin] = sum(
            image.pixel(x, y) == colour for x in range(image.width()) for y in range(image.height())
        )
    assert filled["measured"] > 4 * filled["synthetic"]


@pytest.mark.slow(sentinel=True)
def test_each_step_of_the_history_keeps_its_measured_gain(
    make: Callable[..., Window], qtbot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPU", "NVIDIA H200")
    window = make()
    window.workspace.start()
    window.open_file(MODEL)
    settle(window, qtbot)
    kernel = select(window, qtbot)
    window.action("time").trigger()
    settle(window, qtbot)
    window.workspace.edit("softmax_0", kernel.recipe.replace("block 8", "block 4"))
    settle(window, qtbot)
    texts = window.panels.history.summary.texts
    assert texts()[0] == "Gain, synthetic — step not synthetic", "the time of another advice is not that of this one"
    window.action("time").trigger()
    settle(window, qtbot)
    assert texts()[0] == "Gain, synthetic none 25.4 µs → 25.4 µs, not significant"
    assert texts()[1].startswith("Gain, predicted")
    timing = window.wiring.timing
    timing.show()
    assert "no significant change against “Default schedule”, 25.4 µs" in shown(window)
    times = [step.measured for step in window.workspace.histories["softmax_0"].steps]
    assert all(time and len(time.samples) == 20 for time in times), "both are kept, and saved with the workspace"


def test_a_recording_follows_the_selection(window: Window, qtbot: object, tmp_path: Path) -> None:
    model = window.workspace.model
    assert model is not None
    timing = play(window, qtbot, written(of_model(model), tmp_path))
    player = timing.player
    assert player is not None
    window.panels.timing.roofline.group_selected.emit("pooler_0")
    assert player.take.group == "pooler_0" and player.is_playing
    to_end(window, qtbot)
    window.workspace.bus.select_group("")
    assert player.take.group == "pooler_0" and not player.is_playing


def test_a_row_of_a_suite_goes_on_whatever_is_selected(window: Window, qtbot: object, tmp_path: Path) -> None:
    timing = play(window, qtbot, written(of_suite(loomscope=20.0, torch=21.0), tmp_path))
    timing.play(1)
    to_end(window, qtbot)
    for group in ("softmax_0", "", "pooler_0"):
        window.workspace.bus.select_group(group)
        assert timing.player is not None and timing.player.number == 1 and not timing.player.is_playing


def test_pinned_samples_are_the_ghost_under_the_roof(window: Window, qtbot: object, tmp_path: Path) -> None:
    model = window.workspace.model
    assert model is not None
    timing = play(window, qtbot, written(of_model(model, factor=1.5), tmp_path))
    timing.play(3)
    to_end(window, qtbot)
    timing.pin()
    play(window, qtbot, written(of_model(model, factor=1.0), tmp_path, "later.json"))
    qtbot.waitUntil(lambda: timing.player is not None and timing.player.recording.file == "later.json")  # type: ignore[attr-defined]
    window.action("roofline").trigger()
    canvas = window.panels.timing.roofline.canvas
    point = next(point for point in synthetic(window) if point.group == "softmax_0")
    assert point.ghost is not None and point.height / point.ghost == pytest.approx(1.5, rel=0.01)
    assert next(point for point in synthetic(window) if point.group == "pooler_0").ghost is None
    window.workspace.bus.select_group("softmax_0")
    window.panels.timing.roofline.show_selection("softmax_0")
    assert "at the baseline 38" in canvas.accessibleDescription()


def synthetic(window: Window) -> tuple[Point, ...]:
    """The points of the made-up times."""
    found = window.panels.timing.roofline.canvas.roofline
    assert found is not None and [side.origin for side in found.sides] == ["predicted", "synthetic"]
    return found.sides[1].points
