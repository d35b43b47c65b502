"""The part of a space that a person's entries leave, of every kind of group: what the rule itself lets pass."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import engine
from engine.kernels.large_spaces import WHOLE
from engine.kernels.prune import left_by_user, user_check
from engine.kernels.sieve import Sieve
from engine.kernels.sketch_rules import Sketch
from engine.kernels.space import Task
from engine.recipe import Advice, Entry, Scenario
from engine.tuning.problem import SearchProblem, problem
from tests.tuning.test_programs import CASES

ASKED = 300
"""Random programs of a space, and of what is left of it, that the rule is asked about."""
LEAST_SHARE = 0.05
"""Of what is left, the least part that the rule lets pass: other dimensions decide whether there is an entry at all."""
MATMUL = "resources/models/matmul_bias_gelu_128x256x512.onnx"


def stub(wishes: tuple[Entry, ...]) -> Any:
    """What the rule reads of a kernel: its advice."""
    return SimpleNamespace(advice=(Advice("user", Scenario(wishes)),))


def wishes_of(task: Task, draw: random.Random) -> tuple[Entry, ...]:
    """Up to three entries that one of a task's programs has."""
    entries = [e for e in task.template.entries(draw.choice(task.programs)) if e.value is not None]
    return tuple(draw.sample(entries, min(len(entries), draw.randint(1, 3))))


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CASES)
def test_it_holds_what_the_rule_lets_pass(name: str, tmp_path: Path) -> None:
    group = CASES[name].make(tmp_path)
    found = problem(group, engine.default_recipe(group))
    assert isinstance(found, SearchProblem)
    draw, smaller = random.Random(name), 0
    for task, _ in itertools.product(found.tasks, range(4)):
        wishes = wishes_of(task, draw)
        made = Sketch(task.name, task.dimensions)
        rule = user_check(task.template, stub(wishes))
        sieve = Sieve((rule,), lambda program: None)
        part = left_by_user(made, task.template, stub(wishes), rule, sieve)
        (dropped,) = sieve.funnel(()).dropped
        assert dropped.count == len(made) - len(part) and 0 < len(part) <= len(made)
        asked = [made.point(draw.randrange(len(made))) for _ in range(ASKED)]
        passing = [program for program in (*task.programs, *asked) if not rule.broken(program)]
        assert passing and all(program in part for program in passing), list(map(str, wishes))
        left = [part.point(draw.randrange(len(part))) for _ in range(ASKED)]
        share = sum(not rule.broken(program) for program in left) / len(left)
        assert share > LEAST_SHARE, list(map(str, wishes))
        smaller += len(part) < len(made)
    assert smaller, "no wish decided anything"


@pytest.mark.parametrize(("more", "programs"), [((), 60), ((("k", "stages", 2),), 20), ((("k", "stages", 9),), 0)])
def test_all_programs_are_found_that_a_few_entries_leave(more: tuple[tuple[str, str, int], ...], programs: int) -> None:
    """Of 38,880, of which a sample has six or none.  Counted by asking the rules about each, in two seconds a case."""
    (group,) = engine.fuse(engine.load(MATMUL), target="a100").groups
    recipe = engine.default_recipe(group)
    for at, mark, value in (("i", "block", 64), ("j", "block", 64), ("k", "tile", 32), *more):
        recipe = recipe.advise("user", engine.entry("S0", mark=(mark, value), at=at))
    if not programs:
        with pytest.raises(engine.Unsupported, match=r"no program is left of 38,880: entries of the user drops 38,880"):
            problem(group, recipe)
        return
    found = problem(group, recipe)
    assert isinstance(found, SearchProblem)
    (task,) = found.tasks
    assert task.funnel.total == 38_880 > WHOLE and task.unseen is None
    assert len(task.programs) == programs == task.funnel.total - sum(d.count for d in task.funnel.dropped)


def test_dimensions_that_are_chosen_together_have_points_and_neighbours() -> None:
    made = Sketch("m", {"a": (1, 2, 3), "b": ("x", "y"), "c": (1, 2, 4)}, {("a", "c"): ((1, 4), (2, 2))})
    points = list(made.points())
    assert len(made) == len(points) == len(set(points)) == 4
    assert [made.point(n) for n in range(4)] == points and all(p in made for p in points)
    assert str(points[0]) == "m: a 1, b x, c 4"
    assert sorted(map(str, made.neighbours(points[0]))) == ["m: a 1, b y, c 4", "m: a 2, b x, c 2"]
    whole = Sketch("m", made.dimensions)
    assert [p for p in whole.points() if p in made] == sorted(points, key=str)
