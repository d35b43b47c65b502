"""A reduction in any order: the same results whatever the order of its terms, and what it makes possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.poly.dependences import dependences
from engine.rewrite.associative import associative
from engine.support.errors import BadInput
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import rewrite_scalar
from tests.rewrite.test_recompute import values
from tests.support import programs
from tests.support.programs import at, program, statement
from tests.support.random_programs import random_program

SEEDS = range(80)
CLOSE = 1e-12
"""Relative, in float64: sums of some dozens of positive terms differ by their rounding."""


def backwards(of: TensorProgram, name: str) -> TensorProgram:
    """The program with the terms of one reduction from the last to the first."""

    def turned(one: Statement) -> Statement:
        if one.name != name:
            return one
        values = {i.name: Index.of(i.name) * -1 + (i.extent - 1) for i in one.reduced}
        return replace(one, expression=rewrite_scalar(one.expression, values, lambda access: access, one.extents))

    return replace(of, statements=tuple(map(turned, of.statements)))


def ordered(of: TensorProgram) -> list[str]:
    return [s.name for s in of.statements if s.reduction is not None and not s.reduction.associative]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_reductions_may_run_backwards(seed: int) -> None:
    before = random_program(seed, statements=8)
    for name in ordered(before):
        after = associative(before, name)
        assert ordered(after) == [other for other in ordered(before) if other != name]
        given = values(before, seed)
        old, new = evaluate(before, given, exact=True), evaluate(backwards(after, name), given, exact=True)
        for array in before.outputs:
            np.testing.assert_allclose(new[array], old[array], rtol=CLOSE, atol=0)


def test_enough_random_programs_have_an_ordered_reduction() -> None:
    assert sum(bool(ordered(random_program(seed, statements=8))) for seed in SEEDS) >= 50


@pytest.mark.parametrize("operation", ["sum", "max", "min", "prod"])
def test_each_operation_may_run_backwards(operation: str) -> None:
    box = [("i", 3), ("k", 7)]
    made = statement("S0", box, at("y", "i"), at("x", "i", "k"), (operation, "k"), associative=False)
    before = program(operation, {"x": (3, 7), "y": (3,)}, [made], "y")
    after = associative(before, "S0")
    given = values(before)
    old, new = evaluate(before, given, exact=True), evaluate(backwards(after, "S0"), given, exact=True)
    np.testing.assert_allclose(new["y"], old["y"], rtol=CLOSE, atol=0)
    assert [d.kind for d in dependences(before)] == ["reduction"] and dependences(after) == ()


def test_what_is_so_already_stays() -> None:
    assert associative(programs.softmax(), "S0") == programs.softmax()


def test_what_reduces_nothing_or_in_its_own_order_is_refused() -> None:
    with pytest.raises(BadInput, match="S1 reduces nothing \\(those do: S0, S2\\)"):
        associative(programs.softmax(), "S1")
    with pytest.raises(BadInput, match="no statement S9"):
        associative(programs.softmax(), "S9")
    first = programs.softmax().statements[0]
    assert first.reduction is not None
    last = replace(first, reduction=replace(first.reduction, operation="last"))
    with pytest.raises(BadInput, match="a last depends on the order of its terms"):
        associative(replace(programs.softmax(), statements=(last,)), "S0")
