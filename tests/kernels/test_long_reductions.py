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


def kernel_of(folder: Path, nodes: list[Node], shape: tuple[int, int], dtype: str) -> engine.Kernel:
    scale = {"scale": np.linspace(0.5, 1.5, shape[1]).astype(dtype)} if "scale" in nodes[0][1] else {}
    path = write_model(folder / "m.onnx", nodes, {"x": (dtype, shape)}, ["y"], scale)
    (group,) = engine.fuse(engine.load(path)).groups
    return engine.compile(group)


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
    kernel = kernel_of(tmp_path, nodes, shape, dtype)
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@needs_compiler
@pytest.mark.parametrize(("nodes", "shape"), [(SOFTMAX, (2, 50_003)), (DOWN, (1_003, 40))], ids=["rows", "columns"])
def test_they_are_right(nodes: list[Node], shape: tuple[int, int], tmp_path: Path) -> None:
    report = engine.check(kernel_of(tmp_path, nodes, shape, "float32"))
    assert report.status == "pass", report.message


@pytest.mark.parametrize(("columns", "written_out"), [(32_768, True), (32_772, False)])
def test_loops_over_as_many_elements_as_registers_hold_are_written_out(
    columns: int, written_out: bool, tmp_path: Path
) -> None:
    """1,024 threads with 32 elements each keep their row and find it by loops written out; longer rows are re-read."""
    text = kernel_of(tmp_path, SOFTMAX, (64, columns), "float32").source.text
    lines = text.splitlines()
    loop = next(n for n, line in enumerate(lines) if "int chunk" in line)
    assert ("#pragma unroll" in lines[loop - 1]) == written_out
    assert text.count("x.load<4>") == (1 if written_out else 3)
