"""Errors followed through the values of a run: right kernels pass where values cancel or grow, wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.api import group_values
from engine.recipe import Recipe
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Apply, Array, Scalar, TensorProgram
from engine.verify.kernel import check_kernel
from engine.verify.rounding import followed_errors, rounding_errors
from engine.verify.tolerance import group_tolerance, magnitude, tolerance
from tests.explore.groups import made_of
from tests.semantics.single import Node, write_model
from tests.support.checked_programs import check_program
from tests.support.commands import MODELS
from tests.support.needs import needs_compiler
from tests.support.programs import apply, at, number, program, statement
from tests.support.random_programs import random_program


def largest_limit(text: TensorProgram, inputs: Mapping[str, np.ndarray]) -> float:
    """The largest error that an element may have for these values, in the unit of a tolerance."""
    limits, values = followed_errors(text, inputs), evaluate(text, inputs, exact=True)
    assert limits is not None
    found = (limits[n] / (np.abs(values[n]) + magnitude(values[n])) for n in text.outputs)
    return max(float(one.max()) for one in found)


def compiled(folder: Path, depth: int) -> engine.Kernel:
    """A product and its softmax in one kernel: scores of about three roots of the depth."""
    nodes: list[Node] = [("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1})]
    inputs = {"q": ("float32", (64, depth)), "k": ("float32", (depth, 64))}
    graph = engine.load(write_model(folder / f"{depth}.onnx", nodes, inputs, ["p"], {}))
    (group,) = engine.fuse(graph).groups
    return engine.compile(group)


@needs_compiler
def test_large_scores_pass_and_a_slightly_wrong_exponent_does_not(tmp_path: Path) -> None:
    kernel = compiled(tmp_path, 400)
    assert engine.check(kernel).status == "pass"
    text = kernel.source.text
    wrong = text.replace("fn_exp((", "fn_exp(1.003f * (")
    assert wrong != text
    checked = check_kernel(replace(kernel, source=replace(kernel.source, text=wrong)), *group_values(kernel.group))
    assert checked.status == "fail" and {finding.kind for finding in checked.findings} == {"wrong result"}


def test_the_freedom_grows_with_the_scores(tmp_path: Path) -> None:
    found = []
    for depth in (16, 400):
        kernel = compiled(tmp_path, depth)
        values, _ = group_values(kernel.group)
        found.append(largest_limit(kernel.group.program, values))
    # An exponent wrong by 0.3 % of a score of 1, as above, is off by 3e-3.
    assert 1e-6 < found[0] < found[1] / 5 and found[1] < 2e-3


@pytest.mark.parametrize("file", ["softmax_96x512", "matmul_bias_gelu_128x256x512", "layernorm_64x768"])
def test_where_nothing_cancels_or_grows_the_tolerance_is_that_of_the_program(file: str) -> None:
    (group,) = engine.fuse(engine.load(MODELS / f"{file}.onnx")).groups
    assert largest_limit(group.program, group_values(group)[0]) < tolerance(group.program).relative


def drawn(text: TensorProgram) -> dict[str, np.ndarray]:
    """Normal values of its inputs, single precision."""
    draw = np.random.default_rng(7)
    return {name: draw.standard_normal(text.arrays[name].shape).astype(np.float32) for name in text.inputs}


@pytest.mark.parametrize("seed", range(60))
def test_what_single_precision_is_off_by_stays_below_what_is_followed(seed: int) -> None:
    text = random_program(seed)
    inputs = drawn(text)
    exact, single = evaluate(text, inputs, exact=True), evaluate(text, inputs)
    errors = rounding_errors(text, {**inputs, **exact})
    for name in exact:
        assert np.isfinite(errors[name]).all(), name
        assert (np.abs(exact[name] - single[name]) <= errors[name]).all(), name


BOX = [("i", 4), ("k", 50)]


@pytest.mark.parametrize(
    ("body", "over", "expected"),
    [
        (apply("sub", at("x", "i"), at("y", "i")), None, lambda x, y: 2 * np.abs(x - y)),
        (apply("exp", apply("mul", at("x", "i"), at("y", "i"))), None,
         lambda x, y: np.exp(x * y) * (2 * np.abs(x * y) + 4)),
        (apply("div", at("x", "i"), at("y", "i")), None, lambda x, y: 4 * np.abs(x / y)),
        (apply("max", apply("add", at("x", "i"), at("y", "i")), at("x", "i")), "max",
         lambda x, y: 2 * np.abs(x + y) * (y > 0)),
    ],
    ids=["difference", "exponential of a product", "quotient", "largest"],
)  # fmt: skip
def test_errors_are_those_of_the_textbook(
    body: Scalar, over: str | None, expected: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    """Each result is rounded once more, to its array's type; to first order."""
    one = statement("S0", BOX if over else BOX[:1], at("t", "i"), body, (over, "k") if over else None)
    text = program("one", dict.fromkeys("xyt", (4,)), [one], "t")
    inputs = {"x": np.array([3.1, -2.2, 1.5, 0.5]), "y": np.array([1.1, -1.75, 0.25, -4.2])}
    values = {**inputs, **evaluate(text, inputs, exact=True)}
    roundings = expected(inputs["x"], inputs["y"]) + 2 * np.abs(values["t"])
    assert rounding_errors(text, values)["t"] == pytest.approx(roundings * 2.0**-24, rel=1e-5)


def test_terms_that_cancel_leave_their_errors() -> None:
    """What is left of a sum is a thousandth of it, where nothing cancels its double."""
    statements = [
        statement("S0", BOX, at("s", "i"), at("x", "k"), ("sum", "k")),
        statement("S1", BOX[:1], at("t", "i"), apply("sub", at("s", "i"), at("y", "i"))),
    ]
    text = program("cancel", {"x": (50,), "y": (4,), "s": (4,), "t": (4,)}, statements, "t")
    x = np.linspace(1, 2, 50).astype(np.float32)
    far, near = ({"x": x, "y": np.full(4, x.sum() * part, np.float32)} for part in (-1, 0.999))
    assert largest_limit(text, far) < tolerance(text).relative
    total = float(x.sum())
    of_sum = (4 * 50**0.5 * (total + float(np.sqrt((x**2).sum()))) + 2 * total) * 2.0**-24
    assert largest_limit(text, near) == pytest.approx(of_sum / (0.002 * total), rel=0.01)


@needs_compiler
@pytest.mark.parametrize("seed", [184, 213])
def test_a_sum_of_few_results_that_cancel_passes(seed: int) -> None:
    """NumPy in single precision is off by more than `tolerance` alone allows, too."""
    text = random_program(seed)
    group = made_of(text)
    assert check_program(engine.compile(group, Recipe(target=group.target))).status == "pass"


def test_an_index_from_memory_is_no_error(tmp_path: Path) -> None:
    """It tells whose error is read, so that it stands among the errors as it is."""
    nodes: list[Node] = [("Gather", ["x", "i"], ["g"], {}), ("Sub", ["g", "z"], ["t"], {})]
    shapes = {"x": ("float32", (4,)), "i": ("int64", (6,)), "z": ("float32", (6,))}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "model.onnx", nodes, shapes, ["t"]))).groups
    values, _ = group_values(group)
    exact = values | evaluate(group.program, values, exact=True)
    (written,) = group.program.outputs
    own, unit = 4 * np.abs(exact[written]) * 2.0**-24, 2.0**-24
    largest = max(np.abs(value).max() for value in values.values() if value.dtype == np.float32)
    found = rounding_errors(group.program, exact)[written]
    assert (found >= 0.99 * own).all() and (found <= 1.01 * own + 2 * largest * unit).all()


def test_a_root_near_zero_moves_by_the_root_of_its_error() -> None:
    """One side of its operand has no root."""
    root = statement("S0", BOX[:1], at("t", "i"), apply("sqrt", apply("sub", at("x", "i"), at("y", "i"))))
    text = program("root", dict.fromkeys("xyt", (4,)), [root], "t")
    inputs = {"x": np.full(4, 2.0), "y": np.array([2.0, 2.0, 1.0, 1.0])}
    values = {**inputs, **evaluate(text, inputs, exact=True)}
    assert np.isfinite(rounding_errors(text, values)["t"]).all()


@needs_compiler
def test_a_sum_that_blocks_share_may_be_off_by_what_adding_up_the_whole_is(tmp_path: Path) -> None:
    """Each of 1,024 rows as long as a block's share may be off by less."""
    def summed(shape: tuple[int, ...]) -> engine.FusionGroup:
        nodes: list[Node] = [("ReduceSum", ["x", "last"], ["s"], {"keepdims": 1}), ("Mul", ["x", "s"], ["y"], {})]
        inputs, last = {"x": ("float32", shape)}, {"last": np.array([-1])}
        path = write_model(tmp_path / f"{len(shape)}.onnx", nodes, inputs, ["y"], last)
        return engine.fuse(engine.load(path)).groups[0]

    whole, rows = summed((1 << 20,)), summed((1 << 10, 1 << 10))
    assert group_tolerance(whole).relative == pytest.approx(4 * 2.0**10 * 2.0**-24, rel=0.1)
    assert group_tolerance(rows).relative < group_tolerance(whole).relative / 4
    kernel = engine.compile(whole)
    assert "arrivals" in kernel.source.text and engine.check(kernel).status == "pass"


@needs_compiler
def test_a_sigmoid_far_from_zero_passes_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    """The reference is off by some 1e-4 of it."""
    nodes: list[Node] = [("Sub", ["x", "far"], ["d"], {}), ("Sigmoid", ["d"], ["y"], {})]
    far = {"far": np.array(9, np.float32)}
    plan = engine.fuse(engine.load(write_model(tmp_path / "model.onnx", nodes, {"x": ("float32", (64,))}, ["y"], far)))
    kernel = engine.compile(plan.groups[0])
    assert engine.check(kernel).status == "pass"
    wrong = kernel.source.text.replace("9.0f", "9.01f")
    assert wrong != kernel.source.text
    checked = check_kernel(replace(kernel, source=replace(kernel.source, text=wrong)), *group_values(kernel.group))
    assert checked.status == "fail"


def test_a_step_moves_by_one_where_rounding_decides() -> None:
    """2.5 * 1.2 is 3, or a little less; 2.5 * 1.1 is nowhere near an edge."""
    floor = statement("S0", BOX[:1], at("t", "i"), apply("floor", apply("mul", at("x", "i"), at("y", "i"))))
    text = program("floor", dict.fromkeys("xyt", (4,)), [floor], "t")
    inputs = {"x": np.full(4, 2.5), "y": np.array([1.2, 1.1, 0.8, 1.3])}
    values = {**inputs, **evaluate(text, inputs, exact=True)}
    assert rounding_errors(text, values)["t"] == pytest.approx([1, 0, 1, 0], abs=1e-5)


def test_parts_of_one_array_are_rounded_once_each() -> None:
    """Two statements write four elements of eight each: none is rounded by both."""
    places = Index.of("i"), Index.of("i") + 4
    statements = [statement(f"S{p}", BOX[:1], at("t", place), at("xy"[p], "i")) for p, place in enumerate(places)]
    text = program("joined", {"x": (4,), "y": (4,), "t": (8,)}, statements, "t")
    inputs = {"x": np.arange(1.0, 5) + 0.3, "y": np.arange(5.0, 9) + 0.3}
    values = {**inputs, **evaluate(text, inputs, exact=True)}
    assert rounding_errors(text, values)["t"] == pytest.approx(2 * (np.arange(1.0, 9) + 0.3) * 2.0**-24)


def test_whole_numbers_are_not_rounded_and_so_no_code_is_excused() -> None:
    """A code is 3 = int(round(2.9) + 0): nothing on the way lies at an edge."""
    code = Apply("cast", (apply("add", apply("round", at("x", "i")), number(0)),), "int8")
    text = program("code", {"x": (4,), "t": (4,)}, [statement("S0", BOX[:1], at("t", "i"), code)], "t")
    text = replace(text, arrays={**text.arrays, "t": Array("t", (4,), "int8")})
    inputs = {"x": np.array([2.9, 2.5, -7.2, 100.0])}
    values = {**inputs, **evaluate(text, inputs, exact=True)}
    assert rounding_errors(text, values)["t"].tolist() == [0, 0, 0, 0]
