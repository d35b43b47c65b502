"""Kernels that compute in float32 and approximate functions: how far they are off, over all numbers of 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.support.errors import BadInput
from engine.verify.kernel import kernel_tolerance
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

FAITHFUL = {"arithmetic": "faithful"}
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
erf = np.vectorize(math.erf)


def gelu(x: np.ndarray, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + step(x)))


EXACT: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Exp": np.exp, "Tanh": np.tanh, "Erf": erf, "Sqrt": np.sqrt, "Reciprocal": lambda x: 1 / x,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Gelu": lambda x: gelu(x, lambda v: erf(v / math.sqrt(2))),
}  # fmt: skip


def plan_of(folder: Path, nodes: list[Node], shapes: Mapping[str, tuple[int, ...]], dtype: str) -> engine.FusionPlan:
    inputs = {name: (dtype, shape) for name, shape in shapes.items()}
    return engine.fuse(engine.load(write_model(folder / "model.onnx", nodes, inputs, ["y"], opset=20)), "a100")


@needs_compiler
@pytest.mark.parametrize("kind", EXACT)
def test_every_half_is_at_most_one_unit_off(kind: str, tmp_path: Path) -> None:
    """Rounding alone is half a unit in the last place; subnormal results have units of 2^-24."""
    plan = plan_of(tmp_path, [(kind, ["x"], ["y"], {})], {"x": EVERY_HALF.shape}, "float16")
    kernel = engine.compile(plan.groups[0])
    assert "_approx" in kernel.source.text and "round_f16" not in kernel.source.text
    got = engine.run(kernel, {"x": EVERY_HALF})["y"].astype(np.float64)
    with np.errstate(all="ignore"):
        exact = EXACT[kind](EVERY_HALF.astype(np.float64))
        right = exact.astype(np.float16).astype(np.float64)
    number = np.isfinite(right)
    assert np.array_equal(np.isnan(got), np.isnan(right)) and (got[np.isinf(right)] == right[np.isinf(right)]).all()
    size = np.minimum(np.abs(right[number]), 2.0**15).astype(np.float16)  # of the largest, NumPy finds no next one
    units = np.abs(got[number] - exact[number]) / np.spacing(size).astype(np.float64)
    # In GELU's tail 5 multiplies what (1 + erf) / 2 is off by, which is half a unit of the smallest halves.
    assert units.max() <= (3.0 if kind == "Gelu" else 1.0)


GELU: list[Node] = [("Add", ["x", "b"], ["s"], {}), ("Gelu", ["s"], ["y"], {"approximate": "tanh"})]
WIDTHS = {"x": (33, 264), "b": (264,)}
CASES: Mapping[str, tuple[list[Node], Mapping[str, tuple[int, ...]]]] = {
    "bias and gelu": (GELU, WIDTHS),
    "softmax": ([("Softmax", ["x"], ["y"], {})], {"x": (17, 1000)}),
    "norm": ([("LayerNormalization", ["x", "b"], ["y"], {})], WIDTHS),
    "quotient": ([("Mul", ["x", "x"], ["s"], {}), ("Exp", ["x"], ["e"], {}), ("Div", ["s", "e"], ["y"], {})], WIDTHS),
    "jump": ([("Mul", ["x", "b"], ["s"], {}), ("Floor", ["s"], ["f"], {}), ("Sub", ["s", "f"], ["y"], {})], WIDTHS),
    "product": ([("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}), ("Gelu", ["s"], ["y"], {})],
                {"x": (48, 64), "w": (64, 264), "b": (264,)}),
}  # fmt: skip


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_both_arithmetics_are_right_at_both_levels(case: str, dtype: str, tmp_path: Path) -> None:
    nodes, shapes = CASES[case]
    used = {name: shape for name, shape in shapes.items() if any(name in node[1] for node in nodes)}
    for group in plan_of(tmp_path, nodes, used, dtype).groups:
        opmath = engine.compile(group)
        faithful = engine.compile(group, engine.default_recipe(group, numerics=FAITHFUL))
        assert opmath.recipe.numerics == {"arithmetic": "opmath"} and faithful.recipe.numerics == FAITHFUL
        assert opmath.source.text.count("round_") < faithful.source.text.count("round_")
        assert kernel_tolerance(opmath).relative <= kernel_tolerance(faithful).relative
        for kernel, level in ((opmath, "source"), (opmath, "ptx"), (faithful, "source")):
            report = engine.check(kernel, level=level)
            assert report.status == "pass", (level, report.message)


@needs_compiler
@pytest.mark.parametrize("predicate", ["IsInf", "IsNaN"])
def test_what_no_half_holds_is_infinite(predicate: str, tmp_path: Path) -> None:
    """Products beyond 65,504 are infinite where somebody asks, as ONNX Runtime has them."""
    nodes: list[Node] = [("Mul", ["x", "x"], ["s"], {}), (predicate, ["s"], ["y"], {})]
    (group,) = plan_of(tmp_path, nodes, {"x": EVERY_HALF.shape}, "float16").groups
    got = engine.run(engine.compile(group), {"x": EVERY_HALF})["y"]
    with np.errstate(all="ignore"):
        square = EVERY_HALF * EVERY_HALF
    assert np.array_equal(got, np.isinf(square) if predicate == "IsInf" else np.isnan(square))


def test_float32_results_are_not_approximated(tmp_path: Path) -> None:
    """What is rounded between operators goes all the same."""
    nodes: list[Node] = [
        ("Mul", ["x", "x"], ["s"], {}), ("Cast", ["s"], ["c"], {"to": 1}), ("Exp", ["c"], ["y"], {}),
    ]  # fmt: skip
    text = engine.compile(plan_of(tmp_path, nodes, {"x": (64, 64)}, "float16").groups[0]).source.text
    assert "fn_exp(" in text and "_approx" not in text and "round_f16" not in text


def test_float32_graphs_say_nothing_of_arithmetic(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [("Exp", ["x"], ["y"], {})], {"x": (64,)}, "float32")
    assert plan.numerics == {} and "fn_exp(" in engine.compile(plan.groups[0]).source.text


def test_a_recipe_says_which_arithmetic(tmp_path: Path) -> None:
    """A plan made as the graph says, a recipe that says otherwise, and one that says what nothing follows."""
    path = write_model(tmp_path / "m.onnx", GELU, {n: ("float16", s) for n, s in WIDTHS.items()}, ["y"], opset=20)
    graph = engine.load(path)
    plan = engine.fuse(graph, numerics={})
    assert "round_f16" in engine.compile(plan.groups[0]).source.text
    recipe = engine.default_recipe(plan, numerics={"arithmetic": "opmath"})
    assert "round_f16" not in engine.compile(plan.groups[0], recipe).source.text
    engine.write_recipe(recipe, tmp_path / "r.json")
    assert engine.read_recipe(tmp_path / "r.json").numerics == {"arithmetic": "opmath"}
    with pytest.raises(BadInput, match="arithmetic fast, which nothing here follows"):
        engine.fuse(graph, numerics={"arithmetic": "fast"})


def test_a_time_says_what_the_other_arithmetic_takes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GELU, {"x": (8192, 4096), "b": (4096,)}, "float16")
    kernel = engine.compile(plan.groups[0])
    faithful = engine.compile(plan.groups[0], engine.default_recipe(plan, numerics=FAITHFUL))
    assert kernel.facts.flops < faithful.facts.flops and kernel.facts.special == faithful.facts.special
    text = engine.explain(kernel)
    assert f"faithful would take {engine.predict(faithful).microseconds:.3g} µs" in text
