"""AKG operators that stand in no file of the real ones: the lowered statements and the meaning against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.execution.reference import reference_values
from engine.graph.load import load
from engine.support.errors import BadInput
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower, unsupported_operators
from engine.tensor.operators import rule_of
from tests.graph.test_akg import operator, tensor, write

SHAPE = [3, 5]
Numpy = Callable[..., np.ndarray]


def run(path: Path, kind: str, operands: list[np.ndarray], made: np.ndarray, **attributes: object) -> list[np.ndarray]:
    """The result of a file of one operator by its statements and by its meaning."""
    inputs = [tensor(f"x{at}", list(x.shape), x.dtype.name) for at, x in enumerate(operands)]
    output = tensor("y", list(made.shape), made.dtype.name)
    document = {
        "op": kind, "op_desc": [operator(kind, inputs, output, **attributes)], "input_desc": [[t] for t in inputs],
        "output_desc": [output], "platform": "AKG", "process": "cuda",
    }  # fmt: skip
    graph = load(write(path, document))
    assert unsupported_operators(graph) == {} and graph.operators[0].dialect == "akg"
    program = lower(graph)
    assert check_program(program) == ()
    given = {f"x{at}": x for at, x in enumerate(operands)}
    rule = rule_of(graph.operators[0])
    assert rule is not None
    (meant,) = rule.meaning(graph.operators[0], [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands])
    return [evaluate(program, given)["y"], np.asarray(meant)]


UNARY: dict[str, tuple[Numpy, float, float]] = {
    "Sin": (np.sin, -4, 4), "Cos": (np.cos, -4, 4), "Floor": (np.floor, -4, 4), "Ceil": (np.ceil, -4, 4),
    "Round": (np.round, -4, 4), "Sign": (np.sign, -1, 1), "Atan": (np.arctan, -8, 8), "Asin": (np.arcsin, -0.9, 0.9),
    "Acos": (np.arccos, -0.9, 0.9), "Asinh": (np.arcsinh, -4, 4), "Acosh": (np.arccosh, 1.5, 8),
    "Erf": (np.vectorize(math.erf), -3, 3), "IsFinite": (np.isfinite, -1, 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", UNARY)
def test_functions_of_one_operand(kind: str, dtype: str, tmp_path: Path) -> None:
    function, low, high = UNARY[kind]
    x = np.random.RandomState(7).uniform(low, high, SHAPE).astype(dtype)
    if kind in ("Sign", "Round"):
        x[0, :3] = (0.0, 0.5, -2.5)
    if kind == "IsFinite":
        x[0, :3] = (np.inf, -np.inf, np.nan)
    want = np.asarray(function(x.astype(np.float64)))
    made = want.astype(bool if kind == "IsFinite" else dtype)
    for got in run(tmp_path / "op.json", kind, [x], made):
        tolerance = 2e-3 if dtype == "float16" else 2e-6
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("kind", "function"),
    [("Div", lambda a, b: np.trunc(a / b)), ("FloorDiv", np.floor_divide), ("FloorMod", np.mod)],
)
def test_quotients_of_both_signs(kind: str, function: Numpy, dtype: str, tmp_path: Path) -> None:
    random = np.random.RandomState(11)
    a = random.randint(-20, 20, SHAPE).astype(dtype)
    b = (random.randint(1, 7, [5]) * random.choice([-1, 1], [5])).astype(dtype)
    want = a / b if kind == "Div" and dtype == "float32" else function(a, b).astype(dtype)
    for got in run(tmp_path / "op.json", kind, [a, b], want):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 1e-6, 1e-6)


@pytest.mark.parametrize(("turned_a", "turned_b"), [(False, False), (True, False), (False, True)])
def test_batches_of_products(turned_a: bool, turned_b: bool, tmp_path: Path) -> None:
    random = np.random.RandomState(5)
    a, b = random.standard_normal((2, 4, 6)).astype(np.float32), random.standard_normal((2, 6, 3)).astype(np.float32)
    want = np.einsum("bij,bjk->bik", a, b)
    operands = [a.swapaxes(1, 2) if turned_a else a, b.swapaxes(1, 2) if turned_b else b]
    attributes = {"transpose_a": turned_a, "transpose_b": turned_b}
    for got in run(tmp_path / "op.json", "BatchMatMul", operands, want, **attributes):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("kind", "axis", "before", "after"),
    [
        ("ExpandDims", 1, (3, 5), (3, 1, 5)),
        ("ExpandDims", [-1], (3, 5), (3, 5, 1)),
        ("Squeeze", [0], (1, 3, 5), (3, 5)),
        ("Squeeze", None, (1, 3, 1), (3,)),
    ],
)
def test_axes_of_one_element(
    kind: str, axis: object, before: tuple[int, ...], after: tuple[int, ...], tmp_path: Path
) -> None:
    x = np.arange(math.prod(before), dtype=np.float32).reshape(before)
    attributes = {} if axis is None else {"axis": axis}
    for got in run(tmp_path / "op.json", kind, [x], x.reshape(after), **attributes):
        assert np.array_equal(got, x.reshape(after))


def test_one_operand_too_many_is_refused(tmp_path: Path) -> None:
    x = np.ones(SHAPE, np.float32)
    with pytest.raises(BadInput, match="has 2 operands, it takes 1 to 1"):
        run(tmp_path / "op.json", "Sin", [x, x], x)


def test_the_reference_of_a_file_is_its_meaning(tmp_path: Path) -> None:
    """As `verify` takes it: seeded inputs, each tensor rounded to its declared type."""
    x, y = tensor("x", SHAPE), tensor("y", SHAPE)
    document = {"op": "f", "op_desc": [operator("Sin", [x], y)], "input_desc": [[x]], "output_desc": [y]}
    values = reference_values(load(write(tmp_path / "f.json", document)))
    np.testing.assert_array_equal(values["y"], np.sin(values["x"].astype(np.float64)).astype(np.float32))
