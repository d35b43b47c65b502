"""Searches for tests: one small product, times made from a seed where no model's are wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import engine
from engine.execution.nodes import SYNTHETIC, Failure, Timing
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import Attempt
from engine.records.store import RecordStore
from engine.tuning.executors import Workers, here
from engine.tuning.final_validation import Judge
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.runner import Outcome, PredictedRunner, Prepared, compile_tuned, recipe_of, subject_of, this_process
from engine.tuning.search import Search
from engine.tuning.settings import SearchLimits, SearchSettings, SearchTools
from engine.tuning.setup import begin

ROW = "suite:gta/gemm-256x1024x256"


@cache
def plan() -> engine.FusionPlan:
    return engine.fuse(engine.load(ROW))


@cache
def recipe() -> Recipe:
    """A person wants single buffers: every program left is one that the kernel generator takes."""
    wish = engine.entry(plan().groups[0].program.statements[0].name, at="k", mark=("stages", 1), because="a test")
    return engine.default_recipe(plan()).advise("user", wish, group="matmul_0")


@cache
def known() -> SearchProblem:
    """What can be chosen of it: found out once for all tests."""
    found = problem(plan().groups[0], recipe())
    assert isinstance(found, SearchProblem)
    return found


@dataclass(frozen=True)
class Synthetic:
    """Times drawn by the kernel's text, in two steps as a GPU would give them."""

    fails: str = ""
    """Kind of the failure of every third kernel; "" for none."""
    name: str = "synthetic"
    origin: str = SYNTHETIC
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(None, "", kernel, this_process())
        return Prepared(subject_of(kernel, "synthetic 1"), recipe_of(kernel), None, this_process())

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        kernel = compile_tuned(group, recipe)
        assert not isinstance(kernel, Failure)
        number = int(hashlib.sha256(kernel.source.text.encode()).hexdigest()[:8], 16)
        if self.fails and number % 3 == 0:
            return Failure(self.fails, "as every third")
        return Timing(SYNTHETIC, 1.0 + number % 1000 / 100)


def search(
    store: RecordStore, trials: int = 6, strategy: str = "random", seed: int = 0, runner: object = None,
    resume: bool = False, workers: Workers | None = None, judge: Judge | None = None, minutes: float = float("inf"),
) -> Search:  # fmt: skip
    limits = SearchLimits(trials, minutes)
    settings = SearchSettings(strategy, runner or PredictedRunner(), limits, seed, ROW, resume)  # type: ignore[arg-type]
    return begin_search(plan().groups, recipe(), store, settings, workers, judge)


def begin_search(
    groups: Sequence[FusionGroup], recipe: Recipe, store: RecordStore, settings: SearchSettings | None = None,
    workers: Workers | None = None, judge: Judge | None = None,
) -> Search:  # fmt: skip
    """A search in a store that the test made, by default in this process and without checks."""
    return begin(groups, recipe, store, settings or SearchSettings(), SearchTools(workers or here(), judge or Judge()))


def run(path: Path, trials: int = 6, **options: object) -> tuple[Search, Sequence[Attempt]]:
    """A whole search, and its attempts."""
    with RecordStore(path) as store:
        one = search(store, trials, **options)  # type: ignore[arg-type]
        return one, list(one.run())
