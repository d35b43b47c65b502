"""The window around the panels: files, jobs, layout, stalls."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage, QPixmap, QStatusTipEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from app.session.current_times import measured_times
from app.shell.actions import ACTIONS, LISTED
from app.shell.panels import PERSPECTIVES
from app.shell.render import PictureOptions, render, size_of
from app.shell.window import LAYOUT_VERSION, SMALLEST, USUAL, Window
from engine.support.errors import BadInput
from tests.app.driving import COMMAND, MODEL, PATIENCE, select, settle
from tests.app.dropping import dragged, file_data
from tests.app.fake_documents import ADVICE
from tests.app.fake_exploration import ILLEGAL, with_lines
from tests.support.commands import SOFTMAX, program
from tests.support.stalls import assert_fluent
from views.notice import News
from views.theme import load_theme

"""The longest that the window may stand still (DESIGN 10)."""


def test_an_empty_window_says_what_to_do(make: Callable[..., Window]) -> None:
    window = make()
    assert "ONNX" in window.panels.outline.empty.sentence.text()
    assert window.status.selection.text() == "Nothing selected"
    assert not window.action("check").isEnabled()


def test_a_file_is_opened_and_remembered(window: Window) -> None:
    assert window.windowTitle() == "bert_base_b8_s512.onnx — Loomscope"
    path = str(Path(MODEL).absolute())
    assert window.settings.value("recent") in (path, [path])
    assert window.menu.device.text().endswith("no GPU")


def test_a_broken_file_keeps_what_was_open(window: Window, qtbot: object) -> None:
    model = window.workspace.model
    kernel = select(window, qtbot)
    window.open_file("/somewhere/broken.onnx")
    settle(window, qtbot)
    assert window.workspace.model is model
    assert window.workspace.legal_kernel("softmax_0") is kernel
    assert window.workspace.problems[-1][1].subject == "broken.onnx"
    assert window.status.problems.property("wrong") == "true"
    notice = window.notice
    assert notice.isVisible() and notice.title.text() == "broken.onnx", "a count in the status bar is no answer"
    assert notice.detail.text() == "this is not an ONNX file; export the model again"
    window.open_file("/somewhere/broken.onnx")
    settle(window, qtbot)
    window.open_file(MODEL)
    settle(window, qtbot)
    assert not notice.has_news, notice._news
    assert not notice.isVisible()


def test_what_a_check_found_is_told_where_no_panel_shows_it(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.set_perspective("Tune")
    window.action("check").trigger()
    settle(window, qtbot)
    said = "Check of softmax: pass, 48 of 6,144 blocks, source and ptx, late and early"
    assert window.status.currentMessage() == said


def test_messages_and_hints_leave_the_counts_in_sight(window: Window) -> None:
    status = window.status
    selected = status.selection.text()
    status.say("Something happened")
    assert status.problems.isVisible() and status.jobs.isVisible()
    assert status.selection.text() == "Something happened"
    status.clearMessage()
    assert status.selection.text() == selected
    QApplication.sendEvent(window, QStatusTipEvent("Run the kernel on the CPU against the reference"))
    assert status.problems.isVisible() and status.selection.text().startswith("Run the kernel")


def test_the_search_field_shows_all_of_its_hint(window: Window) -> None:
    search = window.search
    assert search.fontMetrics().horizontalAdvance(search.placeholderText()) < search.width() - 35


def test_what_is_disabled_says_what_to_do_first(window: Window, qtbot: object) -> None:
    check = window.tool_buttons["check"]
    assert not check.isEnabled() and check.toolTip().splitlines()[1] == "Select a group first"
    assert window.action("check").statusTip().endswith("; select a group first")
    select(window, qtbot)
    assert check.isEnabled() and "\n" not in check.toolTip()


def test_a_dropped_file_opens(make: Callable[..., Window], qtbot: object) -> None:
    window = make()
    dragged(window, file_data("/somewhere/model.onnx"))
    settle(window, qtbot)
    assert window.workspace.opened.path == "/somewhere/model.onnx"


def test_cancel_ends_the_worker_and_starts_another(
    make: Callable[..., Window], qtbot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPU", "H200")
    window = make()
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot)
    client, runs = window.workspace.client, window.wiring.timing.runs
    window.action("time").trigger()
    qtbot.waitUntil(lambda: "softmax_0" in runs and len(runs["softmax_0"].samples) >= 2, timeout=PATIENCE)  # type: ignore[attr-defined]
    first = client.process_id
    window.action("cancel").trigger()
    assert client.process_id not in (0, first)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    settle(window, qtbot)
    assert "softmax_0" not in measured_times(window.workspace.histories)
    assert window.workspace.legal_kernel("softmax_0") is not None, "what was known stays known"
    select(window, qtbot, "matmul_4")


@pytest.mark.slow(sentinel=True)
def test_samples_keep_their_origin(make: Callable[..., Window], qtbot: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU", "H200")
    window = make()
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot)
    window.action("time").trigger()
    settle(window, qtbot)
    assert measured_times(window.workspace.histories)["softmax_0"].origin == "synthetic"
    assert len(window.panels.timing.live.plot.samples) == 20


def test_timing_without_a_gpu_says_so(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.action("time").trigger()
    settle(window, qtbot)
    assert "no GPU" in window.workspace.problems[-1][1].reason
    assert "no GPU" in window.panels.timing.live.refused.text.text()


def test_a_check_is_shown_with_the_code(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.action("check").trigger()
    settle(window, qtbot)
    assert window.workspace.check("softmax_0") is not None
    texts = [
        child.text()
        for child in window.panels.code.findChildren(QWidget)
        if hasattr(child, "text") and callable(child.text)
    ]
    assert any("48 of 6,144 blocks" in text for text in texts if isinstance(text, str))


@pytest.mark.slow(sentinel=True)
def test_a_worker_that_dies_is_a_problem_and_is_replaced(window: Window, qtbot: object) -> None:
    os.kill(window.workspace.client.process_id, 9)
    qtbot.waitUntil(lambda: bool(window.workspace.problems), timeout=PATIENCE)  # type: ignore[attr-defined]
    assert window.workspace.problems[-1][1].subject == "worker"
    select(window, qtbot)


def test_every_action_is_in_a_menu_and_tells_what_it_does() -> None:
    listed = {name for _, names in LISTED for name in names}
    assert {info.name for info in ACTIONS} <= listed
    assert all(info.tip for info in ACTIONS)


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(1280, 800), (1440, 900)])
@pytest.mark.parametrize("perspective", ["Explore", "Schedule"])
def test_everything_fits(make: Callable[..., Window], qtbot: object, size: tuple[int, int], perspective: str) -> None:
    window = make(*size)
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot)
    window.set_perspective(perspective)
    qtbot.wait(50)  # type: ignore[attr-defined]
    assert (window.width(), window.height()) == size
    visible = {name: dock for name, dock in window.docks.items() if dock.isVisible()}
    behind = {name for name, dock in visible.items() if dock.visibleRegion().isEmpty()}
    assert behind == ({"timing"} if perspective == "Schedule" else set())
    shown = {name: dock.geometry() for name, dock in visible.items() if name not in behind}
    areas = list(shown.values())
    assert all(window.rect().contains(area) and area.width() > 240 for area in areas)
    assert all(area.height() > (110 if name == "history" else 150) for name, area in shown.items())
    assert not any(a.intersects(b) for index, a in enumerate(areas) for b in areas[:index])
    for button in window.findChildren(QAbstractButton):
        if button.isVisible() and button.text():
            needed = button.fontMetrics().horizontalAdvance(button.text())
            assert button.width() >= needed, f"{button.text()} is cut"
            corner = button.mapTo(window, QPoint(button.width(), button.height()))
            assert corner.x() <= window.width() and corner.y() <= window.height(), f"{button.text()} leaves the window"


@pytest.mark.slow(sentinel=True)
def test_the_window_never_stands_still(window: Window, qtbot: object) -> None:
    window.set_perspective("Schedule")  # the first layout of a perspective is part of building the window
    window.set_perspective("Explore")
    settle(window, qtbot)
    assert_fluent(lambda: _work(window, qtbot))


def _work(window: Window, qtbot: object) -> None:
    """Open, select, edit, undo, open a layer."""
    window.open_file("another.onnx")
    settle(window, qtbot)
    for group in ("softmax_0", "matmul_4", "layernorm_0", "softmax_0"):
        select(window, qtbot, group)
    text = window.workspace.recipe("softmax_0")
    assert text is not None
    window.workspace.edit("softmax_0", text.replace("stages 2", "stages 3"))
    settle(window, qtbot)
    window.action("undo").trigger()
    layer = next(placed for placed in window.panels.graph.scene.drawing.placed if placed.box.count == 12)
    window.panels.graph.canvas.toggle(layer.box.key)
    settle(window, qtbot)
    qtbot.wait(20)  # type: ignore[attr-defined]


def test_layout_comes_back(make: Callable[..., Window]) -> None:
    window = make()
    window.set_perspective("Schedule")
    window.docks["moves"].hide()
    window.close()
    again = make()
    again.restore_layout()
    assert again.perspective == "Schedule"
    assert not again.docks["moves"].isVisible()
    again.reset_layout()
    assert again.docks["moves"].isVisible()


def test_news_is_in_sight_until_it_is_answered_and_not_again(make: Callable[..., Window]) -> None:
    """Whatever arrangement comes back: those of perspectives, and that of the last time."""
    window = make()
    window.set_perspective("Schedule")
    window.set_perspective("Explore")
    window.notice.show_news(News("Recover?", "", (("Recover", lambda: None), ("Discard", lambda: None))))
    for perspective in (*PERSPECTIVES, "Explore"):
        window.set_perspective(perspective)
        assert window.notice_bar.isVisible() and window.notice.isVisible()
    window.settings.setValue("layout", window.saveState(LAYOUT_VERSION))
    window.notice.buttons["Discard"].click()
    for perspective in (*PERSPECTIVES, "Explore"):
        window.set_perspective(perspective)
        assert not window.notice_bar.isVisible()
    window.restore_layout()
    assert not window.notice_bar.isVisible()


def test_the_window_stays_on_a_small_screen(make: Callable[..., Window]) -> None:
    """Qt's screen in memory has 800x800 pixels: the smallest window is wider, the usual one is higher."""
    window = make()
    room = window.screen().availableGeometry()
    assert room.height() < USUAL[1]
    window.resize(*USUAL)
    window.restore_layout()
    assert window.isMaximized() or window.height() <= room.height()
    assert window.frameGeometry().top() >= room.top() and window.height() <= max(room.height(), SMALLEST[1])
    assert window.width() <= max(room.width(), SMALLEST[0])


@pytest.mark.slow(sentinel=True)
def test_render_draws_window_and_panel(tmp_path: Path) -> None:
    whole, part = tmp_path / "window.png", tmp_path / "graph.png"
    render(MODEL, whole, PictureOptions(size=(1280, 800), theme="light"), COMMAND)
    render(MODEL, part, PictureOptions(panel="graph", group="softmax_0"), COMMAND)
    assert (QPixmap(str(whole)).width(), QPixmap(str(whole)).height()) == (1280, 800)
    assert 240 < QPixmap(str(part)).width() < 1280


@pytest.mark.slow(sentinel=True)
def test_a_picture_leaves_the_users_settings_alone(tmp_path: Path) -> None:
    kept = tmp_path / "Loomscope" / "Loomscope.conf"
    kept.parent.mkdir()
    kept.write_text("[General]\ntheme=dark\nperspective=Tune\n")
    homes = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    asked = ["render", str(SOFTMAX), "-o", str(tmp_path / "p.png"), "--theme", "light", "--size", "1024x640"]
    done = program(*asked, **homes)
    assert done.returncode == 0, done.stderr
    assert kept.read_text() == "[General]\ntheme=dark\nperspective=Tune\n"


@pytest.mark.slow(sentinel=True)
def test_render_draws_a_tab_under_other_advice(tmp_path: Path) -> None:
    advice, drawn = tmp_path / "advice.txt", [tmp_path / f"{name}.png" for name in ("tree", "space", "wrong")]
    advice.write_text(with_lines(ADVICE, [ILLEGAL]), encoding="utf-8")
    choices = ({}, {"tab": "iteration space"}, {"tab": "iteration space", "advice": advice})
    for place, options in zip(drawn, choices, strict=True):
        shown = PictureOptions(theme="light", panel="schedule", group="softmax_0", **options)  # type: ignore[arg-type]
        render(MODEL, place, shown, COMMAND)
    wrong = load_theme("light").colour("wrong").rgb()
    assert [wrong in pixels(place) for place in drawn] == [False, False, True]
    with pytest.raises(BadInput, match="there is no such file"):
        render(MODEL, drawn[0], PictureOptions(advice=tmp_path / "none.txt"), COMMAND)


def pixels(place: Path) -> set[int]:
    picture = QImage(str(place))
    return {picture.pixel(x, y) for x in range(picture.width()) for y in range(picture.height())}


@pytest.mark.few(2)
@pytest.mark.parametrize("wrong", [{name: "nothing"} for name in ("group", "panel", "tab", "theme", "perspective")])
def test_render_refuses_what_is_not_there(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="nothing"):
        render(MODEL, tmp_path / "x.png", PictureOptions(**wrong), COMMAND)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [".", "nowhere/x.png"])
def test_render_refuses_a_place_before_it_opens_anything(tmp_path: Path, place: str) -> None:
    with pytest.raises(BadInput, match="cannot be written: "):
        render(MODEL, tmp_path / place, command=("no such program",))


def test_a_picture_is_never_larger_than_what_was_asked_for() -> None:
    assert size_of("1024x640") == (1024, 640)
    with pytest.raises(BadInput, match="1023x640"):
        size_of("1023x640")


@pytest.mark.slow(sentinel=True)
def test_render_refuses_a_broken_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"broken\.onnx"):
        render("broken.onnx", tmp_path / "x.png", command=COMMAND)


def test_perspectives_keep_their_panels(window: Window) -> None:
    def shown() -> set[str]:
        """What is in sight: a dock that is a tab behind another calls itself visible, too."""
        QApplication.processEvents()
        return {name for name, dock in window.docks.items() if not dock.visibleRegion().isEmpty()}

    explore = shown()
    window.set_perspective("Schedule")
    schedule = shown()
    for _ in range(2):
        window.set_perspective("Explore")
        assert shown() == explore == {"outline", "explain", "graph", "schedule", "timing"}
        window.set_perspective("Schedule")
        assert shown() == schedule == {"outline", "code", "schedule", "constraints", "moves", "history"}
