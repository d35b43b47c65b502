"""Every action: found in the palette, reached by keys, with an effect or a reason why not; panels by keyboard."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

import engine
from app.session.check import run_check
from app.shell.actions import ACTIONS, INFOS
from app.shell.palette import matches
from app.shell.render import wait
from app.shell.window import Window
from engine.documents.exploration import JOIN, FusionEdit
from engine.explore.pipeline_chart import chart
from engine.records.nodes import RUNNING, STOPPED
from tests.app.driving import PATIENCE, select, settle
from tests.app.recordings import of_model, written
from tests.app.tuning_runs import write_run

GROUP = "softmax_0"


def listed(window: Window) -> list[str]:
    return list(window.commands.palette.list.rows)


def test_every_action_is_in_the_palette(window: Window) -> None:
    window.action("palette").trigger()
    assert sorted(listed(window)) == sorted(info.name for info in ACTIONS)
    assert sorted(info.name for _, info in matches("")) == sorted(info.name for info in ACTIONS)


def test_typing_narrows_and_return_runs(window: Window, qtbot: object) -> None:
    window.action("palette").trigger()
    field = window.commands.palette.field
    qtbot.keyClicks(field, "sched")  # type: ignore[attr-defined]
    assert listed(window)[0] == "schedule"
    qtbot.keyClick(field, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert window.perspective == "Schedule" and not window.commands.palette.isVisible()


@pytest.mark.slow(sentinel=True)
def test_arrows_choose(window: Window, qtbot: object) -> None:
    window.action("palette").trigger()
    palette = window.commands.palette
    qtbot.keyClicks(palette.field, "theme")  # type: ignore[attr-defined]
    assert listed(window) == ["system", "dark", "light"]
    for _ in range(2):
        qtbot.keyClick(palette.field, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert window.theme.name == "light"


def test_words_are_found_in_any_order_and_in_tips() -> None:
    assert [info.name for _, info in matches("baseline compare")] == ["compare"]
    assert "check" in [info.name for _, info in matches("reference")]
    assert matches("no such words") == []


@pytest.mark.slow(sentinel=True)
def test_what_is_disabled_says_why_and_does_nothing(make: Callable[..., Window], qtbot: object) -> None:
    window = make()
    disabled = {info.name for info in ACTIONS if not window.action(info.name).isEnabled()}
    assert {"save", "undo", "redo", "check", "time", "pin", "compare", "script", "apply", "machine"} <= disabled
    assert all(info.needs for info in ACTIONS if info.name in disabled)
    window.action("palette").trigger()
    palette = window.commands.palette
    qtbot.keyClicks(palette.field, "undo")  # type: ignore[attr-defined]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert palette.isVisible(), "it stays, so that the reason is seen"


def effects(window: Window, qtbot: object) -> object:
    """What an action can change that a person would notice."""
    attachment = window.wiring.tuning.control.attachment
    qtbot.waitUntil(lambda: attachment.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    settle(window, qtbot)
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    workspace, canvas = window.workspace, window.panels.graph.canvas
    return (
        [(type(each), each.windowTitle()) for each in application.topLevelWidgets() if each.isVisible()],
        workspace.recipe(GROUP), workspace.check(GROUP), workspace.model, workspace.client.process_id,
        list(workspace.trails().values()), list(workspace.problems),
        window.theme.name, window.perspective, canvas.transform(), window.isVisible(),
        sorted(name for name, dock in window.docks.items() if dock.isVisible()),
        QGuiApplication.clipboard().text(), window.focusWidget(), window.settings.value("recent"),
        window.panels.graph.scene.opened, window.panels.graph.scene.look.edge, workspace.bus.selection,
        window.panels.graph.scene.look.colour_by, window.panels.timing.pages.currentIndex(), played(window),
        tuned(window),
    )  # fmt: skip


def played(window: Window) -> object:
    """What plays, whether it does, how fast, and what is pinned."""
    timing = window.wiring.timing
    player = timing.player
    return list(timing.pinned), player and (player.number, player.is_playing, player.speed)


def tuned(window: Window) -> object:
    """Which run is shown, what was asked of it, which tab and trial are in front."""
    tuning = window.wiring.tuning
    shown, trials = tuning.shown, window.panels.trials
    run = shown and (shown.path, shown.overlay, tuning.selected)
    return tuning.control.process.process_id, window.panels.tuning.tab, trials.every.isChecked(), run


def start_nothing(window: Window) -> None:
    """A run is a process that ends at once."""
    window.wiring.tuning.control.command = (sys.executable, "-c", "input()")


def tune(window: Window, state: str = STOPPED) -> None:
    """Attaches to a run of the open model and chooses a trial."""
    start_nothing(window)
    tuning = window.wiring.tuning
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        write_run(path, window, GROUP, (48.0, 45.0, None, 47.0), state, others=("matmul_0",)).store.close()
        tuning.control.attach(str(path))
        assert wait(lambda: tuning.shown is not None and len(tuning.shown.trials) == 4, PATIENCE)
        tuning.show()
        tuning.select(tuning.best)


def replay(window: Window) -> None:
    """Plays a recording of the open model."""
    model = window.workspace.model
    assert model is not None
    with TemporaryDirectory() as folder:
        window.wiring.timing.replay(written(of_model(model, count=4000), Path(folder)))
        assert wait(lambda: bool(window.wiring.timing.run and window.wiring.timing.run.samples), PATIENCE)


def fix(window: Window) -> None:
    """Makes one kernel of two groups by hand."""
    opened = window.workspace.model
    assert opened is not None
    first, second = (node for node in opened.nodes if node.id in ("matmul_1#0", f"{GROUP}#0"))
    fusing = window.wiring.fusion_edits
    fusing.carry_out(FusionEdit(JOIN, (*first.operators, *second.operators)))
    assert wait(lambda: fusing.is_settled and bool(fusing.fixed), PATIENCE)


def chart_kernel(window: Window) -> None:
    """Shows a chart as the kernel's own: the worker of these tests draws none."""
    softmax = engine.compile(engine.fuse(engine.load("resources/models/softmax_96x512.onnx")).groups[0])
    window.panels.schedule.pipeline.show_chart(replace(chart(softmax), group=GROUP))
    window.commands.show_enabled()


PREPARED: dict[str, Callable[[Window], object]] = {
    "apply": lambda window: window.panels.constraints.text.edit.appendPlainText("# a remark"),
    "cancel": lambda window: run_check(window.workspace, GROUP, window.status.say),
    **dict.fromkeys(("dark", "system"), lambda window: window.set_theme("light")),
    "explore": lambda window: window.set_perspective("Schedule"),
    "export-trace": chart_kernel,
    "pin": lambda window: window.panels.history.canvas.select(1),
    "redo": lambda window: window.workspace.undo(GROUP),
    **dict.fromkeys(("release", "release-all"), fix),
    "reset": lambda window: window.docks["outline"].hide(),
    **dict.fromkeys(("replay-pause", "replay-stop", "slower", "faster", "pin-samples"), replay),
    "tune-start": start_nothing,
    **dict.fromkeys(
        ("tune-all", "tune-pause", "tune-detach", "tune-best", "tune-best-all", "tune-trial", "tune-ablate"), tune
    ),
    "tune-stop": lambda window: tune(window, RUNNING),
    "fit": lambda window: window.panels.graph.canvas.zoom(3),
}
"""What has to be so before an action has an effect."""


@pytest.fixture
def cleared(quiet: Window) -> Window:
    """The shared window as a new one looks."""
    quiet.wiring.timing.stop()
    quiet.panels.timing.pages.setCurrentIndex(0)
    quiet.set_theme("dark")
    quiet.reset_layout()
    return quiet


def is_for_one_window(name: str) -> bool:
    """Whether an action ends its window, or starts and follows processes."""
    return name == "quit" or name.startswith("tune-")


@pytest.mark.few(20)
@pytest.mark.parametrize("name", [info.name for info in ACTIONS])
def test_every_action_has_an_effect(request: pytest.FixtureRequest, qtbot: object, name: str) -> None:
    window: Window = request.getfixturevalue("window" if is_for_one_window(name) else "cleared")
    kernel = select(window, qtbot, GROUP)
    window.workspace.edit(GROUP, kernel.recipe.replace("block 8", "block 4"))
    settle(window, qtbot)
    QGuiApplication.clipboard().clear()
    PREPARED.get(name, lambda _: None)(window)
    if name == "cancel":
        worker = window.workspace.client.process_id
        assert window.action(name).isEnabled()
        window.action(name).trigger()
        assert window.workspace.client.process_id != worker
        settle(window, qtbot)
        return
    before = effects(window, qtbot)
    can = window.action(name).isEnabled  # what a run shows enables some of them, and comes a frame later
    assert can() or wait(can, PATIENCE), f"{name} needs: {INFOS[name].needs}"
    window.action(name).trigger()
    qtbot.waitUntil(lambda: effects(window, qtbot) != before, timeout=PATIENCE)  # type: ignore[attr-defined]
    for each in QApplication.topLevelWidgets():
        if not isinstance(each, Window) and each.isVisible():
            each.close()


def test_the_sheet_lists_every_shortcut(window: Window) -> None:
    window.action("keys").trigger()
    sheet = window.commands.shortcuts
    with_keys = {info.name for info in ACTIONS if not window.action(info.name).shortcut().isEmpty()}
    assert with_keys <= set(sheet.list.rows)
    assert {"Ctrl+Shift+P", "F1", "F6", "Shift+F6", "Ctrl+Z", "B", "D"} <= {
        key.toString() for info in ACTIONS for key in window.action(info.name).shortcuts()
    }


def test_no_two_actions_have_the_same_keys(window: Window) -> None:
    keys = [key.toString() for info in ACTIONS for key in window.action(info.name).shortcuts()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("perspective", ["Explore", "Schedule"])
def test_the_keyboard_goes_round_all_panels(window: Window, qtbot: object, perspective: str) -> None:
    select(window, qtbot, GROUP)
    window.set_perspective(perspective)
    window.activateWindow()
    qtbot.wait(20)  # type: ignore[attr-defined]
    shown = {name for name, dock in window.docks.items() if dock.isVisible()}
    visited = []
    for _ in shown:
        window.action("next-panel").trigger()
        visited.append(window.commands.focus.focused)
        header: QObject = window.docks[visited[-1]].titleBarWidget()
        assert header.property("focused") == "true", "the panel with the keyboard shows it"
    assert set(visited) == shown
    window.action("last-panel").trigger()
    assert window.commands.focus.focused == visited[-2]
    marked = [name for name in window.docks if window.docks[name].titleBarWidget().property("focused") == "true"]
    assert marked == [visited[-2]]


def test_letters_are_typed_where_there_is_text(window: Window, qtbot: object) -> None:
    select(window, qtbot, GROUP)
    window.set_perspective("Schedule")
    window.search.setFocus()
    qtbot.keyClicks(window.search, "bdn")  # type: ignore[attr-defined]
    assert window.search.text() == "bdn" and not window.diff.window.isVisible()
