"""Reductions of more elements than a block has registers for: they compile soon and without spills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

SOFTMAX: list[Node] = [("Softmax", ["x"], ["y"], {"axis": 1})]
DOWN: list[Node] = [("Softmax", ["x"], ["y"], {"axis": 0})]
NORM: list[Node] = [("LayerNormalization", ["x", "scale"], ["y"], {"axis": 1})]


def kernels_of(folder: Path, nodes: list[Node], shape: tuple[int, int], dtype: str) -> list[engine.Kernel]:
    scale = {"scale": np.linspace(0.5, 1.5, shape[1]).astype(dtype)} if "scale" in nodes[0][1] else {}
    path = write_model(folder / "m.onnx", nodes, {"x": (dtype, shape)}, ["y"], scale)
    return [engine.compile(group) for group in engine.fuse(engine.load(path)).groups]


def kernel_of(folder: Path, nodes: list[Node], shape: tuple[int, int], dtype: str) -> engine.Kernel:
    (kernel,) = kernels_of(folder, nodes, shape, dtype)
    return kernel


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize(("nodes", "shape", "dtype"), [
    (SOFTMAX, (64, 50_000), "float32"),
    (SOFTMAX, (64, 100_000), "float32"),
    (NORM, (64, 50_000), "float32"),
    (NORM, (64, 50_000), "float16"),
    (NORM, (64, 100_000), "float16"),
    (DOWN, (1_000, 512), "float32"),
    (DOWN, (5_000, 512), "float32"),
], ids=lambda value: value[0][0] if isinstance(value, list) else str(value))  # fmt: skip
def test_no_spills(nodes: list[Node], shape: tuple[int, int], dtype: str, tmp_path: Path) -> None:
    for kernel in kernels_of(tmp_path, nodes, shape, dtype):
        assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@needs_compiler
@pytest.mark.parametrize(("nodes", "shape"), [(SOFTMAX, (64, 50_003)), (DOWN, (1_003, 40))], ids=["rows", "columns"])
def test_they_are_right(nodes: list[Node], shape: tuple[int, int], tmp_path: Path) -> None:
    report = engine.check(kernel_of(tmp_path, nodes, shape, "float32"))
    assert report.status == "pass", report.message


@pytest.mark.parametrize(("columns", "loads", "has_strips"), [
    (32_768, 1, False), (32_772, 3, False), (200_000, 3, True),
])  # fmt: skip
def test_rows_that_registers_do_not_hold_are_read_again(
    columns: int, loads: int, has_strips: bool, tmp_path: Path
) -> None:
    """1,024 threads keep 32 elements each; longer rows are read again, in strips where chunks are too many to write
    out."""
    text = kernel_of(tmp_path, SOFTMAX, (64, columns), "float32").source.text
    lines = text.splitlines()
    inner = "int chunk_of_strip" if has_strips else "int chunk"
    assert all("#pragma unroll" in lines[n - 1] for n, line in enumerate(lines) if inner in line and "for" in line)
    assert ("int strip" in text) == has_strips
    assert text.count("x.load<4>") == loads
