"""Products of 8-bit codes: exact sums on tensor cores, faster than in halves, with the work that is counted."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import engine
from engine.api import group_values
from engine.verify.kernel import check_kernel
from tests.benchmarks import work
from tests.kernels.test_gemm_work import assert_same_work, configurations
from tests.kernels.test_tensor_cores import advised
from tests.support.needs import needs_compiler, needs_nvrtc

Arrays = dict[str, np.ndarray]


def save(folder: Path, nodes: list[onnx.NodeProto], inputs: Arrays, constants: Arrays) -> Path:
    """A model with one output, y."""
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in
             inputs.items()]  # fmt: skip
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "codes", given, [onnx.ValueInfoProto(name="y")], stored)
    path = folder / "codes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def drawn(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def integer_product(folder: Path, a: np.ndarray, b: np.ndarray, is_weight: bool) -> engine.FusionGroup:
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    inputs = {"a": a} if is_weight else {"a": a, "b": b}
    (group,) = engine.fuse(engine.load(save(folder, [node], inputs, {"b": b} if is_weight else {}))).groups
    return group


SHORT = {"int8": "s8", "uint8": "u8"}
SIZES = [((48, 96), (96, 40)), ((33, 130), (130, 50)), ((2, 3, 17, 64), (2, 3, 64, 24))]
"""Whole tiles, ragged ones, batches."""


@needs_compiler
@pytest.mark.parametrize("sizes", SIZES, ids=["whole", "ragged", "batched"])
@pytest.mark.parametrize(("first", "second"), list(product(("int8", "uint8"), repeat=2)))
def test_sums_equal_those_in_64_bits(tmp_path: Path, sizes: Any, first: str, second: str) -> None:
    a, b = drawn(sizes[0], first, 1), drawn(sizes[1], second, 2)
    group = integer_product(tmp_path, a, b, is_weight=False)
    kernel = engine.compile(group, engine.default_recipe(group))
    assert kernel.tile.intrinsic == f"mma_m16n8k32_{SHORT[first]}_{SHORT[second]}"
    got = engine.run(kernel, {"a": a, "b": b}, device="cpu")["y"]
    np.testing.assert_array_equal(got, np.matmul(a.astype(np.int64), b.astype(np.int64)))


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    "lines",
    [
        (), ("all @ k: mark slices 2", "all @ k: mark tile 64"), ("all @ k: mark split_k 2",),
        ("all @ i: mark warp 16", "all @ k: mark register_stages 2", "all @ k: mark tile 128"),
    ],
    ids=["advised", "slices", "split-K", "small warps"],
)  # fmt: skip
def test_every_configuration_is_exact_at_both_levels(tmp_path: Path, lines: tuple[str, ...]) -> None:
    a, b = drawn((40, 256), "uint8", 3), drawn((256, 48), "int8", 4)
    kernel = advised(integer_product(tmp_path, a, b, is_weight=True), *lines)
    for level in ("source", "ptx"):
        checked = engine.check(kernel, level=level)
        assert checked.status == "pass" and checked.max_error == 0, checked.message


def quantised(name: str, scale: float, zero: Any) -> tuple[onnx.NodeProto, Arrays]:
    node = helper.make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_real"])
    return node, {f"{name}_scale": np.array(scale, np.float32), f"{name}_zero": np.asarray(zero)}


def quantised_layer(folder: Path, kind: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Path:
    """DequantizeLinear of both, the product, QuantizeLinear."""
    read_x, of_x = quantised("x", 0.02, np.uint8(120))
    read_w, of_w = quantised("w", 0.01, np.int8(0))
    nodes = [
        read_x, read_w, helper.make_node(kind, ["x_real", "w_real"], ["real"], **attributes),
        helper.make_node("QuantizeLinear", ["real", "y_scale", "y_zero"], ["y"]),
    ]  # fmt: skip
    result = {"y_scale": np.array(0.5, np.float32), "y_zero": np.array(128, np.uint8)}
    return save(folder, nodes, {"x": drawn(x, "uint8", 1)}, {"w": drawn(w, "int8", 2), **of_x, **of_w, **result})


def predicted(graph: engine.Graph, target: str) -> tuple[float, set[str]]:
    groups = engine.fuse(graph, target=target).groups
    kernels = [engine.compile(group, engine.default_recipe(group)) for group in groups]
    return sum(engine.predict(k).microseconds for k in kernels), {k.tile.intrinsic for k in kernels} - {""}


LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "product": ("MatMul", (2048, 1024), (1024, 1024), {}),
    "small product": ("MatMul", (512, 768), (768, 768), {}),
    "convolution": ("Conv", (32, 64, 56, 56), (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}),
    "convolution of one image": ("Conv", (1, 128, 16, 16), (128, 128, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "pointwise convolution": ("Conv", (32, 256, 56, 56), (64, 256, 1, 1), {}),
}


@pytest.mark.parametrize("target", ["a100", "h100"])
@pytest.mark.parametrize("layer", LAYERS)
def test_products_of_codes_are_predicted_faster_than_those_of_halves(layer: str, target: str, tmp_path: Path) -> None:
    kind, x, w, attributes = LAYERS[layer]
    ours, intrinsics = predicted(engine.load(quantised_layer(tmp_path, kind, x, w, **attributes)), target)
    node = helper.make_node(kind, ["x", "w"], ["y"], **attributes)
    half = save(tmp_path, [node], {"x": np.zeros(x, np.float16)}, {"w": drawn(w, "int8", 2).astype(np.float16)})
    assert intrinsics == {"mma_m16n8k32_u8_s8"}
    assert ours < predicted(engine.load(half), target)[0]


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.parametrize("layer", ["product", "convolution of one image"])
def test_the_work_is_what_is_counted(layer: str, tmp_path: Path) -> None:
    kind, x, w, attributes = LAYERS[layer]
    small = (x[0] if kind == "Conv" else 96, *x[1:])
    for group in engine.fuse(engine.load(quantised_layer(tmp_path, kind, small, w, **attributes))).groups:
        if engine.compile(group, engine.default_recipe(group)).tile.intrinsic:
            assert all(map(assert_same_work, configurations(group, 3, 4)))
        row = work.compare(engine.compile(group))
        assert isinstance(row, work.Row) and row.left == {}, row


@pytest.mark.parametrize(("depth", "is_of_codes"), [(32000, True), (33000, False)])
def test_sums_that_may_leave_32_bits_are_of_floats(depth: int, is_of_codes: bool, tmp_path: Path) -> None:
    """120 stands for 0: 2 * 255 * 128 * depth is below 2^31 up to 32,896."""
    graph = engine.load(quantised_layer(tmp_path, "MatMul", (16, depth), (depth, 16)))
    dtypes = {array.dtype for group in engine.fuse(graph).groups for array in group.program.arrays.values()}
    assert ("int32" in dtypes) == is_of_codes


@needs_compiler
def test_a_code_that_is_off_by_one_is_found(tmp_path: Path) -> None:
    """Rounding down instead of to the nearest moves half of the codes, not those few where rounding decides."""
    (group,) = engine.fuse(engine.load(quantised_layer(tmp_path, "MatMul", (64, 64), (64, 32)))).groups
    kernel = engine.compile(group, engine.default_recipe(group))
    assert engine.check(kernel).status == "pass"
    text = kernel.source.text
    assert "fn_round(" in text
    wrong = replace(kernel, source=replace(kernel.source, text=text.replace("fn_round(", "fn_floor(")))
    checked = check_kernel(wrong, *group_values(group))
    assert checked.status == "fail" and {finding.kind for finding in checked.findings} == {"wrong result"}
