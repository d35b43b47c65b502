"""bfloat16 from an ONNX file to a checked kernel: products on tensor cores, the rest on CUDA cores."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda, compile_ptx
from engine.execution.reference import reference_values
from engine.graph.nodes import BFLOAT16
from engine.target import ARCHITECTURES
from engine.tile.source import CudaSource, Parameter
from engine.verify.tolerance import UNIT
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

INTRINSIC = "mma_m16n8k16_bf16"
LINEAR: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}), ("Relu", ["s"], ["y"], {}),
]  # fmt: skip
CONVOLUTION: list[Node] = [("Conv", ["x", "w"], ["y"], {"pads": [1, 1, 1, 1]})]
ATTENTION: list[Node] = [
    ("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {}),
]  # fmt: skip
NORM: list[Node] = [
    ("LayerNormalization", ["x", "scale", "b"], ["n"], {"axis": -1}), ("Gelu", ["n"], ["y"], {}),
]  # fmt: skip
CASES: dict[str, tuple[list[Node], dict[str, tuple[int, ...]], int]] = {
    # nodes, inputs, products on tensor cores
    "linear": (LINEAR, {"x": (3, 33, 40), "w": (40, 50), "b": (50,)}, 1),
    "odd rows": (LINEAR, {"x": (47, 31), "w": (31, 29), "b": (29,)}, 1),
    "convolution": (CONVOLUTION, {"x": (1, 16, 9, 11), "w": (24, 16, 3, 3)}, 1),
    "attention": (ATTENTION, {"q": (2, 40, 32), "k": (2, 32, 64), "v": (2, 64, 32)}, 2),
    "rows": (NORM, {"x": (5, 96), "scale": (96,), "b": (96,)}, 0),
}


def plan_of(name: str, folder: Path) -> engine.FusionPlan:
    nodes, inputs, _ = CASES[name]
    path = folder / "m.onnx"
    write_model(path, nodes, {n: ("bfloat16", shape) for n, shape in inputs.items()}, ["y"], opset=22)
    return engine.fuse(engine.load(path))


@pytest.mark.few(3)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_from_file_to_checked_kernel(name: str, tmp_path: Path) -> None:
    """Both copy orders, the tolerance of 8 significant bits, and both instruction sets without spills."""
    plan = plan_of(name, tmp_path)
    assert not plan.unsupported
    kernels = [engine.compile(group) for group in plan.groups]
    products = sum(k.source.text.count(f"{INTRINSIC}(") for k in kernels)
    assert products == CASES[name][2]
    for kernel in kernels:
        report = engine.check(kernel)
        assert report.status == "pass", report.message
        assert "roundings to bfloat16 (2^-8)" in report.tolerance_because
        assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


def test_the_reference_rounds_after_every_operator(tmp_path: Path) -> None:
    """ONNX Runtime has no kernels for bfloat16 on CPUs: it runs in float32, rounded where ONNX would round."""
    plan_of("odd rows", tmp_path)
    values = reference_values(engine.load(tmp_path / "m.onnx"))
    product = values["x"].astype(np.float64) @ values["w"].astype(np.float64)
    assert values["p"].dtype == BFLOAT16
    np.testing.assert_array_equal(values["p"], product.astype(np.float32).astype(BFLOAT16))
    total = values["p"].astype(np.float32) + values["b"].astype(np.float32)
    np.testing.assert_array_equal(values["s"], total.astype(BFLOAT16))
    assert (values["s"].astype(np.float32) != total).any()


def test_weights_stand_in_the_file_or_beside_it(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((40, 24)).astype(BFLOAT16)
    path = tmp_path / "w.onnx"
    write_model(path, [("MatMul", ["x", "w"], ["y"], {})], {"x": ("bfloat16", (24, 40))}, ["y"], {"w": weight})
    inside = engine.load(path).constants["w"].value
    beside = tmp_path / "beside.onnx"
    onnx.save(onnx.load(path), beside, save_as_external_data=True, location="w.bin", size_threshold=0)
    outside = engine.load(beside).constants["w"].value
    for value in (inside, outside):
        assert value is not None and value.dtype == BFLOAT16
        np.testing.assert_array_equal(value, weight)
    got = reference_values(engine.load(beside), wanted=["y"])["y"]
    np.testing.assert_array_equal(got, reference_values(engine.load(path), wanted=["y"])["y"])


ROUNDING = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(256) k(const float* __restrict__ x_, bf16* __restrict__ y_) {
    const Global<const float> x(x_, 65536); const Global<bf16> y(y_, 65536);
    const int i = int(blockIdx.x) * 256 + int(threadIdx.x);
    const float value = x.load(i);
    const u32 word = fn_pack_bf16(round_bf16(value), value);
    y.store(i, bf16{static_cast<unsigned short>(i % 2 ? word : word >> 16)}); }
"""


def rounding() -> CudaSource:
    buffers = (
        Parameter("x_", "x", "float32", 65536, read=True, written=False),
        Parameter("y_", "y", "bfloat16", 65536, read=False, written=True),
    )
    return CudaSource(ROUNDING, "k", (256, 1, 1), (256, 1, 1), 0, buffers, ())


@needs_compiler
def test_the_conversion_rounds_to_nearest_even() -> None:
    """Ties, subnormals, infinities, overflow: as NumPy's type does."""
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**32, 65536, dtype=np.uint32)
    bits[:4096] = bits[:4096] & 0xFFFF0000 | 0x8000
    x = bits.view(np.float32)
    x[-4:] = [np.inf, -np.inf, np.finfo(np.float32).max, 0.0]
    x[np.isnan(x)] = np.nan
    _, outputs, _ = emulate(rounding(), {"x": x})
    with np.errstate(invalid="ignore"):
        got, want = outputs["y"], x.astype(BFLOAT16)
    is_nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~is_nan], want.view(np.uint16)[~is_nan])


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_conversion_is_one_instruction(architecture: str) -> None:
    assert re.search(r"cvt\.rn\.bf16\.f32", compile_ptx(ROUNDING, architecture))


def test_unit_roundoff_is_the_formats() -> None:
    """Half the distance from 1 to the next number."""
    one = np.array(1, BFLOAT16)
    after = (one.view(np.uint16) + 1).astype(np.uint16).view(BFLOAT16)
    assert UNIT["bfloat16"] == (float(after) - 1) / 2
