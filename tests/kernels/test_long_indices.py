"""Indices of 64 bits where an array or a launch has more than 2^31 elements, of 32 bits everywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda, nvrtc_version
from engine.execution.ptx.arithmetic import _upper_half
from engine.support.errors import Unsupported
from engine.tile.nodes import writer
from engine.verify.values import group_values
from tests.semantics.single import Node, write_model
from tests.support.commands import MODELS
from tests.support.needs import needs_compiler, needs_nvrtc

LARGE: dict[str, tuple[Node, dict[str, tuple[str, tuple[int, ...]]]]] = {
    "element-wise": (("Relu", ["x"], ["y"], {}), {"x": ("float32", (65536, 50272))}),
    "rows": (("Softmax", ["x"], ["y"], {"axis": -1}), {"x": ("float16", (65536, 50272))}),
    "columns": (("ReduceSum", ["x", "axes"], ["y"], {"keepdims": 0}), {"x": ("float16", (65536, 50272))}),
    "batched product": (("MatMul", ["x", "w"], ["y"], {}),
                        {"x": ("float32", (16384, 64, 512)), "w": ("float32", (16384, 512, 512))}),
}  # fmt: skip


@pytest.mark.parametrize("case", LARGE)
def test_every_position_in_a_large_array_is_computed_in_64_bits(case: str, tmp_path: Path) -> None:
    node, inputs = LARGE[case]
    path = write_model(tmp_path / "large.onnx", [node], inputs, ["y"], {"axes": np.array([0])})
    for group in engine.fuse(engine.load(path)).groups:
        kernel = engine.compile(group)
        large = [name for name in group.program.inputs if group.program.arrays[name].elements > writer.MOST_COUNTED]
        for name in large:
            loads = rf"\b{name}\.load(?:<\d+>)?\((.*?)\)[;: ]|\b{name}, (.*?), \d+\);"
            positions = ["".join(found) for found in re.findall(loads, kernel.source.text)]
            assert positions and all("i64(" in position for position in positions)
        assert large or group.name.endswith("_1")  # the parts of a sum are few
        with pytest.raises(Unsupported, match="its values take"):
            group_values(kernel.group)
        assert nvrtc_version() is None or compile_cuda(kernel.source.text, "sm_80").spill_bytes == 0


def test_smaller_arrays_have_no_long_index(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx", [("Relu", ["x"], ["y"], {})], {"x": ("float32", (4096, 4096))}, ["y"])
    (group,) = engine.fuse(engine.load(path)).groups
    assert "i64" not in engine.compile(group).source.text


@pytest.mark.few(2)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    "model", ["bert_tiny", "jacobi_1d_40x30", "column_sum_1000x384", "add_relu_odd_3x5x127", "softmax_96x512"]
)
def test_long_indices_are_right_at_both_levels(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 64 elements were many."""
    monkeypatch.setattr(writer, "MOST_COUNTED", 64)
    for group in engine.fuse(engine.load(MODELS / f"{model}.onnx")).groups:
        kernel = engine.compile(group, engine.default_recipe(group))
        assert "i64(" in kernel.source.text
        for level in ("source", "ptx"):
            checked = engine.check(kernel, level=level)
            assert checked.status == "pass", f"{group.name}, {level}: {checked.message}"


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_upper_half_of_a_product_is_that_of_whole_numbers(dtype: type) -> None:
    limits, draw = np.iinfo(dtype), np.random.default_rng(5)
    shifts = draw.integers(0, 60, (2, 500))
    x, y = (draw.integers(limits.min, limits.max, 500, dtype) >> shift.astype(dtype) for shift in shifts)
    ends = np.array([limits.min, limits.max, 0], dtype)
    x, y = np.append(x, ends), np.append(y, ends[::-1])
    assert [int(n) for n in _upper_half(x, y)] == [int(a) * int(b) >> 64 for a, b in zip(x, y, strict=True)]
