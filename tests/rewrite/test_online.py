"""A softmax in one pass: the same results, however large the exponents; and why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from engine.poly.dependences import dependences
from engine.recipe import Advice, Entry, Scenario
from engine.rewrite.apply import apply as rewrite
from engine.rewrite.apply import rewritten
from engine.rewrite.online import online
from engine.scheduling.text import from_text, to_text
from engine.support.errors import BadInput, EngineError, Unsupported
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.nodes import Apply, Array, Statement, TensorProgram
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, SHIFTED_SUM, match_weighted
from tests.support import programs
from tests.support.programs import apply, at, program, statement

CLOSE = 1e-12
"""Relative, all arithmetic in float64: a quotient moved behind the sum."""
SINGLE, SMALLEST = 2.0**-24, 2.0**-126
"""Unit roundoff, and what smaller floats are rounded to less finely."""


def attention(rows: int = 6, keys: int = 10, depth: int = 4, head: int = 3) -> TensorProgram:
    """Scores, softmax over the keys, weighted values."""
    ij, box = ("i", "j"), [("i", rows), ("j", keys)]
    product = apply("mul", at("q", "i", "r"), at("k", "j", "r"))
    weighs = apply("mul", at("p", *ij), at("v", "j", "d"))
    return program(
        "attention",
        {
            "q": (rows, depth), "k": (keys, depth), "v": (keys, head), "x": (rows, keys), "m": (rows,),
            "e": (rows, keys), "l": (rows,), "p": (rows, keys), "o": (rows, head),
        },
        [
            statement("S0", [*box, ("r", depth)], at("x", *ij), product, ("sum", "r")),
            statement("S1", box, at("m", "i"), at("x", *ij), ("max", "j")),
            statement("S2", box, at("e", *ij), apply("exp", apply("sub", at("x", *ij), at("m", "i")))),
            statement("S3", box, at("l", "i"), at("e", *ij), ("sum", "j")),
            statement("S4", box, at("p", *ij), apply("div", at("e", *ij), at("l", "i"))),
            statement("S5", [("i", rows), ("d", head), ("j", keys)], at("o", "i", "d"), weighs, ("sum", "j")),
        ],
        "o",
    )  # fmt: skip


def in_halves(of: TensorProgram) -> TensorProgram:
    """The program over float16 arrays, its exponentials and sums in float32, as exporters of halves write it."""
    kept = {"e", "l"}
    arrays = {n: replace(a, dtype="float32" if n in kept else "float16") for n, a in of.arrays.items()}

    def wide(value: Apply) -> Apply:
        return Apply(value.function, tuple(Apply("cast", (o,), "float32") for o in value.operands), "float32")

    def narrow(one: Statement) -> Statement:
        match one.name, one.expression:
            case ("S0" | "S5", Apply() as product):
                return replace(one, expression=wide(product))
            case "S2", Apply(_, (Apply() as shifted,), _):
                return replace(one, expression=Apply("exp", (wide(shifted),), "float32"))
            case "S4", Apply() as quotient:
                return replace(one, expression=Apply("cast", (replace(quotient, dtype="float32"),), "float16"))
        return one

    return replace(of, arrays=arrays, statements=tuple(map(narrow, of.statements)))


def values(of: TensorProgram, seed: int = 0, spread: float = 3.0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {n: (draw.standard_normal(of.arrays[n].shape) * spread).astype(of.arrays[n].dtype) for n in of.inputs}


PAIRS = [
    (programs.softmax(7, 33), "S2", SHIFTED_SUM), (attention(), "S3", SHIFTED_SUM), (attention(), "S5", SHIFTED_MEAN),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("before", "name", "operation"), PAIRS)
def test_results_are_the_same(before: TensorProgram, name: str, operation: str, seed: int) -> None:
    after = online(before, name)
    assert check_program(after) == ()
    reduction = after.statement(name).reduction
    assert reduction is not None and reduction.operation == operation and reduction.associative
    given = values(before, seed, spread=30.0)
    (output,) = before.outputs
    old, new = (evaluate(each, given, exact=True)[output] for each in (before, after))
    np.testing.assert_allclose(new, old, rtol=CLOSE, atol=1e-300)


def test_both_sums_of_one_softmax() -> None:
    """The second rewrite finds the exponentials where the first has put them."""
    once, before = online(attention(), "S3"), attention()
    assert online(once, "S5") == online(before, "S5")


def test_what_is_left() -> None:
    """A weighted sum needs none of the softmax; the sum of a softmax leaves the maximum for its quotients."""
    assert [s.name for s in online(attention(), "S5").statements] == ["S0", "S5"]
    assert {s.name for s in online(programs.softmax(), "S2").statements} == {"S0", "S1", "S2", "S3"}
    kept = replace(attention(), outputs=("o", "l"))
    assert {s.name for s in online(kept, "S5").statements} == {"S0", "S1", "S2", "S3", "S5"}


def test_the_sum_comes_as_early_as_it_can() -> None:
    """Side by side with the maximum it shares that one's pass over the row."""
    assert [s.name for s in online(programs.softmax(), "S2").statements] == ["S2", "S0", "S1", "S3"]


def test_the_sum_no_longer_waits_for_the_maximum() -> None:
    def waits(of: TensorProgram) -> set[str]:
        return {d.source for d in dependences(of) if d.sink == "S2" and d.kind == "flow"}

    assert waits(programs.softmax()) == {"S1"}
    assert waits(online(programs.softmax(), "S2")) == set()


def test_large_exponents_do_not_overflow() -> None:
    """exp(1000) is no float: what counts is the distance to the largest."""
    after = online(programs.softmax(4, 64), "S2")
    given = {"x": np.random.default_rng(0).uniform(900.0, 1000.0, (4, 64)).astype(np.float32)}
    shifted = given["x"].astype(np.float64) - given["x"].max(1, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    np.testing.assert_allclose(evaluate(after, given)["y"], expected, rtol=64 * SINGLE, atol=SMALLEST)


def test_rows_of_minus_infinity_stay_what_they_were() -> None:
    """NaN where a row has no finite exponent, and nowhere else."""
    before = attention()
    given = values(before)
    given["q"][0], given["k"][:] = -np.inf, np.abs(given["k"])
    old, new = (evaluate(each, given)["o"] for each in (before, online(before, "S5")))
    assert np.isnan(old[0]).all() and np.isfinite(old[1:]).all()
    np.testing.assert_allclose(new, old, rtol=64 * SINGLE, atol=64 * SINGLE)


def test_weights_of_halves_keep_their_rounding() -> None:
    """They are rounded to float16 before they weigh, and differ from the quotients' rounding by two roundings."""
    before = in_halves(attention(keys=40))
    after = online(before, "S5")
    term = match_weighted(after.statement("S5").expression)
    assert term is not None and term.rounded == "float16" and term.factor is not None
    given = values(before)
    old, new = (evaluate(each, given)["o"].astype(np.float64) for each in (before, after))
    np.testing.assert_allclose(new, old, rtol=4 * 2.0**-11, atol=4 * 2.0**-11 * np.abs(given["v"]).max())


def changed(name: str, edit: Callable[[Statement], Statement]) -> TensorProgram:
    before = attention()
    return replace(before, statements=tuple(edit(s) if s.name == name else s for s in before.statements))


def other_maximum() -> TensorProgram:
    """The maximum of twice the scores."""
    return changed("S1", lambda s: replace(s, expression=apply("add", at("x", "i", "j"), at("x", "i", "j"))))


def other_sum() -> TensorProgram:
    """Divided by the sum of other exponentials."""
    before = attention()
    arrays = before.arrays | {"f": Array("f", before.arrays["e"].shape, "float32")}
    box = [("i", 6), ("j", 10)]
    more = statement("S9", box, at("f", "i", "j"), apply("exp", apply("sub", at("m", "i"), at("x", "i", "j"))))
    s3 = replace(before.statement("S3"), expression=at("f", "i", "j"))
    found = [s3 if s.name == "S3" else s for s in before.statements]
    return replace(before, arrays=arrays, statements=(*found[:3], more, *found[3:]))


REFUSED = [
    (attention(), "S1", BadInput, "sums nothing"),
    (attention(), "S4", BadInput, "sums nothing"),
    (attention(), "S0", Unsupported, "no factor of S0 is a quotient"),
    (changed("S3", lambda s: replace(s, expression=at("x", "i", "j"))), "S5", Unsupported, "no exponential"),
    (changed("S2", lambda s: replace(s, expression=apply("exp", at("x", "i", "j")))), "S3", Unsupported,
     "not relative to a maximum"),
    (changed("S4", lambda s: replace(s, expression=apply("mul", at("e", "i", "j"), at("l", "i")))), "S5", Unsupported,
     "is not a quotient"),
    (other_maximum(), "S5", Unsupported, "S1 is the maximum of"),
    (other_maximum(), "S3", Unsupported, "S1 is the maximum of"),
    (other_sum(), "S5", Unsupported, "is not the maximum|S9|other exponentials"),
    (programs.layernorm(), "S0", Unsupported, "no exponential"),
    (programs.layernorm(), "S2", Unsupported, "S1 is not a quotient"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "name", "error", "because"), REFUSED)
def test_refused_with_the_reason(before: TensorProgram, name: str, error: type[EngineError], because: str) -> None:
    with pytest.raises(error, match=because):
        online(before, name)


def test_a_recipe_asks_for_it() -> None:
    """As an entry, in text and back, with its verdict; where it cannot be, the program stays."""
    entry = Entry(("S5",), "", "rewrite", ("online",), because="one pass")
    (advice,) = from_text(to_text((Advice("user", Scenario((entry,))),)))
    assert advice.scenario.entries == (entry,)
    before = attention()
    made = rewritten(before, (advice,))
    assert made.program == online(before, "S5") == rewrite(before, entry)
    assert [v.outcome for v in made.verdicts] == ["honoured"]
    assert "nobody needs S1, S2, S3, S4 any more" in made.verdicts[0].because
    refused = rewritten(before, (Advice("user", Scenario((replace(entry, statements=("S0",)),))),))
    assert refused.program == before and [v.outcome for v in refused.verdicts] == ["infeasible"]
