"""What each entry of a tuned recipe is worth: against recipes that are changed by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import engine
from engine.documents.ablation import AblationDoc
from engine.recipe import Advice, Recipe, walk_entries
from engine.support.errors import EngineError
from engine.tuning.ablation import ablate
from tests.tuning.runs import known


@cache
def best() -> Recipe:
    return known().recipe_of(min(known().programs[:200], key=known().rank))


@cache
def ablated() -> AblationDoc:
    return engine.ablate(known().group, best(), known().recipe)


def test_every_enabled_entry_is_taken_back_once_the_most_worthwhile_first() -> None:
    told = ablated()
    said = [(a.author, str(e)) for a in best().groups[told.group] for e in a.scenario.entries if e.enabled]
    assert sorted(said) == sorted((flip.author, flip.entry) for flip in told.flips)
    gains = [flip.gain for flip in told.flips if flip.gain is not None]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    assert told.origin == "predicted"
    assert told.microseconds == engine.predict(engine.compile(known().group, best())).microseconds


def test_a_gain_is_the_time_without_the_entry_less_the_time_with_it() -> None:
    told, name = ablated(), known().group.name
    stages = next(flip for flip in told.flips if "intrinsic" in flip.entry)
    left = []
    for one in best().groups[name]:
        kept = tuple(e for e in one.scenario.entries if (one.author, str(e)) != (stages.author, stages.entry))
        left.append(Advice(one.author, replace(one.scenario, entries=kept)))
    without = engine.predict(engine.compile(known().group, best().with_group(name, tuple(left)))).microseconds
    assert stages.microseconds == without and stages.gain == pytest.approx(without - told.microseconds)


def test_what_stood_there_before_comes_again() -> None:
    told = ablated()
    stood = {str(entry) for path, _, entry in walk_entries(known().recipe.groups[told.group]) if not any(path[1:-1])}
    back = [flip for flip in told.flips if flip.before]
    assert back and all(flip.before in stood and flip.before != flip.entry for flip in back)


def test_an_entry_without_which_there_is_no_kernel_says_so() -> None:
    def cost(kernel: engine.Kernel) -> float:
        if len([e for one in kernel.advice for e in one.scenario.entries]) < count:
            raise EngineError("codegen", "kernel", "does not exist")
        return 1.0

    name = known().group.name
    count = len([e for one in best().groups[name] for e in one.scenario.entries])
    told = ablate(known().group, best(), known().recipe, cost, "synthetic")
    refused = [flip for flip in told.flips if not flip.before]
    assert refused and all(flip.why_not == "does not exist" and flip.gain is None for flip in refused)
    assert all(flip.gain == 0.0 for flip in told.flips if flip.before)
    assert told.flips[-1].gain is None, "what cannot be told comes last"
