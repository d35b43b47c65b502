"""A whole search with the predicted runner: what it tries, what it keeps, what it does not repeat."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.errors import BadInput, Unsupported
from engine.recipe import Recipe
from engine.records.store import RecordStore
from engine.run.nodes import PREDICTED
from engine.tune.nodes import Limits
from engine.tune.problem import Problem, problem
from engine.tune.products import CUDA_CORES, Products
from tests.commands import document, loomscope, refused

ROW = "suite:gta/gemm-256x1024x256"


@cache
def plan() -> engine.FusionPlan:
    return engine.fuse(engine.load(ROW))


@cache
def recipe() -> Recipe:
    return engine.default_recipe(plan())


def tried(path: Path, strategy: str = "random", trials: int = 6, seed: int = 0) -> tuple[int, int]:
    """Trials of a search, and how many of them were known."""
    with RecordStore(path) as store:
        search = engine.tune(plan(), recipe(), store, strategy, seed)
        list(search.rounds(Limits(trials)))
        (one,) = search.progress.values()
        assert not one.failures
        return one.trials, one.reused


def test_the_next_search_repeats_no_trial_whatever_asks_for_it(tmp_path: Path) -> None:
    assert tried(tmp_path / "r.db") == (6, 0)
    assert tried(tmp_path / "r.db") == (6, 6)
    assert tried(tmp_path / "r.db", trials=9) == (9, 6)
    with RecordStore(tmp_path / "r.db") as store:
        kept = list(store.trials(PREDICTED))
        assert len(kept) == 9
    again = Recipe.loads(kept[0].recipe)
    made = engine.compile(plan().groups[0], again)
    found = problem(plan().groups[0], recipe())
    assert isinstance(found, Problem)
    stands = [task.family.program_of(made) for task in found.tasks]
    assert kept[0].because in map(str, stands)


def test_a_broken_off_search_keeps_every_finished_trial(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        search = engine.tune(plan(), recipe(), store, "random")
        ticks = iter(range(100))
        rounds = list(search.rounds(Limits(50, minutes=3.5 / 60), clock=lambda: float(next(ticks))))
        assert 0 < len(rounds[0].results) < 50
        assert len(list(store.trials(PREDICTED))) == len(rounds[0].results)


def test_the_best_program_is_in_the_recipe_under_its_author(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        search = engine.tune(plan(), recipe(), store, "model")
        list(search.rounds(Limits(12)))
    (one,) = search.progress.values()
    assert one.winner is not None
    kernel = engine.compile(plan().groups[0], one.problem.tuned(one.winner.program))
    assert one.problem.task(one.winner.program).family.program_of(kernel) == one.winner.program
    assert one.problem.taken(kernel, one.winner.program) == ""
    assert engine.predict(kernel).microseconds == pytest.approx(one.winner.microseconds)
    assert one.best == sorted(one.best, reverse=True)
    found = search.recipe()
    changed = any(advice.author == "tune" for advice in found.groups[plan().groups[0].name])
    assert changed == (one.gain > 0)


def test_what_a_person_decided_is_not_searched() -> None:
    group = plan().groups[0]
    wish = engine.entry(group.program.statements[0].name, at="i", mark=("block", 64), because="a person says so")
    fixed = recipe().advise("user", wish, group=group.name)
    found = problem(group, fixed)
    assert isinstance(found, Problem)
    families = [task.family for task in found.tasks]
    assert [family.name for family in families] == ["mma_m16n8k16_f16", CUDA_CORES]
    for task, family in zip(found.tasks, families, strict=True):
        assert isinstance(family, Products)
        assert {family.knobs(program).block[0] for program in task.programs} == {64}
    made = found.tuned(found.programs[0])
    assert [a for a in made.groups[group.name] if a.author == "user"] == [
        a for a in fixed.groups[group.name] if a.author == "user"
    ]


def test_what_cannot_be_searched_says_why(tmp_path: Path) -> None:
    softmax = engine.fuse(engine.load("resources/models/softmax_96x512.onnx"))
    with RecordStore(tmp_path / "r.db") as store:
        with pytest.raises(Unsupported, match="nothing to search"):
            engine.tune(softmax, engine.default_recipe(softmax), store)
        with pytest.raises(BadInput, match="exhaustive"):
            engine.tune(plan(), recipe(), store, "best")
        with pytest.raises(BadInput, match="too few"):
            list(engine.tune(plan(), recipe(), store).rounds(Limits(0)))


def test_the_command_searches_checks_resumes_and_writes(tmp_path: Path) -> None:
    records, out, table = (str(tmp_path / name) for name in ("r.db", "r.json", "t.csv"))
    options = ("tune", ROW, "--records", records, "--trials", "5")
    refused(*options, "--resume")
    refused(*options, "--runner", "measured")
    refused(*options, "--minutes", "-1")
    first = document(*options, "--no-check", "-o", out, "--export", table)
    assert (first["trials"], first["reused"], first["failures"]) == (5, 0, {})
    (best,) = first["best"].values()
    assert best["origin"] == "predicted" and best["microseconds"] > 0
    assert Path(table).read_text().count("\n") == 1 + 5
    assert Recipe.from_json(json.loads(Path(out).read_text())).target == "h200"
    second = document(*options, "--resume", "--no-check")
    assert (second["trials"], second["reused"]) == (5, 5)
    assert "a model's, not measured" in loomscope(*options, "--resume").stdout
