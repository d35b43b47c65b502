"""ONNX Runtime's attentions and rotations, written out: they compute what its own kernels do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import engine
from engine.graph.contributed import DOMAIN
from engine.graph.functions import write_out
from tests.support.needs import needs_compiler

Values = dict[str, np.ndarray]
FIXED = ("lengths", "total", "sx", "sw", "zx", "zw")
"""Operands that stand in the file."""
RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class AttentionCase:
    """A node: operands in order (None in an absent one's place), attributes, results."""

    kind: str
    operands: dict[str, np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    results: tuple[str, ...] = ("y",)
    compared: int = 3
    """Results that are defined everywhere: keys behind the last of a shorter row are not."""

    @property
    def values(self) -> Values:
        return {name: value for name, value in self.operands.items() if value is not None}

    def model(self, opset: int = 16) -> onnx.ModelProto:
        names = [name if value is not None else "" for name, value in self.operands.items()]
        node = helper.make_node(self.kind, names, list(self.results), name="op", domain=DOMAIN, **self.attributes)
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in self.values.items() if n not in FIXED
        ]  # fmt: skip
        fixed = [onnx.numpy_helper.from_array(v, n) for n, v in self.values.items() if n in FIXED]
        outputs = [helper.make_tensor_value_info(name, 1, None) for name in self.results if name]
        graph = helper.make_graph([node], "attention", inputs, outputs, fixed)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


X = normal(2, 5, 12)
FLAT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
LEFT = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], np.int32)
"""Padding in front: a causal query there sees no key that the mask leaves."""
SQUARE = np.tril(np.ones((2, 5, 5), np.int32))
POSITIONS = np.array([[3, 1, 4, 1, 5], [0, 1, 2, 3, 4]])
ANGLES: dict[str, np.ndarray | None] = {"cos": normal(9, 4), "sin": normal(9, 4)}
ROTATED: dict[str, np.ndarray | None] = {"x": normal(2, 5, 24), "p": POSITIONS, **ANGLES}


def grouped(
    batch: int, length: int, earlier: int | None, lengths: list[int], total: int, **more: np.ndarray | None
) -> dict[str, np.ndarray | None]:
    """Four heads of queries, two of keys, 16 elements each."""
    past = (None, None) if earlier is None else (normal(batch, 2, earlier, 16), normal(batch, 2, earlier, 16))
    return {
        "q": normal(batch, length, 64), "k": normal(batch, length, 32), "v": normal(batch, length, 32),
        "pk": past[0], "pv": past[1], "lengths": np.array(lengths, np.int32), "total": np.array(total, np.int32),
        **more,
    }  # fmt: skip


WIDE: dict[str, np.ndarray | None] = {"cos": normal(9, 8), "sin": normal(9, 8)}
HEADS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
KEPT = ("y", "keys", "values")
ONE: dict[str, np.ndarray | None] = {"x": X, "w": normal(12, 36), "b": normal(36)}
THREE: dict[str, np.ndarray | None] = {"q": X, "k": normal(2, 5, 12), "v": normal(2, 5, 12), "b": None, "m": None}
EARLIER: dict[str, np.ndarray | None] = {"added": None, "pk": normal(2, 3, 4, 4), "pv": normal(2, 3, 4, 4)}
CODED: dict[str, np.ndarray | None] = {
    "x": RANDOM.integers(0, 256, (2, 5, 12)).astype(np.uint8), "w": RANDOM.integers(0, 256, (12, 36)).astype(np.uint8),
    "b": normal(36), "sx": np.array(0.01, np.float32), "sw": np.array(0.02, np.float32), "m": None,
    "zx": np.array(128, np.uint8), "zw": np.array(120, np.uint8),
}  # fmt: skip
PAST: dict[str, np.ndarray | None] = {"past": normal(2, 2, 3, 4, 4)}
BEHIND_PADDING = np.array([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9], np.int32)
PROMPT = grouped(2, 4, None, [3, 3], 4)


def group_query(operands: dict[str, np.ndarray | None], *results: str, **attributes: Any) -> AttentionCase:
    return AttentionCase("GroupQueryAttention", operands, {**HEADS, **attributes}, results or ("y",))


CASES = {
    "a mask of keys": AttentionCase("Attention", {**ONE, "m": FLAT}, {"num_heads": 3}),
    "a mask of scores": AttentionCase("Attention", {**ONE, "b": None, "m": SQUARE}, {"num_heads": 3}),
    "causal": AttentionCase("Attention", ONE, {"num_heads": 3, "unidirectional": 1}),
    "causal behind padding": AttentionCase("Attention", {**ONE, "m": LEFT}, {"num_heads": 3, "unidirectional": 1}),
    "heads, causal behind padding": AttentionCase(
        "MultiHeadAttention", {**THREE, "m": LEFT}, {"num_heads": 3, "unidirectional": 1}
    ),
    "heads with a mask": AttentionCase("MultiHeadAttention", {**THREE, "m": FLAT}, {"num_heads": 3}),
    "heads, causal, behind earlier keys": AttentionCase(
        "MultiHeadAttention", {**THREE, **EARLIER}, {"num_heads": 3, "unidirectional": 1}, KEPT
    ),
    "ends of keys": AttentionCase("Attention", {**ONE, "m": np.array([5, 3], np.int32)}, {"num_heads": 3}),
    "ends and starts of keys": AttentionCase(
        "Attention", {**ONE, "m": np.array([5, 4, 1, 0], np.int32)}, {"num_heads": 3}
    ),
    "values of another size": AttentionCase(
        "Attention", {"x": X, "w": normal(12, 30), "b": normal(30)},
        {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 6]},
    ),
    "behind earlier keys": AttentionCase("Attention", {**ONE, "m": None, **PAST}, {"num_heads": 3}, ("y", "kept")),
    "causal, behind earlier keys and padding": AttentionCase(
        "Attention", {**ONE, "m": BEHIND_PADDING, **PAST}, {"num_heads": 3, "unidirectional": 1}, ("y", "kept")
    ),
    "keys kept": AttentionCase("Attention", ONE, {"num_heads": 3}, ("y", "kept")),
    "codes": AttentionCase("QAttention", CODED, {"num_heads": 3}),
    "codes, a scale for each column, causal behind padding": AttentionCase(
        "QAttention", {**CODED, "sw": np.linspace(0.01, 0.03, 36).astype(np.float32), "m": LEFT,
                       "zw": np.full(36, 125, np.uint8)}, {"num_heads": 3, "unidirectional": 1},
    ),
    "codes behind earlier keys": AttentionCase("QAttention", {**CODED, **PAST}, {"num_heads": 3}, ("y", "kept")),
    "heads with ends of keys": AttentionCase(
        "MultiHeadAttention", {**THREE, "m": np.array([5, 3], np.int32)}, {"num_heads": 3}
    ),
    "heads with ends of keys, causal": AttentionCase(
        "MultiHeadAttention", {**THREE, "m": np.array([2, 4], np.int32)}, {"num_heads": 3, "unidirectional": 1}
    ),
    "rotated": AttentionCase("RotaryEmbedding", ROTATED),
    "half of each head rotated": AttentionCase(
        "RotaryEmbedding", {"x": normal(2, 5, 36), "p": POSITIONS, "cos": normal(9, 3), "sin": normal(9, 3)},
        {"num_heads": 3, "rotary_embedding_dim": 6},
    ),
    "rotated, interleaved": AttentionCase("RotaryEmbedding", ROTATED, {"interleaved": 1}),
    "rotated from a place on": AttentionCase("RotaryEmbedding", {**ROTATED, "p": np.array([2])}),
    "rotated heads": AttentionCase("RotaryEmbedding", {**ROTATED, "x": normal(2, 3, 5, 8)}, {"interleaved": 1}),
    "a prompt": group_query(PROMPT, *KEPT),
    "a prompt of unequal rows": group_query(grouped(2, 4, None, [2, 3], 4)),
    "a prompt, rotated": group_query({**PROMPT, **WIDE}, *KEPT, do_rotary=1),
    "a step": group_query(grouped(2, 1, 3, [3, 3], 4, **WIDE), *KEPT, do_rotary=1, rotary_interleaved=1),
    "a step of unequal rows": replace(group_query(grouped(2, 1, 5, [2, 5], 6, **WIDE), *KEPT, do_rotary=1), compared=1),
    "the next part of a prompt": group_query(grouped(1, 4, 3, [6], 7), *KEPT),
    "a window and a cap": group_query(grouped(2, 5, None, [4, 4], 5), local_window_size=2, softcap=5.0, scale=0.5),
    "all keys of a prompt": group_query(PROMPT, *KEPT, causal=0),
    "all keys of unequal rows": group_query(grouped(2, 4, None, [2, 3], 4), causal=0),
    "all keys of a step": replace(group_query(grouped(2, 1, 5, [2, 5], 6, **WIDE), *KEPT, do_rotary=1, causal=0),
                                  compared=1),
    "all keys of the next part": group_query(grouped(1, 4, 3, [6], 7), *KEPT, causal=0, softcap=3.0),
    "half of a head rotated": group_query(
        {**PROMPT, "q": normal(2, 4, 128), "k": normal(2, 4, 64), "v": normal(2, 4, 64), **WIDE}, do_rotary=1
    ),
    "packed": group_query({**PROMPT, "q": normal(2, 4, 128), "k": None, "v": None}, *KEPT),
}
"""The angles of positions are any numbers: a rotation need not keep lengths."""


def run(made: onnx.ModelProto, values: Values) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    return list(session.run(None, {one.name: values[one.name] for one in session.get_inputs()}))


@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_out_is_what_onnx_runtime_computes(case: str, opset: int) -> None:
    one = CASES[case]
    expected = run(one.model(opset), one.values)
    written = write_out(one.model(opset), case)
    assert all(node.domain == "" for node in written.graph.node)
    for got, right in list(zip(run(written, one.values), expected, strict=True))[: one.compared]:
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-5)


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize(
    "case",
    ["a step of unequal rows", "all keys of unequal rows", "heads with ends of keys", "rotated, interleaved",
     "heads with a mask", "half of a head rotated",
     "ends and starts of keys", "codes behind earlier keys"],
)
def test_kernels_of_what_is_written_out_are_right(case: str, tmp_path: Path) -> None:
    onnx.save(CASES[case].model(), tmp_path / "model.onnx")
    graph = engine.load(tmp_path / "model.onnx")
    assert not graph.unsupported and not engine.fuse(graph).unsupported
    assert engine.check_model(graph, engine.fuse(graph)).status == "pass"


@pytest.mark.parametrize("place", range(11, 17))
def test_operands_that_are_not_followed_are_refused(place: int, tmp_path: Path) -> None:
    """Sinks, scales of caches, weights of norms, lengths of queries."""
    more = {f"absent{at}": None for at in range(len(PROMPT), place)} | {"more": normal(16)}
    onnx.save(group_query({**PROMPT, **more}).model(), tmp_path / "model.onnx")
    assert "op" in engine.load(tmp_path / "model.onnx").unsupported


HALF_LIMIT = 2**-11 * 16 * 4
"""ONNX Runtime computes in float32, each written-out step rounds to 11 bits: scores of up to 16 are off by 16 of those,
so are weights by as much of themselves, of values of up to 4.  Scales of codes are float32 in ONNX Runtime for CPUs."""


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if one.kind != "QAttention"])
def test_half_precision_is_near(case: str) -> None:
    one = CASES[case]
    half = {n: v.astype(np.float16) if v is not None and v.dtype == np.float32 else v for n, v in one.operands.items()}
    halved = replace(one, operands=half)
    model = halved.model()
    for output in model.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    expected, got = run(model, halved.values), run(write_out(model, case), halved.values)
    for mine, theirs in list(zip(got, expected, strict=True))[: one.compared]:
        np.testing.assert_allclose(mine.astype(np.float32), theirs.astype(np.float32), atol=HALF_LIMIT)


@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("rotated", {"rotary_embedding_dim": 4}),
        ("a prompt", {"smooth_softmax": 1}),
        ("a window and a cap", {"causal": 0}),
        ("a prompt", {"sliding_window_cache": 1}),
        ("a prompt", {"k_quant_type": "PER_TENSOR"}),
        ("a mask of keys", {"do_rotary": 1}),
        ("behind earlier keys", {"past_present_share_buffer": 1}),
    ],
)
def test_other_forms_are_refused_by_name(case: str, more: dict[str, Any], tmp_path: Path) -> None:
    one = CASES[case]
    onnx.save(AttentionCase(one.kind, one.operands, {**one.attributes, **more}).model(), tmp_path / "model.onnx")
    found = engine.load(tmp_path / "model.onnx")
    assert any(f"{DOMAIN}::{one.kind} is no operator" in why for why in found.unsupported.values())
