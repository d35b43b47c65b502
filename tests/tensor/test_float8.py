"""Floats of 8 bits: casts and quantised weights, against ml_dtypes, on every code and at every boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.graph.nodes import FLOAT8
from engine.graph.weights import element_of
from tests.semantics.node_tests import launched
from tests.support.needs import needs_compiler


def _model(nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], result: int, shape: tuple[int, ...],
           weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:  # fmt: skip
    given = [helper.make_tensor_value_info(n, element_of(v.dtype.name), v.shape) for n, v in inputs.items()]
    held = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "one", given, [helper.make_tensor_value_info("y", result, shape)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _run(model: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    """What the emulated kernels write; their texts and their compiled code are checked, too."""
    onnx.save(model, folder / "model.onnx")
    graph = engine.load(folder / "model.onnx")
    plan = engine.fuse(graph)
    assert not plan.unsupported
    kernels = {group.name: engine.compile(group) for group in plan.groups}
    for kernel in kernels.values():
        for level in ("source", "ptx"):
            checked = engine.check(kernel, level=level)
            assert checked.status == "pass", checked.message
    constants = {n: np.asarray(c.value) for n, c in graph.constants.items()}
    return np.asarray(launched(plan, kernels, {**constants, **inputs})["y"])


def _boundaries(dtype: str) -> np.ndarray:
    """Every number of a type, the middle of each two neighbours, and what is next to that; what is beyond, too."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(numbers[np.isfinite(numbers)])
    step = finite[-1] - finite[-2]
    finite = np.concatenate([[finite[0] - step], finite, [finite[-1] + step]]).astype(np.float32)
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    ends = np.array([np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30, 1e-30, -1e-30], np.float32)
    return np.concatenate([finite, middle, np.nextafter(middle, np.float32(np.inf)),
                           np.nextafter(middle, np.float32(-np.inf)), ends])  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_numbers_become_the_nearest_one(dtype: str, saturate: int, tmp_path: Path) -> None:
    x = _boundaries(dtype)
    node = helper.make_node("Cast", ["x"], ["y"], to=element_of(dtype), saturate=saturate)
    got = _run(_model([node], {"x": x}, element_of(dtype), x.shape), {"x": x}, tmp_path)
    most = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(all="ignore"):
        expected = (np.clip(x, -most, most) if saturate else x).astype(dtype)
    assert got.dtype == expected.dtype
    is_nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(got.astype(np.float32)) == is_nan).all()
    assert (got.view(np.uint8)[~is_nan] == expected.view(np.uint8)[~is_nan]).all()


@needs_compiler
@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code_is_its_number(dtype: str, tmp_path: Path) -> None:
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    got = _run(_model([node], {"x": codes}, TensorProto.FLOAT, codes.shape), {"x": codes}, tmp_path)
    expected = codes.astype(np.float32)
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


@needs_compiler
@pytest.mark.parametrize("dtype", FLOAT8)
def test_products_take_weights_that_are_stored_so(dtype: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x, w = random.standard_normal((33, 64)).astype(np.float32), random.standard_normal((64, 48)).astype(dtype)
    scale = np.linspace(0.5, 2, 48).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wide"], axis=1),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    weights = {"w": w, "s": scale, "z": np.zeros(48, dtype)}
    got = _run(_model(nodes, {"x": x}, TensorProto.FLOAT, (33, 48), weights), {"x": x}, tmp_path)
    np.testing.assert_allclose(got, x @ (w.astype(np.float32) * scale), rtol=1e-5, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize(("kind", "attributes"), [("Transpose", {"perm": [1, 0]}), ("Identity", {})])
def test_what_moves_keeps_its_codes(kind: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    codes = np.arange(120, dtype=np.uint8).reshape(10, 12).view("float8_e4m3fn")
    shape = (12, 10) if kind == "Transpose" else (10, 12)
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    got = _run(_model([node], {"x": codes}, TensorProto.FLOAT8E4M3FN, shape), {"x": codes}, tmp_path)
    expected = codes.T if kind == "Transpose" else codes
    assert (got.view(np.uint8) == np.ascontiguousarray(expected).view(np.uint8)).all()


def test_sums_of_such_numbers_are_refused_by_the_standard(tmp_path: Path) -> None:
    codes = np.zeros(4, "float8_e5m2")
    node = helper.make_node("Add", ["x", "x"], ["y"])
    onnx.save(_model([node], {"x": codes}, TensorProto.FLOAT8E5M2, (4,)), tmp_path / "model.onnx")
    with pytest.raises(engine.EngineError, match="Add does not accept"):
        engine.load(tmp_path / "model.onnx")
