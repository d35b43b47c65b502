"""A search in the real window: the real worker, the real process, a small product of the built-in models."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest

from app.controllers.tuning.tuning import TuningController
from app.session.client import COMMAND, ROOT
from app.shell.main import make_window
from app.shell.preferences import keep_settings_in
from app.shell.window import Window
from engine.recipe import Recipe
from engine.records.nodes import FINISHED, PAUSED, RUNNING, STOPPED
from engine.records.reader import RunReader
from tests.app.driving import settle

MODEL = ROOT / "resources" / "models" / "layernorm_64x768.onnx"
PATIENCE = 120_000
"""Milliseconds: a process that searches has to begin on a busy machine."""
STOP_SECONDS = 3.0
"""A hang, not the 200 ms that a stop takes on a machine that is idle."""


def wait(qtbot: object, done: Callable[[], bool]) -> None:
    qtbot.waitUntil(done, timeout=PATIENCE)  # type: ignore[attr-defined]


def state(tuning: TuningController) -> str:
    return tuning.shown.state if tuning.shown else ""


def count(tuning: TuningController) -> int:
    return len(tuning.shown.trials) if tuning.shown else 0


@pytest.fixture
def opened(
    qapp: object, qtbot: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Window:
    """The real window with the product open and its only group selected."""
    keep_settings_in(tmp_path)
    window = make_window(theme="light", command=COMMAND, journals=tmp_path)
    window.show()
    window.workspace.start()
    window.open_file(str(MODEL))
    wait(qtbot, lambda: window.workspace.model is not None and window.workspace.client.is_idle)
    assert window.workspace.model is not None
    window.workspace.bus.select_group(window.workspace.model.groups[0].name)
    wait(qtbot, lambda: window.workspace.client.is_idle and not window.panels.graph.scene.is_building)
    yield window
    window.close()
    assert window.wiring.tuning.control.process.process_id == 0
    window.deleteLater()


@pytest.mark.slow(sentinel=True)
def test_a_run_is_started_paused_stopped_resumed_and_applied(opened: Window, qtbot: object) -> None:
    tuning, run = opened.wiring.tuning, opened.panels.run
    run.strategy.setCurrentText("random")  # which goes on whatever is promised
    run.trials.setText("2000")
    opened.action("tune-start").trigger()
    assert opened.perspective == "Tune"
    wait(qtbot, lambda: count(tuning) >= 3)
    assert tuning.control.is_ours and state(tuning) == RUNNING and tuning.control.process.process_id

    pause = opened.action("tune-pause")
    wait(qtbot, pause.isEnabled)
    pause.trigger()
    wait(qtbot, lambda: state(tuning) == PAUSED)
    paused = count(tuning)
    pause.trigger()
    wait(qtbot, lambda: state(tuning) == RUNNING and count(tuning) > paused)

    began = perf_counter()
    opened.action("tune-stop").trigger()
    wait(qtbot, lambda: not tuning.control.is_live)
    assert perf_counter() - began < STOP_SECONDS and tuning.control.process.process_id == 0
    wait(qtbot, lambda: tuning.control.attachment.is_idle)
    assert tuning.shown is not None
    with RunReader(tuning.shown.path) as reader:
        assert reader.run().state == STOPPED and len(reader.attempts(1)) >= count(tuning)

    stopped = count(tuning)
    pause.trigger()
    wait(qtbot, lambda: count(tuning) > stopped)
    opened.action("tune-stop").trigger()
    wait(qtbot, lambda: not tuning.control.is_live and tuning.control.attachment.is_idle)
    with RunReader(tuning.shown.path) as reader:
        programs = [(attempt.mapping, attempt.values) for attempt in reader.attempts(1)]
    assert len(set(programs)) == len(programs), "a resumed run tries nothing again"

    history = opened.workspace.histories[tuning.group]
    before, steps = history.step.text, len(history.steps)
    opened.action("tune-best").trigger()
    wait(qtbot, lambda: len(history.steps) == steps + 1 and bool(history.step.note))
    assert "advice tune\n" in history.step.text and "advice tune\n" not in before
    assert history.step.predicted is not None and tuning.shown is not None
    assert history.step.predicted.microseconds == pytest.approx(tuning.shown.trials.microseconds[tuning.best])
    opened.action("undo").trigger()
    settle(opened, qtbot)
    assert history.step.text == before


@pytest.mark.slow(sentinel=True)
def test_the_window_attaches_to_a_run_of_the_command_line(opened: Window, qtbot: object, tmp_path: Path) -> None:
    tuning, records, best = opened.wiring.tuning, tmp_path / "night.db", tmp_path / "best.json"
    group = opened.wiring.group
    command = [
        sys.executable, "-m", "app", "tune", str(MODEL), "--records", str(records), "--trials", "12", "--strategy",
        "learned", "--no-check", "-o", str(best),
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait(qtbot, records.is_file)
        opened.set_perspective("Tune")

        def followed() -> bool:
            if tuning.shown is None and tuning.control.attachment.is_idle:
                tuning.control.attach(str(records))
            return count(tuning) > 0

        wait(qtbot, followed)
        assert tuning.control.is_ours
        assert process.wait(PATIENCE / 1000) == 0
    wait(qtbot, lambda: state(tuning) == FINISHED and count(tuning) == 12)

    found = Recipe.loads(best.read_text(encoding="utf-8"))
    opened.action("tune-ablate").trigger()
    wait(qtbot, lambda: tuning.ablation.found is not None)
    assert tuning.ablation.found is not None
    tuned = [entry for advice in found.groups[group] if advice.author == "tune" for entry in advice.scenario.entries]
    flipped = [flip for flip in tuning.ablation.found.flips if flip.author == "tune"]
    assert len(flipped) == len(tuned)
    assert tuning.shown is not None
    assert tuning.ablation.found.microseconds == pytest.approx(tuning.shown.trials.microseconds[tuning.best])
