"""Convolutions on tensor cores as implicit matrix products: windows, groups, dilations and transposed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from tests.kernels.test_tensor_cores import Shape, advised
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

CONVOLUTIONS: list[tuple[Shape, Shape, dict[str, object], str]] = [
    ((2, 32, 14, 14), (64, 32, 3, 3), {"pads": [1, 1, 1, 1]}, "mma_m16n8k16_f16"),
    ((1, 64, 14, 14), (48, 64, 1, 1), {}, "mma_m16n8k16_f16"),
    ((1, 3, 33, 35), (32, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}, "mma_m16n8k16_f16"),
    ((2, 40, 9, 11), (48, 40, 3, 3), {"dilations": [2, 2]}, "mma_m16n8k16_f16"),
    ((2, 40, 9, 11), (48, 20, 3, 3), {"group": 2}, "mma_m16n8k16_f16"),
    ((2, 40, 9, 11), (48, 10, 3, 3), {"group": 4, "pads": [1, 0, 2, 1], "strides": [2, 1]}, "mma_m16n8k16_f16"),
    ((2, 32, 21), (64, 8, 5), {"group": 4, "dilations": [2], "pads": [4, 4]}, "mma_m16n8k16_f16"),
    ((1, 24, 4, 7, 6), (32, 12, 2, 3, 3), {"group": 2, "strides": [1, 2, 1], "pads": [1] * 6}, "mma_m16n8k16_f16"),
    ((1, 32, 9, 9), (16, 8, 3, 3), {"group": 4}, ""),
    ((1, 16, 9, 9), (64, 1, 3, 3), {"group": 16}, ""),
    ((1, 32, 14, 14), (32, 1, 3, 3), {"group": 32}, ""),
]


@pytest.mark.few(2)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    ("image", "weight", "attributes", "intrinsic"), CONVOLUTIONS,
    ids=[
        "3x3", "1x1", "strided 7x7", "dilated", "grouped", "grouped and strided", "grouped in 1-D", "grouped in 3-D",
        "groups of 4 channels: CUDA cores", "4 channels from each: CUDA cores", "depthwise: CUDA cores",
    ],
)  # fmt: skip
def test_convolutions(
    image: Shape, weight: Shape, attributes: dict[str, object], intrinsic: str, tmp_path: Path
) -> None:
    """An implicit matrix product: rows are output points, the depth runs over channels and the window, groups are
    batches.  Groups with fewer channels than an instruction has columns stay on CUDA cores.  What is outside the image
    is not read: no kernel lays out zeros around it."""
    nodes: list[Node] = [("Conv", ["x", "w", "b"], ["p"], attributes), ("Relu", ["p"], ["y"], {})]
    inputs = {"x": ("float16", image), "w": ("float16", weight), "b": ("float16", weight[:1])}
    plan = engine.fuse(engine.load(write_model(tmp_path / "c.onnx", nodes, inputs, ["y"])))
    (kernel,) = (advised(group) for group in plan.groups)
    assert kernel.tile.intrinsic == intrinsic
    for level in ("source", "ptx"):
        report = engine.check(kernel, level=level)
        assert report.status == "pass", report.message
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


TRANSPOSED: list[tuple[Shape, Shape, dict[str, object]]] = [
    ((2, 32, 7, 9), (32, 24, 3, 3), {"strides": [2, 2], "output_padding": [1, 0]}),
    ((2, 32, 7, 9), (32, 12, 3, 3), {"strides": [2, 1], "group": 2, "pads": [1, 0, 1, 1]}),
    ((2, 32, 17), (32, 16, 4), {"dilations": [3], "group": 4}),
    ((1, 16, 3, 5, 4), (16, 8, 2, 3, 3), {"strides": [1, 2, 1], "group": 2}),
]


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize(("image", "weight", "attributes"), TRANSPOSED, ids=["2-D", "grouped", "1-D", "3-D"])
def test_transposed_convolutions(image: Shape, weight: Shape, attributes: dict[str, object], tmp_path: Path) -> None:
    """The window mirrored over the spread image, whose zeros no kernel makes; the weight has the summed channels
    outside."""
    nodes: list[Node] = [("ConvTranspose", ["x", "w"], ["p"], attributes), ("Relu", ["p"], ["y"], {})]
    inputs = {"x": ("float16", image), "w": ("float16", weight)}
    plan = engine.fuse(engine.load(write_model(tmp_path / "c.onnx", nodes, inputs, ["y"])))
    (product,) = (advised(group) for group in plan.groups)
    assert product.tile.intrinsic and [s.operator for s in product.group.program.statements] == ["n0", "n1"]
    for level in ("source", "ptx"):
        report = engine.check(product, level=level)
        assert report.status == "pass", report.message


# tf32
