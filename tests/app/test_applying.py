"""Recipes of trials as steps of the history: of one group, of all as one step, taken back, beside the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.controllers.tuning.follower import Follower
from app.controllers.tuning.preview import merge_advice
from app.controllers.tuning.tuning import TuningController
from app.session.advice import with_pasted
from app.shell.window import Window
from engine.execution.nodes import MEASURED
from engine.records.nodes import CHECKED, FINISHED, RUNNING, Round
from engine.scheduling.text import from_text
from tests.app.driving import select, settle
from tests.app.tuning_runs import BEFORE, GROUP, TIMES, add_trials, advice, attached, resting, wait, write_run

OTHER, SLOWER = "layernorm_0", "embeddings_0"
ALL = "tune-best-all"


def checked(number: int, group: str) -> Round:
    return Round(number, CHECKED, group, "rows", "S0 differs", {}, 47.0)


@pytest.fixture
def several(quiet: Window, qtbot: object, tmp_path: Path) -> TuningController:
    """A run of three groups: two became faster, of which one has no history in the window yet."""
    for group in (SLOWER, OTHER, GROUP):
        select(quiet, qtbot, group)
    quiet.set_perspective("Tune")
    log = write_run(tmp_path / "night.db", quiet, GROUP, TIMES, FINISHED, others=(OTHER, SLOWER))
    add_trials(log, quiet, OTHER, (49.0, 44.0, 30.0))
    add_trials(log, quiet, SLOWER, (BEFORE + 1, BEFORE))
    log.store.close()
    del quiet.workspace.histories[OTHER]
    tuning = attached(quiet, qtbot, tmp_path / "night.db", 9)
    assert tuning.control.is_ours
    return tuning


def test_the_best_is_one_step_that_undo_takes_back(tuned: Window, qtbot: object) -> None:
    history = tuned.workspace.histories[GROUP]
    before = history.step.text
    tuned.action("tune-best").trigger()
    resting(tuned, qtbot)
    assert len(history.steps) == 2 and from_text(history.step.text) == from_text(advice(before, 2))
    assert history.step.note == "Trial 2 of run 1"
    assert tuned.status.currentMessage() == "Trial 2 of run 1 is a step of softmax now", "Tune shows no history"
    tuned.action("tune-best").trigger()
    resting(tuned, qtbot)
    assert tuned.status.currentMessage() == "Trial 2 of run 1 is what softmax has already"
    assert len(history.steps) == 2
    tuned.action("undo").trigger()
    settle(tuned, qtbot)
    assert history.step.text == before


def test_a_measured_trial_brings_its_time(quiet: Window, qtbot: object, tmp_path: Path) -> None:
    select(quiet, qtbot, GROUP)
    quiet.set_perspective("Tune")
    write_run(tmp_path / "gpu.db", quiet, GROUP, TIMES, origin=MEASURED).store.close()
    attached(quiet, qtbot, tmp_path / "gpu.db", 4)
    assert quiet.panels.tuning.progress_plot.summary is not None
    assert quiet.panels.tuning.progress_plot.summary.origin == MEASURED
    quiet.action("tune-best").trigger()
    resting(quiet, qtbot)
    step = quiet.workspace.histories[GROUP].step
    assert step.measured is not None and step.measured.microseconds == 45.0


def test_what_the_user_said_meanwhile_stays(tuned: Window, qtbot: object) -> None:
    workspace = tuned.workspace
    workspace.change(GROUP, with_pasted, "S0 @ innermost: mark vector 2  # mine")
    settle(tuned, qtbot)
    tuned.action("tune-best").trigger()
    resting(tuned, qtbot)
    text = workspace.histories[GROUP].step.text
    assert "mark block 2" in text and "mark vector 2" in text.partition("advice user")[2]


def test_entries_of_the_user_replace_those_of_the_trial() -> None:
    tried = "advice map\n  S0 @ i: mark block 2\nadvice user\n  S0 @ i: split 4\n"
    present = "advice map\n  S0 @ i: mark block 8\nadvice user\n  S0 @ j: split 8\n"
    assert merge_advice(present, tried) == "advice map\n  S0 @ i: mark block 2\nadvice user\n  S0 @ j: split 8\n"
    assert merge_advice(tried, tried) is tried


def test_the_best_of_all_groups_is_one_step_that_undo_takes_back(
    quiet: Window, several: TuningController, qtbot: object
) -> None:
    histories = quiet.workspace.histories
    first, slower = histories[GROUP].step.text, histories[SLOWER].step.text
    assert quiet.panels.trials.apply_all.isVisible() and quiet.action(ALL).isEnabled()
    assert quiet.action(ALL).shortcuts(), "by keyboard"
    quiet.action(ALL).trigger()
    wait(qtbot, lambda: OTHER in histories and len(histories[OTHER].steps) == len(histories[GROUP].steps) == 2)
    resting(quiet, qtbot)
    second = histories[OTHER].steps[0].text
    assert from_text(histories[GROUP].step.text) == from_text(advice(first, 2))
    assert from_text(histories[OTHER].step.text) == from_text(advice(second, 4))
    assert histories[GROUP].step.note == "Trial 2 of run 1" and histories[OTHER].step.note == "Trial 3 of run 1"
    assert histories[SLOWER].step.text == slower, "nothing became faster there"

    quiet.action("undo").trigger()
    settle(quiet, qtbot)
    assert histories[GROUP].step.text == first and histories[OTHER].step.text == second
    quiet.workspace.bus.select_group(OTHER)
    settle(quiet, qtbot)
    quiet.action("redo").trigger()
    settle(quiet, qtbot)
    assert histories[GROUP].current == histories[OTHER].current == 1, "from whichever group"


def test_a_later_edit_of_one_group_is_taken_back_alone(quiet: Window, several: TuningController, qtbot: object) -> None:
    histories = quiet.workspace.histories
    quiet.action(ALL).trigger()
    wait(qtbot, lambda: OTHER in histories and len(histories[OTHER].steps) == len(histories[GROUP].steps) == 2)
    resting(quiet, qtbot)
    quiet.workspace.bus.select_group(GROUP)
    quiet.workspace.change(GROUP, with_pasted, "S0 @ innermost: mark vector 2  # mine")
    settle(quiet, qtbot)
    quiet.action("undo").trigger()
    settle(quiet, qtbot)
    assert histories[GROUP].current == 1 and histories[OTHER].current == 1
    quiet.workspace.redo(GROUP)
    settle(quiet, qtbot)
    quiet.workspace.bus.select_group(OTHER)
    quiet.action("undo").trigger()
    settle(quiet, qtbot)
    assert (histories[OTHER].current, histories[GROUP].current) == (1, 1), "the later edit first, from whichever group"
    quiet.action("undo").trigger()
    settle(quiet, qtbot)
    assert histories[OTHER].current == histories[GROUP].current == 0


def test_the_entries_of_the_user_stay_in_every_group(quiet: Window, several: TuningController, qtbot: object) -> None:
    workspace = quiet.workspace
    select(quiet, qtbot, OTHER)
    for group in (GROUP, OTHER):
        workspace.change(group, with_pasted, "S0 @ innermost: mark vector 2  # mine")
    settle(quiet, qtbot)
    quiet.action(ALL).trigger()
    wait(qtbot, lambda: all(len(workspace.histories[group].steps) == 3 for group in (GROUP, OTHER)))
    for group, block in ((GROUP, 2), (OTHER, 4)):
        text = workspace.histories[group].step.text
        assert f"mark block {block}" in text and "mark vector 2" in text.partition("advice user")[2]


def test_a_trial_that_proved_wrong_after_it_was_read_is_not_the_best(
    quiet: Window, qtbot: object, tmp_path: Path
) -> None:
    select(quiet, qtbot, GROUP)
    quiet.set_perspective("Tune")
    log = write_run(tmp_path / "live.db", quiet, GROUP, TIMES, RUNNING, others=(OTHER,))
    tuning = attached(quiet, qtbot, tmp_path / "live.db", 4)
    assert tuning.best == 1
    log.mark_wrong(2, "wrong result", "S0 differs")
    log.add_round(checked(2, GROUP))
    wait(qtbot, lambda: tuning.best == 3)
    assert tuning.shown is not None
    assert tuning.shown.trials.text("kind", 1) == "wrong result" and tuning.shown.examples[GROUP, "wrong result"]
    follower = Follower(tmp_path / "live.db")
    follower.look()
    assert follower.bests()[GROUP].row == 3
    log.store.close()
