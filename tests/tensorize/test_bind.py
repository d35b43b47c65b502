"""Which statements an instruction computes: iterators found, padding counted, and why each of the others is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Array, Iterator, Literal, Reduction, Scalar, Statement
from engine.tensor.padding import adds_nothing
from engine.tensorize.bind import axes_of_contraction, contraction_misfit, is_allowed, prologue
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic

HALVES, TF32 = INTRINSICS["mma_m16n8k16_f16"], INTRINSICS["mma_m16n8k8_tf32"]
EXTENTS = {"b": 4, "i": 40, "j": 24, "k": 50}
ARRAYS = {
    "x": Array("x", (4, 40, 50), "float16"), "w": Array("w", (4, 50, 24), "float16"),
    "s": Array("s", (4, 50, 24), "float32"), "y": Array("y", (4, 40, 24), "float16"),
}  # fmt: skip


def read(array: str, names: str) -> Access:
    return Access(array, tuple(Index.of(name) for name in names))


def single(value: Scalar) -> Scalar:
    return Apply("cast", (value,), "float32")


X, W, S = read("x", "bik"), read("w", "bkj"), read("s", "bkj")
RELU = Apply("max", (X, Literal(0.0, "float16")), "float16")


def product(first: Scalar, second: Scalar) -> Statement:
    """y[b, i, j] = sum(k) first * second."""
    return Statement(
        "S0", "matmul", tuple(Iterator(name, extent) for name, extent in EXTENTS.items()), read("y", "bij"),
        Apply("mul", (first, second), "float32"), Reduction("sum", ("k",), 0.0, "float32"),
    )  # fmt: skip


def test_iterators_are_found() -> None:
    axes = axes_of_contraction(product(single(X), single(W)))
    names = [[i.name for i in side] for side in (axes.batch, axes.rows, axes.columns, axes.depth)]
    assert names == [["b"], ["i"], ["j"], ["k"]]
    assert axes.batches == 4 and axes.sizes == (40, 24, 50)
    assert str(axes) == "m = i, n = j, k = k"


def test_padding_is_what_whole_tiles_multiply_for_nothing() -> None:
    axes = axes_of_contraction(product(single(X), single(W)))
    assert axes.padding((8, 8, 10)) == 0
    assert axes.padding((64, 32, 64)) == pytest.approx(1 - 40 * 24 * 50 / (64 * 32 * 64))


def test_a_factor_may_be_computed_in_the_type_of_the_operand() -> None:
    assert not contraction_misfit(product(single(RELU), single(W)), ARRAYS, HALVES)
    assert prologue(single(RELU), "float32") == RELU
    assert prologue(single(X), "float32") is None


HALF_PRODUCT = Apply("cast", (Apply("mul", (X, W), "float16"),), "float32")
ROUNDED = replace(product(single(X), single(W)), expression=HALF_PRODUCT)
REFUSED = [
    (product(single(X), S), HALVES, "s holds float32, the instruction takes float16"),
    (product(single(X), single(W)), TF32, "x holds float16, the instruction takes float32"),
    (product(Apply("tanh", (single(X),), "float32"), single(W)), HALVES, "computed in float32 from float16"),
    (product(Apply("exp", (X,), "float16"), Apply("exp", (W,), "float16")), HALVES, "would count"),
    (ROUNDED, HALVES, "products are rounded"),
    (replace(product(single(X), single(W)), reduction=Reduction("max", ("k",), 0.0, "float32")), HALVES, "no sum"),
    (replace(product(single(X), single(W)), reduction=Reduction("sum", ("k",), 0.0, "float16")), HALVES, "in float16"),
    (product(single(X), single(read("x", "bik"))), HALVES, "no sum of products"),
]


@pytest.mark.parametrize(("statement", "intrinsic", "reason"), REFUSED, ids=[reason for *_, reason in REFUSED])
def test_why_not(statement: Statement, intrinsic: Intrinsic, reason: str) -> None:
    assert reason in contraction_misfit(statement, ARRAYS, intrinsic)


def test_only_tf32_needs_leave() -> None:
    assert is_allowed(HALVES, {}) and not is_allowed(TF32, {})
    assert is_allowed(TF32, {"tensor_cores": "tf32"}) and not is_allowed(TF32, {"tensor_cores": "float32"})


@pytest.mark.parametrize(
    ("first", "second", "harmless"),
    [
        (X, W, True), (RELU, W, True), (Apply("exp", (X,), "float16"), W, True),
        (Apply("exp", (X,), "float16"), Apply("exp", (W,), "float16"), False),
        (Apply("reciprocal", (X,), "float16"), W, False), (Apply("log", (X,), "float16"), W, False),
    ],
)  # fmt: skip
def test_zeros_that_fill_tiles(first: Scalar, second: Scalar, harmless: bool) -> None:
    assert adds_nothing(product(first, second)) == harmless
