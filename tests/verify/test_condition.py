"""Limits of a model's outputs: wide where a sum cancels or an exponential magnifies, narrow beside that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution import reference
from engine.execution.reference import input_values, reference_values
from engine.verify import model, model_run
from engine.verify.condition import even_limits, find_limits
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

UNIT = 2.0**-24


def loaded(
    folder: Path, nodes: Sequence[Node], shapes: dict[str, tuple[int, ...]], dtype: str = "float32"
) -> engine.OperatorGraph:
    """A model of one output, "y"."""
    inputs = {name: (dtype, shape) for name, shape in shapes.items()}
    return engine.load(write_model(folder / "m.onnx", list(nodes), inputs, ["y"], {}))


def limits(graph: engine.OperatorGraph) -> tuple[np.ndarray, np.ndarray]:
    """The reference's output, and what its elements may be off by."""
    expected = reference_values(graph, 0, ["y"])
    found = find_limits(graph, expected, [engine.compile(group) for group in engine.fuse(graph).groups])
    return expected["y"].astype(np.float64), found["y"].allowed


def test_a_sum_may_be_off_by_the_root_of_its_length(tmp_path: Path) -> None:
    for length in (64, 4096):
        graph = loaded(tmp_path, [("MatMul", ["a", "b"], ["y"], {})], {"a": (32, length), "b": (length, 32)})
        right, allowed = limits(graph)
        usual = float(np.median(allowed)) / (length * UNIT)  # sqrt(n) terms' size, sqrt(n) roundings
        assert 2 < usual < 20, f"{length}: {usual}"
        single = input_values(graph)
        exact = single["a"].astype(np.float64) @ single["b"].astype(np.float64)
        assert (np.abs(exact - right) < allowed).all()


def test_what_cancels_is_given_room_and_its_neighbours_are_not(tmp_path: Path) -> None:
    """Half of the products have terms a thousand times as large."""
    nodes: list[Node] = [("Mul", ["a", "s"], ["t"], {}), ("MatMul", ["t", "b"], ["y"], {})]
    graph = loaded(tmp_path, nodes, {"a": (64, 256), "s": (64, 1), "b": (256, 16)})
    _, allowed = limits(graph)
    scale = np.abs(input_values(graph)["s"]).reshape(-1)
    rows = allowed.max(axis=1)
    assert np.corrcoef(np.maximum(scale, np.median(scale)), rows)[0, 1] > 0.8


def test_partial_sums_of_one_operator_are_rounded_in_its_type(tmp_path: Path) -> None:
    """a + b - a + c of halves, a eight times as large: added in float32 or rounded after each, both are right."""
    nodes: list[Node] = [
        ("Neg", ["a"], ["n"], {}), ("Mul", ["b", "s"], ["p"], {}), ("Mul", ["c", "s"], ["q"], {}),
        ("Sum", ["a", "p", "n", "q"], ["y"], {}),
    ]  # fmt: skip
    inputs = dict.fromkeys("abc", ("float16", (256, 1024)))
    eighth = np.array([0.125], np.float16)
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], {"s": eighth}))
    right, allowed = limits(graph)
    a, b, c = (input_values(graph)[name] for name in "abc")
    p, q = b * eighth, c * eighth
    in_steps = (((a + p) - a) + q).astype(np.float64)
    at_once = p.astype(np.float64) + q
    assert (np.abs(at_once - right) <= allowed).all() and (np.abs(in_steps - right) <= allowed).all()
    assert (np.abs(at_once - q - right) > allowed).mean() > 0.9


def test_an_exponential_of_large_numbers_moves_with_them(tmp_path: Path) -> None:
    nodes: list[Node] = [("Mul", ["x", "w"], ["t"], {}), ("Exp", ["t"], ["y"], {})]
    graph = loaded(tmp_path, nodes, {"x": (1000,), "w": (1000,)})
    right, allowed = limits(graph)
    far = np.abs(np.log(right)) > 4
    assert far.any()
    assert np.median(allowed[far] / right[far]) > 2 * np.median(allowed / np.maximum(right, np.median(right)))


def test_what_depends_on_rounding_alone_is_not_compared(tmp_path: Path) -> None:
    """(a + big) - big keeps nothing of a but its roundings."""
    nodes: list[Node] = [("Add", ["a", "b"], ["s"], {}), ("Sub", ["s", "b"], ["t"], {}), ("Mul", ["t", "c"], ["y"], {})]
    path = write_model(
        tmp_path / "m.onnx", nodes, {"a": ("float32", (512,))}, ["y"],
        {"b": np.full(512, 2.0**24, np.float32), "c": np.array([100.0], np.float32)},
    )  # fmt: skip
    graph = engine.load(path)
    found = engine.check_model(graph, engine.fuse(graph))
    assert found.status == "unsupported"
    (check,) = found.checks
    assert check.elements_compared < 256 and "not compared" in check.message


def test_an_index_that_ties_decide_is_not_compared_and_others_are(tmp_path: Path) -> None:
    nodes: list[Node] = [("Add", ["x", "w"], ["t"], {}), ("ArgMax", ["t"], ["y"], {"axis": 1, "keepdims": 0})]
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    x[:8, 1] = x[:8, 0] = 50.0  # two equal maxima, which noise tells apart
    path = write_model(tmp_path / "m.onnx", nodes, {"w": ("float32", (1,))}, ["y"], {"x": x})
    graph = engine.load(path)
    right = reference_values(graph, 0, ["y"])
    allowed = find_limits(graph, right, ())["y"].allowed
    assert np.isinf(allowed[:8]).any() and (allowed[8:] == 0).all()


def test_noise_is_the_same_again_and_leaves_infinities(tmp_path: Path) -> None:
    nodes: list[Node] = [("Add", ["x", "mask"], ["t"], {}), ("Softmax", ["t"], ["y"], {"axis": -1})]
    mask = np.where(np.arange(16) < 8, 0, -np.inf).astype(np.float32)
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (4, 16))}, ["y"], {"mask": mask}))
    right, allowed = limits(graph)
    assert np.isfinite(allowed).all() and (right[:, 8:] == 0).all()
    assert (limits(graph)[1] == allowed).all()
    low = np.finfo(np.float32).min
    graph = engine.load(
        write_model(tmp_path / "l.onnx", nodes, {"x": ("float32", (4, 16))}, ["y"], {"mask": np.maximum(mask, low)})
    )
    assert np.isfinite(limits(graph)[1]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types_have_their_own_roundings(tmp_path: Path, dtype: str) -> None:
    graph = loaded(tmp_path, [("Mul", ["x", "w"], ["y"], {})], {"x": (512,), "w": (512,)}, dtype)
    right, allowed = limits(graph)
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    ratio = np.median(allowed / np.maximum(np.abs(right), np.median(np.abs(right)))) / unit
    assert 2 < ratio < 30


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_a_reference_less_exact_than_the_kernel_does_not_call_it_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime adds 2.56 million equal numbers one after the other; what is off by as much still fails."""
    nodes: list[Node] = [("Exp", ["x"], ["e"], {}), ("ReduceMean", ["e"], ["y"], {"keepdims": 0})]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (512, 5000))}, ["y"], {})
    graph = engine.load(path)
    equal = {"x": np.full((512, 5000), 0.25, np.float32)}
    monkeypatch.setattr(reference, "input_values", lambda *_: equal)
    monkeypatch.setattr(model, "input_values", lambda *_: equal)
    plan = engine.fuse(graph)
    assert abs(float(reference_values(graph, 0, ["y"])["y"]) / np.exp(0.25) - 1) > 1e-3
    (check,) = engine.check_model(graph, plan).checks
    assert check.status == "pass" and "in double precision" in check.tolerance_because
    assert check.max_error < 1e-5
    run = model_run.run_launch

    def off(*arguments: object, **options: object) -> dict[str, np.ndarray]:
        made = run(*arguments, **options)  # type: ignore[arg-type]
        return {name: value * np.float32(1.0018) for name, value in made.items()}

    monkeypatch.setattr(model_run, "run_launch", off)
    assert engine.check_model(graph, plan).status == "fail"


def test_what_is_no_number_is_an_error() -> None:
    right = np.array([1.0, np.inf, np.nan, 2.0], np.float32)
    one = even_limits(right, 0.01)
    assert one.errors(right, right).max() == 0
    for wrong in ([np.nan, np.inf, np.nan, 2], [1, -np.inf, np.nan, 2], [1, np.inf, 3, 2]):
        errors = one.errors(np.array(wrong, np.float32), right)
        assert errors.max() == np.inf and errors[one.worst(errors)] == np.inf


@pytest.mark.slow(sentinel=True)
def test_the_smallest_halves_may_be_rounded_either_way(tmp_path: Path) -> None:
    """Shares of 200,000 are some tens of units of 2^-24, which noise does not move: the next number is no fault."""
    graph = loaded(tmp_path, [("Softmax", ["x"], ["y"], {})], {"x": (1, 200_000)}, "float16")
    right, allowed = limits(graph)
    compared = np.isfinite(allowed)
    assert compared.mean() > 0.9 and (allowed[compared] >= 2.0**-24).all()
    assert np.median(allowed[compared]) < 8 * 2.0**-24 and right.max() < 2.0**-10
