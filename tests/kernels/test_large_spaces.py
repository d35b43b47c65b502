"""Spaces that are too large to be looked at whole: what is found of them, and that it costs no more for their size."""

from __future__ import annotations

import math
import random
import tracemalloc
from dataclasses import replace

import pytest

import engine
from engine.kernels.large_spaces import EXPANDED, UNSEEN, WHOLE, programs_of, unseen_of
from engine.kernels.prune import PruningRule, first
from engine.kernels.sieve import Sieve
from engine.kernels.sketch_rules import Sketch
from engine.kernels.space import Funnel, Program
from engine.tuning.problem import SearchProblem, problem

ODD = PruningRule("odd", lambda p: "" if p.number("a") % 2 == 0 else "it is odd", "only even ones are kernels")


def space(choices: int, dimensions: int = 4) -> Sketch:
    return Sketch("a mapping", {name: tuple(range(choices)) for name in "abcdefgh"[:dimensions]})


def rank_of(seed: int, made: Sketch) -> dict[str, list[float]]:
    """Made-up times of each value of each dimension: smooth, with a minimum anywhere."""
    draw = random.Random(seed)
    best = {name: draw.choice(choices) for name, choices in made.dimensions.items()}
    return {
        name: [1 + abs(n - int(best[name])) / len(choices) for n in range(len(choices))]
        for name, choices in made.dimensions.items()
    }


def look_at(made: Sketch, seed: int = 0, now: Program | None = None) -> tuple[Funnel, dict[Program, float], float]:
    """What is found, and the least time of all programs."""
    times = rank_of(seed, made)
    sieve = Sieve((ODD,), lambda program: first((ODD,), program))
    found = programs_of(made, sieve, lambda p: math.prod(times[n][p.number(n)] for n, _ in p.values), now)
    least = math.prod(min(t[::2] if name == "a" else t) for name, t in times.items())
    return *found, least


def test_a_small_space_is_looked_at_whole() -> None:
    funnel, times, least = look_at(space(8))
    assert funnel.total == 8**4 == WHOLE and len(funnel.left) == len(times) == 8**4 // 2
    assert [(d.rule, d.count) for d in funnel.dropped] == [("odd", 8**4 // 2)]
    assert min(times.values()) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("choices", "dimensions"), [(9, 4), (20, 4), (10, 8)])
def test_the_best_of_a_large_one_is_found(choices: int, dimensions: int, seed: int) -> None:
    made = space(choices, dimensions)
    funnel, times, least = look_at(made, seed)
    assert funnel.total == len(made) == len(funnel.left) + sum(d.count for d in funnel.dropped)
    assert len(times) == len(set(funnel.left)) and all(p.number("a") % 2 == 0 for p in funnel.left)
    assert len(times) <= WHOLE + 1 + EXPANDED * dimensions * choices
    assert [d.rule for d in funnel.dropped] == [UNSEEN, "odd"] and funnel.dropped[0].count > 0
    assert min(times.values()) == pytest.approx(least)


def test_the_kernels_own_program_is_a_member_and_what_is_found_is_the_same_each_time() -> None:
    made = space(20)
    now = Program("a mapping", (("a", 18), ("b", 19), ("c", 0), ("d", 7)))
    foreign = Program("a mapping", (("a", 18), ("b", 20), ("c", 0), ("d", 7)))
    assert now in look_at(made, now=now)[1] and foreign not in look_at(made, now=foreign)[1]
    assert now not in look_at(made)[1], "the sample has it anyway: the first line shows nothing"
    assert look_at(made)[0] == look_at(made)[0]


def test_points_by_number_and_neighbours() -> None:
    made = Sketch("m", {"a": (1, 2, 3), "word": ("x", "y"), "b": (7,)})
    assert [made.point(n) for n in range(len(made))] == list(made.points())
    near = [str(p) for p in made.neighbours(made.point(0))]
    assert near == ["m: a 2, word x, b 7", "m: a 3, word x, b 7", "m: a 1, word y, b 7"]


def test_what_was_not_looked_at_is_asked_one_by_one() -> None:
    made, sieve = space(20), Sieve((ODD,), lambda program: first((ODD,), program))
    assert unseen_of(space(8), sieve, lambda _: 1.0, math.inf) is None, "all of a small space was looked at"
    ask = unseen_of(made, sieve, lambda p: float(p.number("b")), 9.0)
    assert ask is not None
    names = ("a", "b", "c", "d")
    asked = {values: ask(Program("a mapping", tuple(zip(names, values, strict=True)))) for values in
             ((18, 9, 3, 3), (18, 10, 3, 3), (17, 9, 3, 3), (18, 9, 3, 20))}  # fmt: skip
    assert list(asked.values()) == [9.0, None, None, None], "one is promised too much, one is odd, one is no member"
    foreign = Program("another mapping", tuple(zip(names, (18, 9, 3, 3), strict=True)))
    assert ask(foreign) is None, "the mappings of a product have the same dimensions"


def test_a_program_is_found_by_its_text() -> None:
    dimensions: dict[str, tuple[int | str, ...]] = {"walk": ("i", "i, j", "i, j 1"), "n": (1, 12)}
    made = Sketch("a mapping", dimensions)
    row = engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0]
    found = problem(row, engine.default_recipe(row))
    assert isinstance(found, SearchProblem)
    task = replace(found.tasks[0], name=made.mapping, dimensions=dimensions)
    assert [task.program_named(str(program)) for program in made.points()] == list(made.points())
    assert task.program_named("a mapping: walk k, n 1") is None and task.program_named("another: walk i, n 1") is None
    assert task.program_named("a mapping: walk i, n 1, m 2") is None and task.program_named("") is None


@pytest.mark.slow(sentinel=True)
def test_memory_does_not_grow_with_the_space() -> None:
    """A hundred million programs take what a hundred thousand take."""
    peaks = []
    for dimensions in (5, 8):
        tracemalloc.start()
        look_at(space(10, dimensions))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 3 * peaks[0], "a program of eight dimensions is larger than one of five"
