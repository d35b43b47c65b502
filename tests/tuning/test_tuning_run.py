"""`engine.tune` from a script: iterate, stop, resume, report; options that cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import engine
from engine.records.reader import RunReader
from engine.support.errors import BadInput, Unsupported
from engine.tuning.search import SPENT
from tests.tuning.runs import plan

OPTIONS: dict[str, Any] = {"trials": 6, "strategy": "random", "check": False}


def test_a_plan_and_its_only_group_are_searched_alike(tmp_path: Path) -> None:
    whole = engine.tune(plan(), **OPTIONS)
    assert [attempt.group for attempt in whole] == ["matmul_0"] * whole.attempts
    assert whole.spent == whole.budget == 6 and whole.report().ended == SPENT
    group = engine.tune(plan().groups[0], records=tmp_path / "r.db", **OPTIONS)
    assert group.best == whole.best and group.report().groups == whole.report().groups
    kernel = engine.compile(plan().groups[0], group.best)
    assert engine.predict(kernel).microseconds == group.report().groups["matmul_0"].time


def test_the_best_so_far_does_not_run_and_the_best_does() -> None:
    run = engine.tune(plan(), **OPTIONS)
    assert run.best_so_far == engine.default_recipe(plan()) and run.spent == 0
    next(run)
    assert run.best and run.spent == 6
    assert next(run, None) is None


def test_a_run_that_is_left_is_interrupted_and_resumed(tmp_path: Path) -> None:
    records = tmp_path / "r.db"
    with engine.tune(plan(), records=records, **OPTIONS) as run:
        for _ in run:
            if run.spent == 2:
                break
    assert run.was_interrupted and run.report().ended == "interrupted"
    assert str(run).splitlines()[-1] == f"interrupted: run 1 in {records}"
    with RunReader(records) as reader:
        assert reader.run().state == "interrupted" and len(reader.attempts(1)) == 2
    again = engine.tune(plan(), records=records, resume=True, **OPTIONS)
    assert again.spent == 2
    assert again.best == engine.tune(plan(), **OPTIONS).best and again.report().run == 1


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    run = engine.tune(plan(), records=tmp_path / "r.db", **{**OPTIONS, "check": True})
    assert run.report().ended == "" and "going on" in str(run.report())
    assert run.best
    report = run.report()
    (one,) = report.groups.values()
    lines = str(report).splitlines()
    assert lines[0].split() == "group trials before, µs (predicted) best, µs (predicted) program".split()
    assert lines[1].split()[:2] == ["matmul_0", "6"] and f"{one.time:.2f}" in lines[1]
    assert lines[-1] == f"{SPENT}: run 1 in {tmp_path / 'r.db'}"
    mappings, programs, left = one.sizes
    assert mappings >= 1 and programs > left > 6
    assert run.export(tmp_path / "t.csv") == len((tmp_path / "t.csv").read_text().splitlines()) - 1 > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trials": 0}, "0 trials .* are too few"), ({"strategy": "best"}, "strategy best: is not known"),
        ({"runner": "guessed"}, "runner guessed: is not known"), ({"minutes": -1.0}, "-1 minutes: is no time"),
        ({"patience": 0}, "is no number of rounds"), ({"resume": True}, "is not there to go on with"),
        ({"runner": "replayed"}, "is not there to be replayed"), ({"records": "/dev"}, "is not a file"),
        ({"cluster": "nowhere"}, "is no address"), ({"jobs": 2, "cluster": "tcp://here:1"}, "this machine alone"),
        ({"jobs": 2, "runner": "measured"}, "one GPU"), ({"jobs": 0}, "0 jobs"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        engine.tune(plan(), **options)


def test_a_group_without_a_search_says_why() -> None:
    wish = engine.entry(plan().groups[0].program.statements[0].name, at="i", mark=("block", 40))
    fixed = engine.default_recipe(plan()).advise("user", wish, group="matmul_0")
    with pytest.raises(Unsupported, match="matmul_0: has nothing to search"):
        engine.tune(plan(), fixed)
