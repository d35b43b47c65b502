"""Kernels whose values do not fit into memory are checked at a smaller size of the same file, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import engine
from engine.cpu.nodes import CpuKernel
from engine.verify import cut, values
from engine.verify.cut import cut_kernel
from tests.graph.models import model, node, save
from tests.support.needs import needs_compiler


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (cut, values):
        monkeypatch.setattr(module, "MAX_REFERENCE_BYTES", 2**20)
    monkeypatch.setattr(cut, "AIM", 2**17)
    yield
    values._reference.cache_clear()


def kernel_of(path: Path) -> engine.Kernel:
    (group,) = engine.fuse(engine.load(path)).groups
    kernel = engine.compile(group)
    assert isinstance(kernel, engine.Kernel)
    return kernel


def rows(folder: Path, scale: float = 2.0) -> engine.Kernel:
    """1003 rows of 500: the axis of rows is cut, that of columns is summed over."""
    nodes = [node("Mul", "x c", "scaled"), node("Softmax", "scaled", "y", axis=-1)]
    proto = model(nodes, {"x": (1003, 500)}, ["y"], {"c": np.array(scale, np.float32)})
    return kernel_of(save(folder / "rows.onnx", proto))


@pytest.mark.parametrize("level", ["source", "ptx"])
def test_fewer_rows_stand_for_all(tmp_path: Path, level: str) -> None:
    kernel = rows(tmp_path)
    found = engine.check(kernel, level=level)
    assert found.status == "pass" and found.elements_compared > 0
    assert (found.blocks_run, found.blocks_total) == (0, kernel.source.blocks)
    # 3.8 MiB of values for 128 KiB: a thirty-first of 1003 rows, in whole 128s, and the remainder of 1003 by 128.
    assert "its values take 0.0 GiB" in found.message and found.message.endswith("blocks ran with x[107, 500]")


@needs_compiler
@pytest.mark.parametrize("factor", ["2.0f", "2.1f"])
def test_a_kernel_for_a_cpu_is_cut_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: str) -> None:
    rows(tmp_path)
    (group,) = engine.fuse(engine.load(tmp_path / "rows.onnx"), target="cpu").groups
    kernel = engine.compile(group)
    small = cut_kernel(kernel)
    assert isinstance(kernel, CpuKernel) and isinstance(small, CpuKernel)
    text = small.source.text.replace("2.0f", factor)
    assert (text != small.source.text) == (factor != "2.0f")
    changed = replace(small, made=replace(small.made, source=replace(small.source, text=text)))
    monkeypatch.setattr(cut, "cut_kernel", lambda _: changed)
    found = engine.check(kernel)
    assert (found.blocks_run, found.blocks_total) == (0, 1)
    if factor == "2.0f":
        assert found.status == "pass" and found.message.endswith("it ran with x[107, 500]")
    else:
        assert found.status == "fail" and "elements of y are off" in found.message


def test_what_fits_is_not_cut(tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")], {"x": (100, 100)}, ["y"])
    kernel = kernel_of(save(tmp_path / "m.onnx", proto))
    assert cut_kernel(kernel) is None
    found = engine.check(kernel)
    assert (found.status, found.blocks_run, found.message) == ("pass", kernel.source.blocks, "")


def test_a_convolution_is_cut_along_its_batch(tmp_path: Path) -> None:
    proto = model([node("Conv", "x w", "y", pads=[1, 1, 1, 1])], {"x": (24, 8, 30, 30), "w": (8, 8, 3, 3)}, ["y"])
    kernel = kernel_of(save(tmp_path / "conv.onnx", proto))
    found = engine.check(kernel)
    assert found.status == "pass" and "x[2, 8, 30, 30], w[8, 8, 3, 3]" in found.message


def test_axes_of_one_element_stay_in_the_file(tmp_path: Path) -> None:
    proto = model([node("Mul", "x s", "m"), node("Relu", "m", "y")], {"x": (1003, 1, 500), "s": (1003, 1, 1)}, ["y"])
    found = engine.check(kernel_of(save(tmp_path / "m.onnx", proto)))
    assert found.status == "pass" and "blocks ran with x[107, 244]" in found.message


def test_blocks_of_the_large_launch_that_leave_elements_out_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = rows(tmp_path)
    source = kernel.source
    wrong = replace(source, footprints=tuple(replace(f, position=f.position + 1) for f in source.footprints))
    changed = replace(kernel, source=wrong)
    monkeypatch.setattr(cut, "cut_kernel", lambda _: cut_kernel(kernel))
    found = engine.check(changed)
    assert found.status == "fail" and found.message.startswith("out of bounds")


def test_a_wrong_smaller_kernel_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cut_kernel(rows(tmp_path))
    assert right is not None
    text = right.source.text.replace("2.0f", "2.1f")
    assert text != right.source.text
    wrong = replace(right, source=replace(right.source, text=text))
    monkeypatch.setattr(cut, "cut_kernel", lambda _: wrong)
    found = engine.check(rows(tmp_path))
    assert found.status == "fail" and "wrong result" in found.message


def test_a_text_of_ones_own_has_no_smaller_size(tmp_path: Path) -> None:
    kernel = rows(tmp_path)
    changed = replace(kernel, source=replace(kernel.source, text=kernel.source.text + "\n"))
    found = engine.check(changed)
    assert found.status == "unsupported" and "its text is not what its recipe makes" in found.message
    ptx = engine.check(kernel, level="ptx", ptx="// none")
    assert ptx.status == "unsupported" and "its values take" in ptx.message


def test_what_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    """A sum of everything has no axis to cut; a shape that the file writes out fits its own size alone."""
    total = kernel_of(save(tmp_path / "sum.onnx", model([node("ReduceSum", "x", "y")], {"x": (1000, 500)}, ["y"])))
    assert engine.check(total).status == "unsupported"
    nodes = [node("Reshape", "x shape", "flat"), node("Add", "flat b", "y")]
    proto = model(nodes, {"x": (1000, 4, 125), "b": (1000, 500)}, ["y"], {"shape": np.array([1000, 500])})
    found = engine.check(kernel_of(save(tmp_path / "shape.onnx", proto)))
    assert found.status == "unsupported" and "the reference computes" in found.message


@pytest.mark.parametrize("shape", [(20, 1), (1, 1)])
def test_a_constant_along_the_axis_that_is_cut_is_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    """One row of 20 stays, and is multiplied by 20 factors without an error, but by another program."""
    nodes = [node("Mul", "x w", "scaled"), node("Relu", "scaled", "y")]
    proto = model(nodes, {"x": (20, 20000)}, ["y"], {"w": np.ones(shape, np.float32)})
    found = engine.check(kernel_of(save(tmp_path / "m.onnx", proto)))
    if shape[0] > 1:
        assert found.status == "unsupported" and "w stays as large in a smaller file" in found.message
    else:
        assert found.status == "pass" and "blocks ran with x[1, 16416]" in found.message


def test_ranges_of_the_file_hold_at_the_smaller_size(tmp_path: Path) -> None:
    proto = model([node("Sqrt", "x", "y")], {"x": (1000, 500)}, ["y"])
    proto.metadata_props.add(key="light.inputs", value='{"x": [4.0, 9.0]}')
    proto.graph.value_info.append(helper.make_tensor_value_info("y", 1, (1000, 500)))
    small = cut_kernel(kernel_of(save(tmp_path / "m.onnx", proto)))
    assert small is not None
    expected, _ = values.group_values(small.group)
    (root,) = (expected[name] for name in small.group.program.outputs)
    assert 2 <= root.min() < root.max() < 3


def test_halves_count_with_their_copies_in_float32(tmp_path: Path) -> None:
    """100 KiB of halves, read and written, are 600 KiB with the runtime's copies; of float32 400 KiB."""
    sizes = []
    for element in (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT):
        proto = model([node("Relu", "x", "y")], {"x": (100, 512)}, ["y"], element=element)
        kernel = kernel_of(save(tmp_path / "m.onnx", proto))
        sizes.append(values.bytes_of_values(kernel.group))
    assert sizes == [2 * 100 * 512 * (2 + 4), 2 * 100 * 512 * 4]
