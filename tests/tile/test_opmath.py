"""Float32 between loads and stores: which roundings go, which stay, and what approximations make of expressions."""

from __future__ import annotations

import pytest

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar
from engine.tile.approximations import approximation
from engine.tile.nodes import Assign, Buffer, Declare, Load, Slot, Store, TileOp, TileProgram
from engine.tile.nodes.expressions import scalar_text
from engine.tile.opmath import compute_in_float32

HALF, SINGLE = "float16", "float32"


def register(name: str) -> Access:
    return Access(name, ())


def apply(function: str, *operands: Scalar, dtype: str = HALF) -> Apply:
    return Apply(function, operands, dtype)


X, Y = register("x"), register("y")
TWO_HALVES = apply("add", X, X), apply("mul", X, register("s"))


def changed(*values: Apply, approximates: bool = False) -> list[str]:
    """What is stored of x, by expressions that follow each other as variables s, t, ..."""
    names = "stuv"[: len(values)]
    ops: list[TileOp] = [Load(Slot("x"), "given", Index(), 1)]
    ops += [Declare(name, value) for name, value in zip(names, values, strict=True)]
    ops.append(Store("result", Index(), Slot(names[-1]), 1))
    buffers = [Buffer(n, HALF, (4,), "global") for n in ("given", "result")]
    buffers += [Buffer(name, value.dtype, (), "register") for name, value in zip(names, values, strict=True)]
    buffers.append(Buffer("x", HALF, (), "register"))
    program = TileProgram(
        "k", (), 1, 32, {}, {b.name: b for b in buffers}, frozenset(("result",)), frozenset(("given",)), tuple(ops), ()
    )
    body = compute_in_float32(program, approximates).body
    return [f"{op.buffer} = {scalar_text(op.value)}" for op in body if isinstance(op, Declare) and op.value]


def test_what_operators_hand_to_each_other_is_not_rounded() -> None:
    assert [scalar_text(value) for value in TWO_HALVES] == ["round_f16((x + x))", "round_f16((x * s))"]
    assert changed(*TWO_HALVES) == ["s = (x + x)", "t = (x * s)"]


def test_conversions_to_float32_and_back_go() -> None:
    wide = apply("exp", apply("cast", X, dtype=SINGLE), dtype=SINGLE)
    assert changed(apply("cast", wide)) == ["s = fn_exp(x)"]


@pytest.mark.parametrize(("function", "dtype"), [("less", "bool"), ("floor", HALF), ("cast", "int32"), ("mod", HALF)])
def test_what_jumps_sees_what_the_graph_rounds(function: str, dtype: str) -> None:
    """Computed operands are rounded first; what was loaded needs no rounding."""
    other = (Literal(1.0, HALF),) if function in ("less", "mod") else ()
    rounded = changed(TWO_HALVES[0], apply(function, register("s"), *other, dtype=dtype))[1]
    loaded = changed(apply(function, X, *other, dtype=dtype))[0]
    assert "round_f16(float(s))" in rounded
    assert "round_f16" not in loaded


def test_a_conversion_of_an_integer_stays() -> None:
    number = Apply("cast", (Apply("cast", (X,), "int32"),), HALF)
    assert changed(number) == ["s = float(int(x))"]


def test_accumulators_are_float_variables_anyway() -> None:
    op = Assign(Slot("sum"), apply("mul", X, X), combine="sum")
    buffers = {name: Buffer(name, HALF, (), "register") for name in ("sum", "x")}
    program = TileProgram("k", (), 1, 32, {}, buffers, frozenset(), frozenset(), (op,), ())
    (found,) = compute_in_float32(program, approximates=False).body
    assert isinstance(found, Assign) and scalar_text(found.expression) == "(x * x)" and found.combine == "sum"


def test_one_plus_an_odd_function_is_a_step_also_through_a_variable() -> None:
    """GELU as exporters write it: x / sqrt(2), erf, + 1, * x, * 0.5, each an operator."""
    assert changed(
        apply("erf", apply("div", X, Literal(1.4142135, HALF))),
        apply("add", register("s"), Literal(1.0, HALF)),
        apply("mul", apply("mul", X, register("t")), Literal(0.5, HALF)),
        approximates=True,
    ) == [f"t = (2.0f * fn_erf_step_approx(({1 / 1.4142135:.9g}f * x)))", "u = (0.5f * (x * t))"]


def single(function: str, *operands: Scalar) -> Apply:
    return Apply(function, operands, SINGLE)


def number(value: float) -> Literal:
    return Literal(value, SINGLE)


@pytest.mark.parametrize(("value", "text"), [
    (single("div", X, Y), "fn_div_approx(x, y)"),
    (single("div", X, number(8.0)), "(0.125f * x)"),
    (single("div", X, number(0.0)), "fn_div_approx(x, 0.0f)"),
    (single("div", X, number(2.0**-140)), f"fn_div_approx(x, {2.0**-140:.9g}f)"),
    (single("mul", single("mul", number(0.5), X), single("mul", Y, number(2.0))), "(x * y)"),
    (single("mul", number(1e30), single("mul", number(1e20), X)), "(1e+30f * (1e+20f * x))"),
    (single("mul", number(2.0), number(3.0)), "(2.0f * 3.0f)"),
    (single("add", number(1.0), single("tanh_approx", X)), "(2.0f * fn_sigmoid_approx((2.0f * x)))"),
    (single("add", number(2.0), single("tanh_approx", X)), "(2.0f + fn_tanh_approx(x))"),
    (single("pow", X, Y), "fn_pow(x, y)"),
])  # fmt: skip
def test_approximations(value: Apply, text: str) -> None:
    assert scalar_text(approximation(value, lambda operand: operand)) == text
