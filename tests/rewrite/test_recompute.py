"""A value computed again where it was read: the same results, and why it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from engine.poly.dependences import dependences
from engine.rewrite.recompute import LARGEST_EXPRESSION, recompute
from engine.support.errors import BadInput, EngineError, Unsupported
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, Apply, Array, TensorProgram
from tests.support import irregular_programs as irregular
from tests.support import programs
from tests.support.programs import apply, at, program, statement
from tests.support.random_programs import random_program

SEEDS = range(80)
CLOSE = 1e-12
"""Relative, all arithmetic in float64: only the grouping inside an index may differ."""


def values(of: TensorProgram, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {name: draw.uniform(0.5, 1.5, of.arrays[name].shape) for name in of.inputs}


def agree(before: TensorProgram, after: TensorProgram, seed: int = 0) -> None:
    """Both programs make the same outputs from random inputs, and the second keeps a program's promises."""
    assert check_program(after) == ()
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    given = values(before, seed)
    old, new = (evaluate(each, given, exact=True) for each in (before, after))
    for name in before.outputs:
        np.testing.assert_allclose(new[name], old[name], rtol=CLOSE, atol=0)


def handed_on(of: TensorProgram) -> Iterator[tuple[str, str]]:
    """Every two statements of which the second reads what the first writes."""
    for made, reader in permutations(of.statements, 2):
        if any(access.array == made.write.array for access in reader.reads()):
            yield made.name, reader.name


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_keep_their_meaning(seed: int) -> None:
    """One value after the other is computed again, as long as there is one; reductions alone are refused."""
    before = after = random_program(seed, statements=8)
    while possible := [pair for pair in handed_on(after) if after.statement(pair[0]).reduction is None]:
        changed = recompute(after, *possible[seed % len(possible)])
        agree(before, changed, seed)
        after = changed
    for pair in handed_on(after):
        with pytest.raises(Unsupported, match="would be reduced again"):
            recompute(after, *pair)


def test_enough_random_programs_compute_something_again() -> None:
    drawn = [random_program(seed, statements=8) for seed in SEEDS]
    assert sum(any(p.statement(made).reduction is None for made, _ in handed_on(p)) for p in drawn) >= 50


@pytest.mark.parametrize(
    ("before", "pair", "expected"),
    [
        (programs.softmax(4, 6), ("S1", "S3"), "S3[i < 4, j < 6]: y[i, j] = (exp((x[i, j] - m[i])) / s[i])"),
        (programs.transpose_add(4, 6), ("S0", "S1"), "S1[a < 6, b < 4]: u[a, b] = exp(x[b, a])"),
        (irregular.reshape(4, 6, 3), ("S0", "S1"), "S1[n < 24]: y[n] = exp(x[(n) / 6, (n) % 6])"),
        (programs.bias_cast(4, 5, 2), ("S0", "S2"), "S2[i < 4, j < 5]: y[i, j] = (c[i, j] + float32(v[j]))"),
    ],
    ids=lambda value: value.name if isinstance(value, TensorProgram) else "",
)
def test_the_expression_stands_where_the_value_was_read(
    before: TensorProgram, pair: tuple[str, str], expected: str
) -> None:
    after = recompute(before, *pair)
    assert str(after.statement(pair[1])) == expected
    agree(before, after)
    linked = {(d.source, d.sink) for d in dependences(after)}
    assert pair in {(d.source, d.sink) for d in dependences(before)} and pair not in linked


def test_the_array_goes_with_its_last_reader() -> None:
    before = programs.softmax(4, 6)
    once = recompute(before, "S1", "S3")
    assert [s.name for s in once.statements] == ["S0", "S1", "S2", "S3"], "S2 reads e still"
    twice = recompute(once, "S1", "S2")
    assert [s.name for s in twice.statements] == ["S0", "S2", "S3"]
    assert "e" in once.arrays and "e" not in twice.arrays
    agree(before, twice)
    with pytest.raises(BadInput, match="there is no statement S1 any more"):
        recompute(twice, "S1", "S2")


def test_an_output_stays() -> None:
    before = programs.dropout(4, 6)
    after = recompute(before, "S0", "S1")
    assert [s.name for s in after.statements] == ["S0", "S1"]
    agree(before, after)


def test_a_value_is_rounded_as_it_was_kept() -> None:
    """Kept in half precision, a third is 0.33325195; in single precision it is not."""
    box = [("i", 3)]
    before = program(
        "rounded",
        {"x": (3,), "t": (3,), "y": (3,)},
        [statement("S0", box, at("t", "i"), at("x", "i")), statement("S1", box, at("y", "i"), at("t", "i"))],
        "y",
    )
    before = replace(before, arrays={**before.arrays, "t": Array("t", (3,), "float16")})
    after = recompute(before, "S0", "S1")
    assert after.statements[0].expression == Apply("cast", (at("x", "i"),), "float16")
    third = {"x": np.full(3, 1 / 3, np.float32)}
    assert np.array_equal(evaluate(after, third)["y"], evaluate(before, third)["y"])
    assert evaluate(after, third)["y"][0] != third["x"][0]


def _chain(length: int, reads: int) -> TensorProgram:
    """t0 = x, then each t is the product of `reads` reads of the one before."""
    box = [("i", 4)]
    made = [statement("S0", box, at("t0", "i"), at("x", "i"))]
    for k in range(1, length):
        product = at(f"t{k - 1}", "i")
        for _ in range(reads - 1):
            product = apply("mul", product, at(f"t{k - 1}", "i"))
        made.append(statement(f"S{k}", box, at(f"t{k}", "i"), product))
    return program("powers", {"x": (4,), **{f"t{k}": (4,) for k in range(length)}}, made, f"t{length - 1}")


def test_expressions_do_not_grow_without_end() -> None:
    before = after = _chain(8, 3)
    with pytest.raises(Unsupported, match=f"at most {LARGEST_EXPRESSION}"):
        for k in range(6, -1, -1):
            after = recompute(after, f"S{k}", "S7")
            agree(before, after)
    assert len(after.statements) < 8, "some steps are possible"


def test_indices_do_not_grow_without_end() -> None:
    """Each step reads at n / 2 + n % 2: composed, the index doubles."""
    n, size = Index.of("n"), 64
    extents = {"n": size}
    place = n.floordiv(2, extents) + n.mod(2, extents)
    names = ["x", *(f"t{k}" for k in range(10))]
    made = [
        statement(f"S{k}", [("n", size)], at(after, "n"), apply("exp", at(before, place)))
        for k, (before, after) in enumerate(pairwise(names))
    ]
    before = after = program("halves", dict.fromkeys(names, (size,)), made, names[-1])
    with pytest.raises(Unsupported, match=f"at most {LARGEST_EXPRESSION}"):
        for k in range(8, -1, -1):
            after = recompute(after, f"S{k}", "S9")
            agree(before, after)
    assert len(after.statements) < 10, "some steps are possible"


IN_PLACE = program(
    "overwritten",
    {"p": (4,), "t": (4,), "y": (4,)},
    [
        statement("S0", [("i", 4)], at("t", "i"), apply("exp", at("p", "i"))),
        statement("S1", [("i", 4)], at("p", "i"), apply("neg", at("p", "i"))),
        statement("S2", [("i", 4)], at("y", "i"), apply("add", at("t", "i"), at("p", "i"))),
    ],
    "p y",
    inputs="p",
)
OLD_AND_NEW = program(
    "old",
    {"x": (4,), "p": (4,), "y": (4,)},
    [
        statement("S0", [("i", 4)], at("y", "i"), at("p", "i")),
        statement("S1", [("i", 4)], at("p", "i"), at("x", "i")),
    ],
    "p y",
    inputs="p",
)
LOOKED_UP = program(
    "lookup",
    {"n": (4,), "t": (4,), "x": (9,), "y": (4,)},
    [
        statement("S0", [("i", 4)], at("t", "i"), at("n", "i")),
        statement("S1", [("i", 4)], at("y", "i"), at("x", Index.of(Element("t", (Index.of("i"),), 0, 8)))),
    ],
    "y",
)
REVERSED = program(
    "reversed",
    {"x": (4,), "t": (4,), "y": (4,)},
    [
        statement("S0", [("i", 4)], Access("t", (Index.of("i") * -1 + 3,)), at("x", "i")),
        statement("S1", [("i", 4)], at("y", "i"), at("t", "i")),
    ],
    "y",
)


@pytest.mark.parametrize(
    ("before", "pair", "reason", "kind"),
    [
        (programs.softmax(), ("S0", "S1"), "m is a max over j", Unsupported),
        (programs.softmax(), ("S0", "S2"), "S2 does not read m, which S0 writes", BadInput),
        (programs.softmax(), ("S1", "S1"), "S1 does not read e", BadInput),
        (programs.softmax(), ("S9", "S1"), "there is no statement S9", BadInput),
        (irregular.padded(), ("S0", "S1"), "in part of its iterations", Unsupported),
        (irregular.concat(), ("S0", "S2"), "t is written in parts", Unsupported),
        (IN_PLACE, ("S0", "S2"), "S1 overwrites p, which S0 reads", Unsupported),
        (IN_PLACE, ("S1", "S2"), "S1 overwrites p, which S1 reads", Unsupported),
        (OLD_AND_NEW, ("S1", "S0"), "S0 reads p before S1 writes it", Unsupported),
        (LOOKED_UP, ("S0", "S1"), "looks up positions in t", Unsupported),
        (REVERSED, ("S0", "S1"), "does not say which iteration", Unsupported),
    ],
)
def test_why_a_value_cannot_be_computed_again(
    before: TensorProgram, pair: tuple[str, str], reason: str, kind: type[EngineError]
) -> None:
    with pytest.raises(kind) as caught:
        recompute(before, *pair)
    assert reason in caught.value.reason
