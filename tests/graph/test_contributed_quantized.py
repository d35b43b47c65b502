"""ONNX Runtime's operators on quantised tensors, written out: they compute what ONNX Runtime's own kernels do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import engine
from engine.execution.signed_weights import without_signed_weights
from engine.graph.contributed import write_out_contributed
from engine.graph.contributed_quantized import BODIES, COMPILED, DOMAIN
from engine.graph.functions import write_out
from engine.tensor.operators import RULES
from tests.support.needs import needs_compiler

U8, I8, F32 = np.uint8, np.int8, np.float32


def codes(*shape: int, dtype: Any = U8, seed: int = 3) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed + sum(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def scale(value: float, *shape: int) -> np.ndarray:
    return np.full(shape, value, F32) * np.linspace(1, 2, max(1, int(np.prod(shape)))).reshape(shape).astype(F32)


@dataclass(frozen=True)
class Case:
    """One node.  operands: those of shape () and the constants among them stand in the file."""

    kind: str
    operands: dict[str, np.ndarray | None]
    """None for one that is absent."""
    result: Any = U8
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()


def quantised(name: str, value: np.ndarray, s: float, z: int) -> dict[str, np.ndarray | None]:
    return {name: value, f"{name}_scale": scale(s), f"{name}_zero": np.array(z, value.dtype)}


TWO = {**quantised("a", codes(3, 20), 0.02, 120), **quantised("b", codes(3, 20, seed=8), 0.03, 130)}
OUT: dict[str, np.ndarray | None] = {"y_scale": scale(0.05), "y_zero": np.array(100, U8)}
ONE = quantised("a", codes(3, 20), 0.05, 128)
IMAGE = quantised("a", codes(2, 3, 6, 8), 0.05, 128)
NBITS = {"x": np.random.default_rng(1).standard_normal((5, 64)).astype(F32), "w": codes(24, 4, 8)}
CASES = {
    "QLinearAdd": Case("QLinearAdd", {**TWO, **OUT}),
    "QLinearMul": Case("QLinearMul", {**TWO, **OUT}),
    "QLinearSigmoid": Case("QLinearSigmoid", {**ONE, "y_scale": scale(1 / 256), "y_zero": np.array(0, U8)}),
    "QLinearLeakyRelu": Case("QLinearLeakyRelu", {**ONE, **OUT}, attributes={"alpha": 0.2}),
    "QLinearSoftmax": Case("QLinearSoftmax", {**ONE, "y_scale": scale(1 / 256), "y_zero": np.array(0, U8)},
                           attributes={"opset": 13, "axis": -1}),
    "QLinearGlobalAveragePool": Case("QLinearGlobalAveragePool", {**IMAGE, **OUT}),
    "QLinearAveragePool": Case("QLinearAveragePool", {**IMAGE, "y_scale": scale(0.047), "y_zero": np.array(9, U8)},
                               attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "QLinearConcat": Case("QLinearConcat", {**OUT, **TWO}, attributes={"axis": 1}),
    "QLinearWhere": Case("QLinearWhere", {"c": codes(3, 20) > 100, **TWO, **OUT}),
    "QGemm": Case(
        "QGemm", {**quantised("a", codes(16, 32), 0.02, 120), "w": codes(16, 32, dtype=I8), "w_scale": scale(0.01, 16),
                  "w_zero": np.zeros(16, I8), "c": codes(16, dtype=I8).astype(np.int32) * 50, **OUT},
        attributes={"transB": 1}, constants=("w", "w_scale", "w_zero", "c"),
    ),
    "QGemm to numbers": Case(
        "QGemm", {**quantised("a", codes(16, 32), 0.02, 120), **quantised("w", codes(32, 16, dtype=I8), 0.01, 0)}, F32,
        constants=("w",),
    ),
    "MatMulIntegerToFloat": Case(
        "MatMulIntegerToFloat", {"a": codes(16, 32), "w": codes(32, 16, dtype=I8), "a_scale": scale(0.02),
                                 "w_scale": scale(0.01, 16), "a_zero": np.array(110, U8), "w_zero": np.zeros(16, I8),
                                 "bias": scale(0.5, 16)}, F32, constants=("w", "w_scale", "w_zero"),
    ),
    "DynamicQuantizeMatMul": Case(
        "DynamicQuantizeMatMul", {"a": np.random.default_rng(2).standard_normal((16, 32)).astype(F32),
                                  "w": codes(32, 16, dtype=I8), "w_scale": scale(0.01, 16), "w_zero": np.zeros(16, I8)},
        F32, constants=("w", "w_scale", "w_zero"),
    ),
    "MatMulNBits": Case(
        "MatMulNBits", {**NBITS, "s": scale(0.1, 24, 4)}, F32,
        {"K": 64, "N": 24, "bits": 4, "block_size": 16}, constants=("w", "s"),
    ),
    "MatMulNBits with zero points and a bias": Case(
        "MatMulNBits", {**NBITS, "s": scale(0.1, 24, 4), "z": codes(24, 2, seed=5), "": None, "bias": scale(1.0, 24)},
        F32, {"K": 64, "N": 24, "bits": 4, "block_size": 16}, constants=("w", "s", "z"),
    ),
    "MatMulNBits with an odd number of blocks": Case(
        "MatMulNBits", {"x": NBITS["x"][:, :48], "w": codes(24, 3, 8), "s": scale(0.1, 24, 3), "z": codes(24, 2)}, F32,
        {"K": 48, "N": 24, "bits": 4, "block_size": 16}, constants=("w", "s", "z"),
    ),
    "MatMulNBits with zero points that are numbers": Case(
        "MatMulNBits", {**NBITS, "s": scale(0.1, 24, 4), "z": scale(9.0, 24, 4)}, F32,
        {"K": 64, "N": 24, "bits": 4, "block_size": 16}, constants=("w", "s", "z"),
    ),
    "MatMulNBits with scales and zero points that are given": Case(
        "MatMulNBits", {**NBITS, "s": scale(0.1, 24, 4), "z": codes(24, 2, seed=5)}, F32,
        {"K": 64, "N": 24, "bits": 4, "block_size": 16}, constants=("w",),
    ),
    "MatMulNBits of 8 bits": Case(
        "MatMulNBits", {**NBITS, "w": codes(24, 4, 16), "s": scale(0.02, 24, 4)}, F32,
        {"K": 64, "N": 24, "bits": 8, "block_size": 16}, constants=("w", "s"),
    ),
    "MatMulNBits of 8 bits with zero points": Case(
        "MatMulNBits", {**NBITS, "w": codes(24, 4, 16), "s": scale(0.02, 24, 4), "z": codes(24, 4, seed=5)}, F32,
        {"K": 64, "N": 24, "bits": 8, "block_size": 16}, constants=("w", "s", "z"),
    ),
    "MatMulNBits of 2 bits": Case(
        "MatMulNBits", {**NBITS, "w": codes(24, 4, 4), "s": scale(0.3, 24, 4)}, F32,
        {"K": 64, "N": 24, "bits": 2, "block_size": 16}, constants=("w", "s"),
    ),
    "MatMulNBits of 2 bits with zero points": Case(
        "MatMulNBits", {**NBITS, "w": codes(24, 4, 4), "s": scale(0.3, 24, 4), "z": codes(24, 1, seed=5)}, F32,
        {"K": 64, "N": 24, "bits": 2, "block_size": 16}, constants=("w", "s", "z"),
    ),
    "MatMulNBits with a block that is not full": Case(
        "MatMulNBits", {"x": NBITS["x"][:, :40], "w": codes(24, 3, 8), "s": scale(0.1, 24, 3)}, F32,
        {"K": 40, "N": 24, "bits": 4, "block_size": 16}, constants=("w", "s"),
    ),
    "QuantizeLinear": Case("QuantizeLinear", {"x": NBITS["x"], "s": scale(0.02), "z": np.array(3, U8)}),
    "DequantizeLinear": Case("DequantizeLinear", {"x": codes(5, 64), "s": scale(0.02, 64), "z": codes(64)}, F32),
}  # fmt: skip


def model(case: str, opset: int = 17) -> onnx.ModelProto:
    given = CASES[case]
    node = helper.make_node(given.kind, list(given.operands), ["y"], name="op", domain=DOMAIN, **given.attributes)
    known = {n: v for n, v in given.operands.items() if v is not None}
    fixed = {n: v for n, v in known.items() if v.ndim == 0 or n in given.constants}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in known.items() if n not in fixed
    ]  # fmt: skip
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(given.result)), None)
    weights = [numpy_helper.from_array(value, name) for name, value in fixed.items()]
    graph = helper.make_graph([node], "one", inputs, [result], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(made: onnx.ModelProto, case: str) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = {value.name for value in made.graph.input}
    feeds = {name: value for name, value in CASES[case].operands.items() if name in names}
    session = onnxruntime.InferenceSession(without_signed_weights(made).SerializeToString(), options)
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_out_is_what_onnx_runtime_computes(case: str, opset: int) -> None:
    written = write_out(model(case, opset), case)
    write_out_contributed(written.graph, opset, COMPILED)
    assert all(node.domain == "" for node in written.graph.node)
    expected, got = run(model(case, opset), case), run(written, case)
    if CASES[case].result == F32:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    else:  # half a code is rounded by either; sigmoids and exponentials of ONNX Runtime's own are tables
        assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1
        assert (got != expected).mean() <= 0.02


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case.kind == "MatMulNBits"])
def test_the_numpy_meaning_is_what_onnx_runtime_computes(case: str, tmp_path: Path) -> None:
    onnx.save(model(case), tmp_path / "model.onnx")
    (op,) = engine.load(tmp_path / "model.onnx").operators
    operands = [np.empty(0) if value is None else value for value in CASES[case].operands.values()]
    (got,) = RULES[f"onnx.{op.kind}"].meaning(op, operands)
    np.testing.assert_allclose(got, run(model(case), case), rtol=1e-4, atol=1e-4)


def test_every_operator_has_a_case() -> None:
    assert {(DOMAIN, case.kind) for case in CASES.values()} == {*BODIES, *COMPILED}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_kernels_of_what_is_written_out_are_right(case: str, tmp_path: Path) -> None:
    onnx.save(model(case), tmp_path / "model.onnx")
    found = engine.load(tmp_path / "model.onnx")
    assert not found.unsupported
    for group in engine.fuse(found).groups:
        checked = engine.check(engine.compile(group))
        assert checked.status == "pass", checked.message


@pytest.mark.parametrize("case", ["QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_products_of_codes_are_integer_products(case: str, tmp_path: Path) -> None:
    onnx.save(model(case), tmp_path / "model.onnx")
    groups = engine.fuse(engine.load(tmp_path / "model.onnx")).groups
    kernels = [engine.compile(group, engine.default_recipe(group)) for group in groups]
    assert {"mma_m16n8k32_u8_s8"} == {kernel.tile.intrinsic for kernel in kernels} - {""}


@pytest.mark.parametrize("change", [{"bits": 3}, {"bits": 16}, {"block_size": 0}])
def test_a_form_that_is_not_written_out_is_refused_by_name(change: dict[str, int], tmp_path: Path) -> None:
    made = model("MatMulNBits with zero points and a bias")
    for attribute in made.graph.node[0].attribute:
        attribute.i = change.get(attribute.name, attribute.i)
    onnx.save(made, tmp_path / "model.onnx")
    found = engine.load(tmp_path / "model.onnx")
    assert any("MatMulNBits has" in why for why in engine.fuse(found).unsupported.values())
