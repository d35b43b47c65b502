"""Following a file of records without a window: batches, what comes later, orders of processes, whose run it is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.controllers.tuning import follower as following
from app.controllers.tuning.control import is_of
from app.controllers.tuning.figures import causes, cuts, importance, shares, summary
from app.controllers.tuning.follower import Follower
from app.controllers.tuning.launch import Order, order_again, records_of, write_present
from app.controllers.tuning.shown import Shown
from app.session.open_request import OpenRequest
from engine.recipe_files import read_recipe
from engine.records.nodes import (
    FAILED,
    FINISHED,
    NEW,
    PAUSED,
    STOPPED,
    Attempt,
    Dropped,
    RefusedRecord,
    Request,
    Round,
    TaskRecord,
)
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.scheduling.text import to_text
from engine.support.errors import BadInput
from views.tuning.nodes import STOPPING

REQUEST = Request("/models/a.onnx", "h200", "model", "predicted", "predicted", 8, groups=("a", "b"))
TASKS = tuple(
    TaskRecord(group, mapping, {"tile": (8, 16)}, 100, (Dropped("registers", "what fits", 90, "300 of 255"),), 10, 20.0)
    for group, mapping in (("a", "x"), ("a", "y"), ("b", "x"))
)


def attempt(number: int, group: str, mapping: str = "x", time: float | None = 10.0, tile: int = 8) -> Attempt:
    failure = "" if time is not None else "crash"
    state = FAILED if failure else NEW
    return Attempt(number, None, group, mapping, (("tile", tile),), math.inf, state, time, failure, failure, 0.1)


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    """A run without attempts."""
    return RunLog.start(RecordStore(tmp_path / "run.db"), REQUEST, TASKS, {"c": "has one program"})


def shown(log: RunLog, tmp_path: Path) -> Shown:
    """The run read to its end."""
    found = Shown.of(tmp_path / "run.db", Follower(tmp_path / "run.db"))
    while (update := found.follower.look()) is not None:
        found.take(update)
    return found


def test_only_what_is_new_is_read_and_in_bounded_batches(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ATTEMPTS_A_LOOK", 2)
    log.keep_all((attempt(number, "a"), None) for number in range(1, 6))
    follower = Follower(tmp_path / "run.db")
    sizes = []
    while (update := follower.look()) is not None:
        sizes.append((len(update.batch), update.is_complete))
    assert sizes == [(2, False), (2, False), (1, True)]
    log.keep(attempt(6, "b"), None)
    update = follower.look()
    assert update is not None and list(update.batch.number) == [1] and follower.look() is None


def test_trials_are_numbered_within_their_group(log: RunLog, tmp_path: Path) -> None:
    log.keep_all((attempt(number, group), None) for number, group in enumerate("abbaab", 1))
    trials = shown(log, tmp_path).trials
    assert list(trials.number[trials.rows_of("a")]) == [1, 2, 3] and list(trials.rows_of("b")) == [1, 2, 5]
    assert np.isnan(trials.promised).all()


def test_the_figures_of_a_group(log: RunLog, tmp_path: Path) -> None:
    tried = [("x", 15.0, 8), ("y", 10.0, 16), ("x", None, 8), ("y", 12.0, 16)]
    log.keep_all((attempt(n, "a", *rest), None) for n, rest in enumerate(tried, 1))
    log.add_round(Round(1, "search", "a", "x", "unexplored", {"share": 0.5}, 15.0, 2))
    log.add_round(Round(2, "search", "a", "y", "fastest", {"share": 0.9}, 10.0, 2))
    log.set_state(FINISHED)
    run = shown(log, tmp_path)
    assert run.run is not None and run.total == 16 and run.run.skipped == {"c": "has one program"}
    rows = run.trials.rows_of("a")
    found = summary(run.run, run.trials, rows, run.rounds, "a", "A")
    assert (found.best, found.number, found.trials, found.rounds, found.failed) == (10.0, 2, 4, 2, 1)
    assert found.gain == pytest.approx(0.5)
    funnel = cuts([task for task in run.run.tasks if task.group == "a"], 4)
    assert [(cut.rule, cut.left) for cut in funnel] == [("All programs", 200), ("registers", 20), ("Tried", 4)]
    tasks = [task for task in run.run.tasks if task.group == "a"]
    said = {tried: cuts(tasks, tried)[-1].because for tried in (4, 20, 26)}
    assert said == {4: "16 waiting", 20: "all of them", 26: "6 joined"}
    first, second = shares(run.run, run.rounds, run.trials, {"a": "A"})
    assert (first.title, first.rounds) == ("A", (1, 2)) and second.rounds == ()
    assert [(part.key, round(part.gain, 3)) for part in first.parts] == [("x", 0.25), ("y", 0.5)]
    assert first.because[-1] == "round 2: fastest (share 0.900)"
    (crash,) = causes(run.trials, rows, run.examples, "a")
    assert (crash.kind, crash.count, crash.wrong) == ("crash", 1, False)
    (tile,) = importance(run.trials, rows)
    # Logarithms of 15 against those of 10 and 12: 0.06586 between the values of 0.08248 in all.
    assert tile.dimension == "tile" and tile.best == "16" and tile.part == pytest.approx(0.7985, abs=1e-4)


def test_a_run_without_trials_has_no_figures(log: RunLog, tmp_path: Path) -> None:
    run = shown(log, tmp_path)
    assert run.busiest() == "a" and importance(run.trials, run.trials.rows_of("a")) == ()
    assert run.run is not None
    found = summary(run.run, run.trials, run.trials.rows_of("a"), (), "a", "a")
    assert math.isinf(found.best) and found.gain == 0.0 and found.before == 20.0


@pytest.mark.parametrize(
    ("opening", "same"),
    [
        (OpenRequest("/models/a.onnx", "h200"), True),
        (OpenRequest("/models/a.onnx", "a100"), False),
        (OpenRequest("/models/b.onnx", "h200"), False),
        (OpenRequest("/models/a.onnx", "h200", {"batch": 8}), True),
        (OpenRequest("/models/a.onnx", "h200", {"batch": 4}), False),
    ],
)
def test_a_run_is_of_a_file_a_target_and_sizes(opening: OpenRequest, same: bool) -> None:
    assert is_of(replace(REQUEST, dimensions={"batch": 8}), opening) is same


def test_a_run_is_of_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    """A run notes the file itself: opened through a link, its recipes could not be applied."""
    model, link = tmp_path / "kept" / "a.onnx", tmp_path / "models"
    model.parent.mkdir()
    model.touch()
    link.symlink_to(model.parent)
    assert is_of(replace(REQUEST, source=str(model)), OpenRequest(str(link / "a.onnx"), "h200"))


def test_an_order_says_what_the_command_line_wants(tmp_path: Path) -> None:
    order = Order("m.onnx", "h200", {"batch": 8}, "random", "predicted", 9, 2, "g", tmp_path / "r.db", None)
    said = order.arguments()
    assert said[:2] == ("tune", "m.onnx") and not {"--resume", "--recipe", "--from"} & set(said)
    for option, value in (("--group", "g"), ("--minutes", "2"), ("--dim", "batch=8"), ("--trials", "9")):
        assert said[said.index(option) + 1] == value
    known = replace(order, start="/runs/near.db").arguments()
    assert known[known.index("--from") + 1] == "/runs/near.db" and len(known) == len(said) + 2
    again = order_again(replace(REQUEST, groups=("a",), start="/runs/near.db"), tmp_path / "r.db").arguments()
    assert "--from" not in again, "--resume takes the run's own, and goes on where its file is gone"
    assert again[-1] == "--resume" and again[again.index("--group") + 1] == "a" and "--minutes" not in again


def test_the_present_advice_is_written_for_the_process(tmp_path: Path) -> None:
    text = "advice user\n  S0 @ i: split 4\n"
    path, numerics = tmp_path / "new" / "r.json", {"arithmetic": "opmath"}
    write_present(path, "a100", {"batch": 2}, numerics, '{"apart": "[[\\"A\\", \\"B\\"]]"}', {"g": text})
    recipe = read_recipe(path)
    assert recipe.numerics == numerics
    assert (recipe.target, recipe.dimensions, to_text(recipe.groups["g"])) == ("a100", {"batch": 2}, text)
    assert recipe.fusion == {"apart": '[["A", "B"]]'}
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be made"):
        write_present(tmp_path / "file" / "r.json", "a100", {}, {}, "{}", {})


def test_records_of_two_targets_are_two_files() -> None:
    assert records_of("/a/m.onnx", "h200") != records_of("/a/m.onnx", "a100") != records_of("/b/m.onnx", "a100")
    assert records_of("suite:gta/gemm-1", "h200").suffix == ".db"


def test_a_run_that_is_to_stop_is_not_done_because_it_is_paused(log: RunLog, tmp_path: Path) -> None:
    log.set_state(PAUSED)
    one = shown(log, tmp_path)
    one.overlay = STOPPING
    log.beat()
    update = one.follower.look()
    assert update is not None
    one.take(update)
    assert one.state == STOPPING
    log.set_state(STOPPED)
    update = one.follower.look()
    assert update is not None
    one.take(update)
    assert one.state == STOPPED


def test_refused_mappings_stand_under_their_group_and_spreads_beside_times(tmp_path: Path) -> None:
    reasons = (RefusedRecord("b", "dp4a", "multiplies int8", 1), RefusedRecord("b", "wmma", "is square", 4))
    log = RunLog.start(RecordStore(tmp_path / "run.db"), REQUEST, TASKS, refused=reasons)
    log.keep(replace(attempt(1, "a"), low=9.0, high=12.0), None)
    log.keep(attempt(2, "a"), None)
    one = shown(log, tmp_path)
    low, high = one.trials.spread
    assert (low[0], high[0]) == (9.0, 12.0) and np.isnan(low[1])
    assert one.run is not None
    first, second = shares(one.run, one.rounds, one.trials, {})
    assert first.parts == ()
    assert [(part.title, part.refused) for part in second.parts] == [
        ("dp4a", "not searched: multiplies int8"), ("wmma", "not searched: is square (4 of them)"),
    ]  # fmt: skip
