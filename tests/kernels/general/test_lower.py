"""General kernels of hand-written and random schedules, emulated against the reference."""

from __future__ import annotations

import random

import pytest

import engine
from engine import Entry
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.scheduling.nodes import Band, walk
from engine.support.errors import Illegal
from engine.tensor.nodes import TensorProgram
from tests.explore.groups import made_of
from tests.support.checked_programs import check_program
from tests.support.programs import apply, at, program, statement
from tests.support.random_programs import random_program

GENERAL = engine.entry(mark=("family", "general"), at="outermost")
"""Faster families take multiples, shifts and reversals of a whole loop, too."""


def compiled(text: TensorProgram, *entries: Entry) -> Kernel:
    """The general kernel under required entries alone, without advice."""
    return by_any_family(text, *entries, GENERAL)


def by_any_family(text: TensorProgram, *entries: Entry) -> Kernel:
    kind = "row reduction" if any(s.reduction for s in text.statements) else "element-wise"
    group = made_of(text, kind)
    recipe = Recipe(target=group.target).advise("user", *entries, group=group.name)
    return engine.compile(group, recipe)


def element_wise() -> TensorProgram:
    shapes = {"x": (24, 40), "y": (24, 40)}
    box = [("i", 24), ("j", 40)]
    return program("copy", shapes, [statement("S0", box, at("y", "i", "j"), apply("exp", at("x", "i", "j")))], "y")


def softmax() -> TensorProgram:
    box = [("i", 12), ("j", 40)]
    shapes = {"x": (12, 40), "m": (12,), "e": (12, 40), "s": (12,), "y": (12, 40)}
    statements = [
        statement("S0", box, at("m", "i"), at("x", "i", "j"), ("max", "j")),
        statement("S1", box, at("e", "i", "j"), apply("exp", apply("sub", at("x", "i", "j"), at("m", "i")))),
        statement("S2", box, at("s", "i"), at("e", "i", "j"), ("sum", "j")),
        statement("S3", box, at("y", "i", "j"), apply("div", at("e", "i", "j"), at("s", "i"))),
    ]
    return program("softmax", shapes, statements, "y")


@pytest.mark.parametrize(
    "terms",
    [
        ("S0", "i", 2), ("S0", "i", -1), ("S0", "const", 3), (("i", 1), ("j", 1)), (("i", 2), ("j", -1)),
    ],
    ids=["multiple", "reversal", "constant", "sum", "difference of a multiple"],
)  # fmt: skip
def test_rows_of_any_coefficients_have_a_kernel(terms: engine.recipe.Value) -> None:
    kernel = compiled(element_wise(), engine.entry("S0", terms=terms, at="outermost", required=True))
    assert kernel.family == "general"
    assert check_program(kernel).status == "pass"


def test_a_sum_whose_terms_go_around_its_elements_is_collected_in_memory() -> None:
    kernel = compiled(softmax(), engine.entry("S0", pin="j", at="outermost", required=True))
    assert kernel.family == "general"
    assert check_program(kernel).status == "pass"


def test_a_sum_that_later_iterations_of_its_loop_read_is_complete_by_then() -> None:
    """All maxima are known at time 39, from which on the exponentials run in the same loop."""
    kernel = compiled(
        softmax(),
        engine.entry("S2", terms="skew", at="innermost", required=True),
        engine.entry("S1", terms=("S1", "j", 2), at="innermost", required=True),
    )
    assert kernel.family == "general"
    assert check_program(kernel).status == "pass"


def test_the_family_says_why_the_faster_one_does_not_fit() -> None:
    skewed = engine.entry("S0", terms=(("i", 1), ("j", 1)), at="outermost", required=True)
    kernel = by_any_family(element_wise(), skewed)
    assert kernel.tile.misfit == "element-wise: S0 runs over i + j in dimension i of 63, but a loop is one iterator"


@pytest.mark.parametrize("terms", [("S0", "i", 2), ("S0", "i", -1), ("S0", "const", 3)], ids=str)
def test_a_loop_that_is_scaled_shifted_or_reversed_whole_is_the_own_family_s(terms: engine.recipe.Value) -> None:
    """The schedule shows the row as it is asked for; the kernel is the one of the plain loop."""
    kernel = by_any_family(element_wise(), engine.entry("S0", terms=terms, at="outermost", required=True))
    assert kernel.family == "element-wise" and kernel.source.text == by_any_family(element_wise()).source.text
    (band,) = [node for node in walk(kernel.schedule.root) if isinstance(node, Band)]
    assert str(band.members[0].rows["S0"]) in ("2*i", "-i + 23", "i + 3")
    assert check_program(kernel).status == "pass"


@pytest.mark.parametrize("wish", [("S2", "j", -1), ("S1", "j", -1), ("S1", "j", 2), ("S3", "const", 1)], ids=str)
def test_a_softmax_with_one_of_its_loops_changed_computes_the_same(wish: engine.recipe.Value) -> None:
    kernel = by_any_family(softmax(), engine.entry(str(wish[0]), terms=wish, at="innermost", required=True))
    assert check_program(kernel).status == "pass"


def test_loops_of_other_lengths_are_not_run_to_their_end() -> None:
    """Statements that share a loop whose extents differ: the shorter one leaves its thread out."""
    shapes = {"x": (8, 16), "y": (8, 16), "z": (8, 4)}
    statements = [
        statement("S0", [("i", 8), ("j", 16)], at("y", "i", "j"), apply("exp", at("x", "i", "j"))),
        statement("S1", [("i", 8), ("k", 4)], at("z", "i", "k"), apply("neg", at("y", "i", "k"))),
    ]
    kernel = compiled(
        program("lengths", shapes, statements, "y z"),
        engine.entry(equal=("S0", "S1"), at="innermost", required=True),
        engine.entry("S0", terms="shift", at="innermost", required=True),
    )
    assert check_program(kernel).status == "pass"


def test_values_that_threads_hand_on_go_through_memory_and_barriers() -> None:
    kernel = compiled(softmax(), engine.entry("S1", terms=("S1", "j", -1), at="innermost", required=True))
    assert "barrier();" in kernel.source.text
    assert check_program(kernel).status == "pass"


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_under_random_coefficients_compute_the_same(seed: int) -> None:
    draw = random.Random(seed)
    text = random_program(seed)
    made = 0
    for _ in range(4):
        chosen = draw.choice([s for s in text.statements if s.iterators])
        name = draw.choice(chosen.iterators).name
        value = draw.choice([(chosen.name, name, draw.choice([-1, 2])), (chosen.name, "const", draw.randint(1, 3))])
        try:
            kernel = compiled(text, engine.entry(chosen.name, terms=value, at=draw.choice(["outermost", name])))
        except Illegal:
            continue
        made += 1
        assert check_program(kernel).status == "pass", value
    assert made
