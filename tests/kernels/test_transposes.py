"""Tiles turned in registers and shared memory: every width and type, ragged edges, counts, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.kernels.elementwise.tiles import TransposeConfig
from engine.tile.nodes import TurnRows, operations
from tests.benchmarks.work import Row, compare
from tests.kernels.test_marks import advised
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

TILE = "all @ innermost: mark tile 32"
WIDTHS = [
    # type, (batch, rows, columns) of the input, vector asked for, (read, write) given
    ("float16", (2, 72, 80), 8, (8, 8)),
    ("float16", (2, 72, 80), 4, (4, 4)),
    ("float16", (1, 40, 33), 8, (1, 8)),
    ("float16", (1, 130, 64), 8, (8, 2)),
    ("float16", (1, 33, 35), 1, (1, 1)),
    ("bfloat16", (1, 72, 80), 8, (8, 8)),
    ("float32", (2, 68, 36), 4, (4, 4)),
    ("float32", (1, 37, 36), 4, (4, 1)),
    ("int64", (1, 34, 38), 2, (2, 2)),
    ("int8", (1, 144, 160), 16, (16, 16)),
    ("int8", (1, 72, 160), 16, (16, 8)),
    ("uint8", (1, 36, 132), 4, (4, 4)),
    ("bool", (1, 72, 64), 8, (8, 8)),
]  # fmt: skip


def turned(dtype: str, shape: tuple[int, ...], folder: Path, target: str = "h200") -> engine.FusionGroup:
    """The last two axes of an array turned."""
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    path = write_model(folder / "t.onnx", [("Transpose", ["x"], ["y"], {"perm": order})], {"x": (dtype, shape)}, ["y"])
    return engine.fuse(engine.load(path), target=target).groups[0]


@pytest.mark.few(5)
@needs_compiler
@pytest.mark.parametrize(("dtype", "shape", "vector", "given"), WIDTHS, ids=[f"{d} {s} {v}" for d, s, v, _ in WIDTHS])
def test_widths(dtype: str, shape: tuple[int, ...], vector: int, given: tuple[int, int], tmp_path: Path) -> None:
    """Equal to NumPy's turned array at both levels, and requests, sectors and conflicts are those that are counted."""
    kernel = advised(turned(dtype, shape, tmp_path), TILE, f"all @ innermost: mark vector {vector}")
    config = kernel.tile.config
    assert isinstance(config, TransposeConfig) and (config.read, config.write) == given
    for level in ("source", "ptx"):
        check = engine.check(kernel, level=level)
        assert check.status == "pass" and check.max_error == 0, (level, check.message)
    row = compare(kernel)
    assert isinstance(row, Row) and not row.left, row


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("float32", 4), ("int8", 1), ("int64", 8)])
def test_large_arrays_are_moved_by_16_bytes_and_without_conflicts(dtype: str, size: int, tmp_path: Path) -> None:
    kernel = engine.compile(turned(dtype, (8192, 8192), tmp_path))
    facts = kernel.facts
    assert facts.l2_bytes == 2 * 8192 * 8192 * size == 16 * 32 * facts.global_requests
    assert facts.global_sectors * 32 == facts.l2_bytes and facts.bank_conflicts == 0


def test_small_arrays_keep_narrow_vectors_and_more_blocks(tmp_path: Path) -> None:
    config = engine.compile(turned("float16", (3, 136, 208), tmp_path)).tile.config
    assert isinstance(config, TransposeConfig) and (config.read, config.write, config.edge) == (4, 4, 32)


def test_moved_halves_are_not_converted(tmp_path: Path) -> None:
    """What is only moved stays as it lies in memory; what is computed with is not."""
    plain = engine.compile(turned("float16", (64, 64), tmp_path)).source.text
    assert "to_float" not in plain and "to_f16" not in plain
    nodes: list[Node] = [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Neg", ["t"], ["y"], {})]
    path = write_model(tmp_path / "n.onnx", nodes, {"x": ("float16", (64, 64))}, ["y"])
    (group,) = engine.fuse(engine.load(path)).groups
    assert "to_float" in engine.compile(group).source.text


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_in_the_middle_of_a_group(dtype: str, tmp_path: Path) -> None:
    """Statements before and behind a turned read, another direct one, and a row that all share."""
    nodes: list[Node] = [
        ("Relu", ["x"], ["a"], {}), ("Transpose", ["a"], ["t"], {"perm": [0, 2, 1]}), ("Add", ["t", "z"], ["s"], {}),
        ("Mul", ["s", "b"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"x": (dtype, (2, 48, 72)), "z": (dtype, (2, 72, 48)), "b": (dtype, (48,))}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"]))).groups
    kernel = engine.compile(group)
    assert any(isinstance(op, TurnRows) for op in operations(kernel.tile.body))
    assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]


@needs_compiler
@pytest.mark.parametrize(
    ("text", "fault"),
    [("barrier();", ""), ("(column / 4) * 4", "(column / 4) * 0"), ("x_column * 32", "x_column * 33")],
    ids=["no barrier", "groups not moved apart", "rows too long"],
)
def test_faults_are_found(text: str, fault: str, tmp_path: Path) -> None:
    """A wrong place or a missing barrier fails, as the kernel beside it passes."""
    kernel = advised(turned("float32", (64, 64), tmp_path), TILE, "all @ innermost: mark vector 4")
    assert engine.check(kernel).status == "pass"
    assert text in kernel.source.text
    broken = replace(kernel.source, text=kernel.source.text.replace(text, fault, 1))
    assert engine.check(replace(kernel, source=broken)).status == "fail"
