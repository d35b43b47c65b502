"""Runs of tuning as a process would leave them: made-up trials of the open model's group in a file of records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from app.controllers.tuning.tuning import TuningController
from app.shell.window import Window
from engine.execution.nodes import PREDICTED, Failure, Timing
from engine.recipe import Recipe
from engine.records.nodes import (
    FAILED,
    FINISHED,
    NEW,
    Attempt,
    Dropped,
    Request,
    Round,
    Subject,
    TaskRecord,
    Trial,
)
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.scheduling.text import from_text
from tests.app.driving import PATIENCE, settle

DIMENSIONS = {"block": (1, 2, 4, 8), "vector": (2, 4, 8)}
BEFORE = 50.0
FAILURE = "out of memory"
GROUP = "softmax_0"
TIMES = (48.0, 45.0, None, 47.0)
"""Of blocks of 1, 2, 4 and 8 rows: the second is the best."""


def advice(text: str, block: int) -> str:
    """The advice with another number of rows in a block: what the made-up worker takes."""
    return re.sub(r"block \d+", f"block {block}", text)


def write_run(
    path: Path, window: Window, group: str, times: Sequence[float | None], state: str = FINISHED, target: str = "",
    origin: str = PREDICTED, others: Sequence[str] = (),
) -> RunLog:  # fmt: skip
    """A run of the open model with one trial for each time, None for a failure.

    others: groups that are searched as well and have no trial yet.  Trial n asks for blocks of 1, 2, 4, 8, 1, ... rows.
    Raises KeyError where the group's kernel is not known.
    """
    opened, text = window.workspace.opened, window.workspace.histories[group].step.text
    recipe = Recipe(opened.target, groups={group: from_text(text)})
    target = target or opened.target
    request = Request(
        opened.path, target, "model", origin, origin, len(times), groups=(group, *others),
        recipe=json.dumps(recipe.to_json()),
    )  # fmt: skip
    sieved = (Dropped("shared memory", "of one block", 4, "256 KiB of 227 KiB"),)
    task = TaskRecord(group, "rows", DIMENSIONS, 12, sieved, 8, BEFORE)
    store = RecordStore(path)
    log = RunLog.start(store, request, (task, *(replace(task, group=other) for other in others)))
    log.keep_all(_pair(number, group, text, recipe, target, time, origin) for number, time in enumerate(times, 1))
    best = min((time for time in times if time is not None), default=math.inf)
    log.add_round(Round(1, "search", group, "rows", "the only group", {"gradient": -2.0}, best, len(times), 1.0))
    log.set_state(state)
    return log


def add_trials(log: RunLog, window: Window, group: str, times: Sequence[float | None]) -> None:
    """Trials of another group of the run.  Raises KeyError where the group's kernel is not known."""
    text, run = window.workspace.histories[group].step.text, log.run().request
    recipe, first = Recipe(run.target, groups={group: from_text(text)}), len(log.attempts()) + 1
    for place, time in enumerate(times, 1):
        attempt, trial = _pair(place, group, text, recipe, run.target, time, run.origin)
        subject = replace(trial.subject, inputs=group)
        log.keep(replace(attempt, number=first + place - 1), replace(trial, subject=subject))


def _pair(
    number: int, group: str, text: str, recipe: Recipe, target: str, time: float | None, origin: str
) -> tuple[Attempt, Trial]:
    block = DIMENSIONS["block"][(number - 1) % 4]
    values = (("block", block), ("vector", DIMENSIONS["vector"][number % 3]))
    outcome = Failure(FAILURE, "227 KiB are there") if time is None else Timing(origin, time)
    tried = replace(recipe, groups={group: from_text(advice(text, block))})
    subject = Subject.of(f"{number} {time}", "grid 1", "float32", target, "made up 1")
    trial = Trial(subject, origin, outcome, group, json.dumps(tried.to_json()))
    attempt = Attempt(
        number, None, group, "rows", values, 20.0 + block, NEW if time is not None else FAILED, time,
        "" if time is not None else FAILURE, "" if time is not None else "227 KiB are there", number * 0.01,
    )  # fmt: skip
    return attempt, trial


def wait(qtbot: object, done: Callable[[], bool]) -> None:
    qtbot.waitUntil(done, timeout=PATIENCE)  # type: ignore[attr-defined]


def attached(window: Window, qtbot: object, path: Path, count: int) -> TuningController:
    """Follows a file until so many trials are there."""
    tuning = window.wiring.tuning
    tuning.control.attach(str(path))
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.path == path and len(tuning.shown.trials) == count)
    tuning.show()
    return tuning


def resting(window: Window, qtbot: object) -> None:
    """Waits until records and worker have answered."""
    tuning = window.wiring.tuning
    wait(qtbot, lambda: tuning.preview.is_settled and tuning.control.attachment.is_idle)
    settle(window, qtbot)
