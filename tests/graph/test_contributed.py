"""ONNX Runtime's own operators, written out: what they become computes what ONNX Runtime itself computes for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import engine
from engine.graph.contributed import CONTRIBUTED, DOMAIN
from engine.graph.contributed_quantized import BODIES as QUANTIZED
from engine.graph.functions import write_out
from tests.graph.test_contributed_attention import CASES as ATTENTIONS
from tests.support.needs import needs_compiler

Shapes = dict[str, tuple[int, ...]]
X, ROW = (2, 5, 12), (12,)
CASES: dict[str, tuple[str, str, Shapes, int, dict[str, Any]]] = {
    # operator, domain, operands ("" in their place is absent), results, attributes
    "LayerNormalization": ("LayerNormalization", "", {"x": X, "g": ROW, "b": ROW}, 1, {"epsilon": 1e-3}),
    "LayerNormalization without shift": ("LayerNormalization", "", {"x": X, "g": ROW}, 1, {}),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", "", {"x": X, "g": ROW}, 1, {}),
    "SkipLayerNormalization": ("SkipLayerNormalization", DOMAIN, {"x": X, "s": X, "g": ROW, "b": ROW, "a": ROW}, 1,
                               {"epsilon": 1e-3}),
    "SkipLayerNormalization, plain": ("SkipLayerNormalization", DOMAIN, {"x": X, "s": X, "g": ROW}, 1, {}),
    "SkipLayerNormalization and its sum": ("SkipLayerNormalization", DOMAIN, {"x": X, "s": X, "g": ROW, "b": ROW}, 4,
                                           {}),
    "SkipSimplifiedLayerNormalization": ("SkipSimplifiedLayerNormalization", DOMAIN,
                                         {"x": X, "s": X, "g": ROW, "a": ROW}, 4, {}),
    "Gelu": ("Gelu", DOMAIN, {"x": X}, 1, {}),
    "BiasGelu": ("BiasGelu", DOMAIN, {"x": X, "b": ROW}, 1, {}),
    "FastGelu": ("FastGelu", DOMAIN, {"x": X}, 1, {}),
    "FastGelu of a biased operand": ("FastGelu", DOMAIN, {"x": X, "b": ROW}, 1, {}),
    "QuickGelu": ("QuickGelu", DOMAIN, {"x": X}, 1, {"alpha": 1.5}),
    "FusedMatMul": ("FusedMatMul", DOMAIN, {"x": (2, 5, 7), "w": (2, 9, 7)}, 1, {"transB": 1, "alpha": 0.5}),
    "FusedMatMul of a turned left side": ("FusedMatMul", DOMAIN, {"x": (7, 5), "w": (7, 9)}, 1, {"transA": 1}),
    "MultiHeadAttention": ("MultiHeadAttention", DOMAIN, {"q": X, "k": (2, 7, 12), "v": (2, 7, 12)}, 1,
                           {"num_heads": 3}),
    "MultiHeadAttention with biases": (
        "MultiHeadAttention", DOMAIN,
        {"q": X, "k": (2, 7, 12), "v": (2, 7, 12), "b": (36,), "": (), "added": (2, 3, 5, 7)}, 1,
        {"num_heads": 3, "scale": 0.3},
    ),
    "Attention": ("Attention", DOMAIN, {"x": X, "w": (12, 36), "b": (36,)}, 1, {"num_heads": 4}),
}  # fmt: skip


def model(case: str, opset: int = 16, dtype: int = onnx.TensorProto.FLOAT, **more: Any) -> onnx.ModelProto:
    kind, domain, operands, results, attributes = CASES[case]
    outputs = ["y", "", "", "sum"][:results]
    node = helper.make_node(kind, list(operands), outputs, name="op", domain=domain, **attributes, **more)
    inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, shape in operands.items() if name]
    wanted = [helper.make_tensor_value_info(name, dtype, None) for name in outputs if name]
    graph = helper.make_graph([node], case, inputs, wanted)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(made: onnx.ModelProto, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, values)


def drawn(case: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in CASES[case][2].items() if name}


@pytest.mark.parametrize("opset", [13, 16, 18])
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_out_is_what_onnx_runtime_computes(case: str, opset: int) -> None:
    if opset == 18 and CASES[case][0] == "LayerNormalization":
        return  # the standard's own
    values = drawn(case)
    expected = run(model(case, opset), values)
    written = write_out(model(case, opset), case)
    assert all(node.domain == "" for node in written.graph.node) and len(written.graph.node) > 1
    for got, right in zip(run(written, values), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-5)


def test_every_operator_has_a_case() -> None:
    others = {(DOMAIN, case.kind) for case in ATTENTIONS.values()}
    assert {(domain, kind) for kind, domain, *_ in CASES.values()} | others == CONTRIBUTED - QUANTIZED.keys()


@pytest.mark.parametrize(
    ("case", "dtype", "opset", "more"),
    [
        ("Attention", onnx.TensorProto.FLOAT, 16, {"do_rotary": 1}),
        ("FusedMatMul", onnx.TensorProto.FLOAT, 16, {"transBatchA": 1}),
        ("Gelu", onnx.TensorProto.FLOAT16, 14, {}),
    ],
)
def test_a_form_that_is_not_written_out_is_refused_by_name(
    case: str, dtype: int, opset: int, more: dict[str, Any], tmp_path: Path
) -> None:
    onnx.save(model(case, opset, dtype, **more), tmp_path / "model.onnx")
    found = engine.load(tmp_path / "model.onnx")
    assert any(f"{DOMAIN}::{case} is no operator" in why for why in found.unsupported.values())


@pytest.mark.parametrize(("operands", "results"), [([], ["y"]), (["x", "", ""], ["y"]), (["x"], [])])
def test_nodes_without_operands_or_results_are_refused_or_left_out(
    operands: list[str], results: list[str], tmp_path: Path
) -> None:
    made = model("Gelu")
    made.graph.node.append(
        helper.make_node("SkipLayerNormalization", operands, [f"{name}2" for name in results], name="s", domain=DOMAIN)
    )
    made.graph.output.extend(helper.make_tensor_value_info(f"{n}2", onnx.TensorProto.FLOAT, None) for n in results)
    onnx.save(made, tmp_path / "model.onnx")
    try:
        found = engine.load(tmp_path / "model.onnx")
    except engine.EngineError:
        return
    assert bool(found.unsupported) == bool(results)


def test_two_nodes_of_one_name_do_not_meet(tmp_path: Path) -> None:
    made = model("Gelu")
    made.graph.node.append(helper.make_node("Gelu", ["y"], ["z"], name="op", domain=DOMAIN))
    made.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    onnx.save(made, tmp_path / "model.onnx")
    assert not engine.load(tmp_path / "model.onnx").unsupported


def test_half_precision_is_written_out_where_the_operator_set_can_cast(tmp_path: Path) -> None:
    onnx.save(model("Gelu", 15, onnx.TensorProto.FLOAT16), tmp_path / "model.onnx")
    found = engine.load(tmp_path / "model.onnx")
    assert not found.unsupported and found.tensors["y"].dtype == "float16"
    (group,) = engine.fuse(found).groups
    assert {array.dtype for array in group.program.arrays.values()} == {"float16"}


@needs_compiler
@pytest.mark.parametrize("case", ["SkipLayerNormalization", "MultiHeadAttention with biases"])
def test_kernels_of_what_is_written_out_are_right(case: str, tmp_path: Path) -> None:
    onnx.save(model(case), tmp_path / "model.onnx")
    for group in engine.fuse(engine.load(tmp_path / "model.onnx")).groups:
        found = engine.check(engine.compile(group))
        assert found.status == "pass", found.message
