"""Recorded times and the history: a time belongs to the steps with the advice that it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.shell.window import Window
from engine.documents.model import Time
from tests.app.driving import afresh, play, select, settle
from tests.app.recordings import launch, of_model, written


@pytest.fixture
def window(shared: Window, qtbot: object) -> Window:
    afresh(shared, qtbot)
    return shared


def test_a_recorded_time_lands_on_the_step_with_its_advice(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    first = select(window, qtbot).recipe
    faster = first.replace("block 8", "block 4")
    document = of_model(window.workspace.model)
    document["kernels"][3] |= {"launches": [launch("softmax_0", faster)]}
    timing = play(window, qtbot, written(document, tmp_path))
    history = window.workspace.histories["softmax_0"]
    assert history.step.measured is None and "softmax_0" not in timing.times, "it is of another kernel"
    window.workspace.edit("softmax_0", faster)
    settle(window, qtbot)
    assert [step.measured for step in history.steps] == [None, timing.times["softmax_0"]]
    assert timing.times["softmax_0"].microseconds == document["kernels"][3]["microseconds"]
    window.action("replay-stop").trigger()
    assert set(timing.times) == {"softmax_0"}, "the step keeps what it was told"


def test_a_step_keeps_its_own_time_beside_a_recorded_one(window: Window, qtbot: object, tmp_path: Path) -> None:
    assert window.workspace.model is not None
    text, own = select(window, qtbot).recipe, Time(9.0, "measured", device="NVIDIA H200")
    window.workspace.learn("softmax_0", text, measured=own)
    document = of_model(window.workspace.model)
    document["kernels"][3] |= {"launches": [launch("softmax_0", text)]}
    assert play(window, qtbot, written(document, tmp_path)).times["softmax_0"] == own
