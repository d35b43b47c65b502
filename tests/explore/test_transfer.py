"""Choices for one plan on another: what fits and is no slower is taken and told, the rest stays as advised."""

from __future__ import annotations

from dataclasses import replace

import pytest

import engine
from engine.recipe import Advice, Recipe
from tests.support.needs import needs_compiler

SMALL, LARGE = "suite:gta/gemm-256x1024x256", "suite:alcop/MM_BERT_FC1"


@pytest.fixture(scope="module")
def tuned() -> Recipe:
    run = engine.tune(engine.fuse(engine.load(SMALL)), trials=24, strategy="evolution", seed=3, check=False)
    best = run.best
    assert any(one.author == "tune" for one in best.groups["matmul_0"]), "the search found something"
    return best


def microseconds(plan: engine.FusionPlan, recipe: Recipe | None = None) -> float:
    (group,) = plan.groups
    return engine.predict(engine.compile(group, recipe)).microseconds


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.parametrize("row", [SMALL, LARGE])
def test_what_is_taken_is_no_slower_and_right(tuned: Recipe, row: str) -> None:
    plan = engine.fuse(engine.load(row))
    found = engine.transfer(tuned, plan)
    assert found.taken.keys() ^ found.left.keys() == {"matmul_0"}
    assert microseconds(plan, found.recipe) <= microseconds(plan)
    kernel = engine.compile(plan.groups[0], found.recipe)
    assert engine.check(kernel).status == "pass"
    if row == SMALL:
        assert found.taken and microseconds(plan, found.recipe) == microseconds(plan, tuned)
        assert [a for a in kernel.advice if a.author == "tune"] == [
            a for a in tuned.groups["matmul_0"] if a.author == "tune"
        ]


def test_what_is_slower_is_left(tuned: Recipe) -> None:
    plan = engine.fuse(engine.load(SMALL))
    slow = tuned.with_group("matmul_0", ()).advise(
        "user", engine.entry("S0", parallel=False, at="i", required=True), engine.entry(mark=("family", "general")),
        group="matmul_0",
    )  # fmt: skip
    found = engine.transfer(slow, plan)
    assert not found.taken and found.left.keys() == {"matmul_0"}
    assert found.recipe.groups == engine.default_recipe(plan).groups


def test_another_kind_of_group_and_statements_that_are_not_there_are_left(tuned: Recipe) -> None:
    softmax = engine.fuse(engine.load("resources/models/softmax_96x512.onnx"))
    assert "nothing is known" in str(engine.transfer(tuned, softmax))
    (advice,) = (one for one in tuned.groups["matmul_0"] if one.author == "tune")
    strange = tuple(replace(entry, statements=("S77",)) for entry in advice.scenario.entries)
    broken = tuned.with_group("matmul_0", (Advice("tune", replace(advice.scenario, entries=strange)),))
    found = engine.transfer(broken, engine.fuse(engine.load(LARGE)))
    assert "S77" in found.left["matmul_0"]


def test_the_group_of_the_same_name_comes_first_and_others_of_its_kind_follow(tuned: Recipe) -> None:
    plan = engine.fuse(engine.load(SMALL))
    elsewhere = replace(tuned, groups={"matmul_5": tuned.groups["matmul_0"], "matmul_0": ()})
    assert engine.transfer(elsewhere, plan).taken["matmul_0"].startswith("as matmul_5: ")
    both = replace(tuned, groups={"matmul_5": tuned.groups["matmul_0"], "matmul_0": tuned.groups["matmul_0"]})
    assert engine.transfer(both, plan).taken["matmul_0"].startswith("as matmul_0: ")
