"""Integers of 32 and 64 bits without a sign, against NumPy's: they wrap, and their highest bit is no sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.graph.weights import element_of
from tests.semantics.node_tests import launched
from tests.support.needs import needs_compiler

KINDS = ("uint32", "uint64")


def _drawn(dtype: str, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, (7, 40), dtype, endpoint=True)
    values[0, :3] = 0, np.iinfo(dtype).max, 1
    return values


def _shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    width = 8 * x.itemsize
    return np.where(y >= width, 0, x >> np.minimum(y, width - 1)).astype(x.dtype)


BINARY: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Add": ("Add", {}, np.add), "Sub": ("Sub", {}, np.subtract), "Mul": ("Mul", {}, np.multiply),
    "Div": ("Div", {}, np.floor_divide), "Mod": ("Mod", {}, np.mod), "Max": ("Max", {}, np.maximum),
    "Min": ("Min", {}, np.minimum), "Less": ("Less", {}, np.less), "BitwiseXor": ("BitwiseXor", {}, np.bitwise_xor),
    "BitShift": ("BitShift", {"direction": "RIGHT"}, _shift),
}  # fmt: skip


def _result(node: onnx.NodeProto, feeds: dict[str, np.ndarray], result: int, shape: tuple[int, ...], folder: Path,
            weights: dict[str, np.ndarray] | None = None) -> np.ndarray:  # fmt: skip
    given = [helper.make_tensor_value_info(n, element_of(v.dtype.name), v.shape) for n, v in feeds.items()]
    held = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph([node], "one", given, [helper.make_tensor_value_info("y", result, shape)], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "m.onnx")
    loaded = engine.load(folder / "m.onnx")
    plan = engine.fuse(loaded)
    assert not plan.unsupported
    kernels = {group.name: engine.compile(group) for group in plan.groups}
    constants = {n: np.asarray(c.value) for n, c in loaded.constants.items()}
    text, compiled = (
        np.asarray(launched(plan, kernels, {**constants, **feeds}, level)["y"]) for level in ("source", "ptx")
    )
    np.testing.assert_array_equal(text, compiled)
    return text


@needs_compiler
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_operands(name: str, dtype: str, tmp_path: Path) -> None:
    kind, attributes, meaning = BINARY[name]
    a, b = _drawn(dtype, 1), _drawn(dtype, 2)
    if name in ("Div", "Mod"):
        b = np.maximum(b >> np.array(b.itemsize * 4, b.dtype), 1).astype(dtype)
    if name == "BitShift":
        b = (b % np.array(80, dtype)).astype(dtype)
    result = TensorProto.BOOL if name == "Less" else element_of(dtype)
    got = _result(helper.make_node(kind, ["a", "b"], ["y"], **attributes), {"a": a, "b": b}, result, a.shape, tmp_path)
    np.testing.assert_array_equal(got, meaning(a, b))


@needs_compiler
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("kind", "meaning"), [("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_reductions(kind: str, meaning: Any, dtype: str, tmp_path: Path) -> None:
    x = _drawn(dtype, 3)
    node = helper.make_node(kind, ["x", "axes"], ["y"], keepdims=0)
    got = _result(node, {"x": x}, element_of(dtype), (7,), tmp_path, {"axes": np.array([1])})
    np.testing.assert_array_equal(got, meaning(x, axis=1).astype(dtype))


@needs_compiler
@pytest.mark.parametrize("dtype", KINDS)
def test_conversions(dtype: str, tmp_path: Path) -> None:
    x = _drawn(dtype, 4)
    to_float = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    got = _result(to_float, {"x": x}, TensorProto.FLOAT, x.shape, tmp_path)
    np.testing.assert_array_equal(got, x.astype(np.float32))
    numbers = np.linspace(-2e9, 4e9, 280, dtype=np.float32).reshape(7, 40)
    back = helper.make_node("Cast", ["x"], ["y"], to=element_of(dtype))
    got = _result(back, {"x": numbers}, element_of(dtype), x.shape, tmp_path)
    np.testing.assert_array_equal(got, numbers.astype(np.int64).astype(dtype))
