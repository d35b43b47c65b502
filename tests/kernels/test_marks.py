"""Every mark on every kind of kernel: taken, or relaxed with the reason; the launch; and the result, emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.tile.nodes import For, operations
from tests.kernels.test_lowering import kernel_of
from tests.scheduling.published_files import adding
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler

HONOURED = ""
"""In place of a reason."""

BASE = {"softmax_row": "all @ innermost: mark lane 8", "transpose": "all @ innermost: mark tile 32"}
"""What makes a kernel the one that a row speaks of."""

TABLE: list[tuple[str, str, tuple[int, int], str]] = [
    # kernel, entry, (blocks, threads), "" where it is taken, else a part of the reason
    ("element_wise", "all @ j: mark block 2", (30, 256), HONOURED),
    ("element_wise", "all @ i: mark block 2", (3, 256), HONOURED),
    ("element_wise", "all @ j: mark thread 64", (1, 64), HONOURED),
    ("element_wise", "all @ j: mark vector 4", (1, 256), HONOURED),
    ("element_wise", "all @ i: mark vector 4", (1, 256), "vector 1: this kernel takes at most 1 here"),
    ("element_wise", "all @ j: split 4", (1, 256), HONOURED),
    ("element_wise", "all @ j: split 5", (1, 256), "split 4: this kernel takes a divisor of 12"),
    ("element_wise", "all @ j: mark unroll 4", (1, 256), "unroll 1: this kernel takes 1: no loop is left"),
    ("element_wise", "all @ j: mark warp 4", (1, 256), "ask for threads"),
    ("element_wise", "all @ j: mark lane 16", (1, 256), "ask for threads"),
    ("element_wise", "all @ j: mark tile 32", (1, 256), "a tile would turn nothing"),
    ("element_wise", "all @ j: mark stages 3", (1, 256), "no tiles to copy ahead"),
    ("element_wise", "all @ j: mark intrinsic mma", (1, 256), "no use for intrinsic on j"),
    ("softmax_row", "all @ i: mark block 4", (2, 32), HONOURED),
    ("softmax_row", "all @ i: mark block 3", (2, 32), "block 4: this kernel takes whole warps"),
    ("softmax_row", "all @ j: mark block 4", (1, 64), "no use for block on j"),
    ("softmax_row", "all @ j: mark vector 4", (1, 64), HONOURED),
    ("softmax_row", "all @ i: mark vector 4", (1, 64), "no use for vector on i"),
    ("softmax_row", "all @ j: split 16", (1, 64), HONOURED),
    ("softmax_row", "all @ j: split 20", (1, 64), "split 16 elements: this kernel takes multiples of 8"),
    ("softmax_row", "all @ i: split 2", (1, 64), "shared out to blocks and threads, not split"),
    ("softmax_row", "all @ j: mark unroll 8", (1, 64), "unroll 5: this kernel takes 5 or 1"),
    ("softmax_row", "all @ j: mark unroll 1", (1, 64), "registers that only a loop written out can reach"),
    ("softmax_row", "all @ j: mark lane 16", (1, 64), "lane 8: another entry asks for 8"),
    ("softmax_row", "all @ j: mark thread 64", (1, 64), "asked for as lanes of a row"),
    ("softmax_row", "all @ j: mark warp 4", (1, 64), "ask for lanes"),
    ("softmax_row", "all @ j: mark tile 32", (1, 64), "in registers, not in a tile"),
    ("softmax_row", "all @ j: mark stages 3", (1, 64), "copies run ahead from row to row"),
    ("softmax_row", "all @ innermost: mark scope recompute", (1, 64), HONOURED),
    ("softmax_row", "all @ innermost: mark scope register", (1, 64), HONOURED),
    ("softmax_row", "all @ innermost: mark scope shared", (1, 64), "later loops find what they use again"),
    ("column_sum", "all @ j: mark warp 4", (1, 128), HONOURED),
    ("column_sum", "all @ j: mark lane 16", (1, 96), HONOURED),
    ("column_sum", "all @ i: mark vector 2", (1, 256), HONOURED),
    ("column_sum", "all @ i: mark block 2", (1, 256), "the columns of one warp's threads"),
    ("column_sum", "all @ j: split 16", (1, 256), HONOURED),
    ("column_sum", "all @ i: split 2", (1, 256), "shared out to blocks and threads, not split"),
    ("column_sum", "all @ j: mark unroll 1", (1, 256), HONOURED),
    ("column_sum", "all @ j: mark thread 64", (1, 256), "warps of a column"),
    ("column_sum", "all @ j: mark tile 32", (1, 256), "in registers, not in a tile"),
    ("column_sum", "all @ innermost: mark scope register", (1, 256), "nothing is used again"),
    ("transpose", "all @ j: mark block 2", (2, 256), "a block makes one tile"),
    ("transpose", "all @ j: mark vector 4", (2, 64), HONOURED),
    ("transpose", "all @ i: mark vector 2", (2, 256), HONOURED),
    ("transpose", "all @ j: mark vector 8", (2, 64), "vector 4: this kernel takes a power of two up to 4"),
    ("transpose", "all @ j: mark thread 64", (2, 64), HONOURED),
    ("transpose", "all @ j: mark thread 1024", (2, 1024), HONOURED),
    ("transpose", "all @ j: mark thread 16", (2, 32), "a power of two from 32 to 1024"),
    ("transpose", "all @ i: split 4", (2, 256), "already splits both"),
    ("transpose", "all @ j: mark unroll 1", (2, 256), "always written out"),
    ("transpose", "all @ j: mark lane 16", (2, 256), "no value is shared"),
    ("transpose", "all @ j: mark warp 4", (2, 256), "no value is shared"),
    ("transpose", "all @ j: mark stages 2", (2, 256), "nothing to copy ahead"),
    ("matmul_two_stages", "all @ i: mark block 16", (2, 64), HONOURED),
    ("matmul_two_stages", "all @ i: mark thread 2", (1, 512), HONOURED),
    ("matmul_two_stages", "all @ k: mark tile 32", (1, 256), HONOURED),
    ("matmul_two_stages", "all @ k: mark stages 3", (1, 256), "stages 2: the loop over tile has 2 iterations"),
    ("matmul_sliced_depth", "all @ k: mark stages 3", (1, 256), HONOURED),
    ("matmul_two_stages", "all @ k: mark block 2", (1, 256), "no use for block on k"),
    ("matmul_two_stages", "all @ i: mark tile 32", (1, 256), "no use for tile on i"),
    ("matmul_two_stages", "all @ k: split 4", (1, 256), "split by block, thread and tile"),
    ("matmul_two_stages", "all @ j: mark vector 4", (1, 256), "as wide as alignment and the tile allow"),
    ("matmul_two_stages", "all @ k: mark unroll 2", (1, 256), "always written out"),
    ("matmul_two_stages", "all @ j: mark warp 4", (1, 256), "share a tile, not a column"),
    ("matmul_two_stages", "all @ k: mark lane 16", (1, 256), "share a tile, not a row"),
]  # fmt: skip


@pytest.mark.few(24)
@needs_compiler
@pytest.mark.parametrize(("name", "wish", "launch", "reason"), TABLE, ids=[f"{k}: {e}" for k, e, *_ in TABLE])
def test_marks(name: str, wish: str, launch: tuple[int, int], reason: str, tmp_path: Path) -> None:
    group = kernel_of(name, tmp_path).group
    lines = [line for line in (BASE.get(name), wish) if line]
    kernel = advised(group, *lines)
    assert (kernel.source.grid[0], kernel.source.block[0]) == launch
    verdict = next(v for v in kernel.verdicts if v.placed.path[-1] == len(lines) - 1)
    assert str(verdict.placed.entry) == wish
    assert verdict.outcome == ("relaxed" if reason else "honoured"), verdict.because
    assert reason in verdict.because
    assert engine.check(kernel).status == "pass"


def advised(group: engine.FusionGroup, *lines: str) -> engine.Kernel:
    """The kernel under these entries and nothing else."""
    plain = engine.default_recipe(group).with_group(group.name, ())
    text = "".join(f"  {line}\n" for line in lines)
    return engine.compile(group, engine.merge_advice(plain, group, "advice user\n" + text))


def loops(kernel: engine.Kernel) -> list[tuple[str, int, bool]]:
    """(name, extent, whether it is written out) of the loops over loads."""
    found = [op for op in operations(kernel.tile.body) if isinstance(op, For) and op.name != "v"]
    return list(dict.fromkeys((op.name, op.extent, op.unroll) for op in found))


# Splits are loops


@needs_compiler
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["all @ j: split 16", "all @ j: mark vector 4"], [("j_step", 4, True)]),
        (["all @ j: split 16", "all @ j: mark vector 4", "all @ j: mark unroll 1"], [("j_step", 4, False)]),
        (["all @ j: split 16"], [("j_step", 16, False)]),
        (["all @ j: split 16", "all @ j: mark unroll 16"], [("j_step", 16, True)]),
        (["all @ i: split 3", "all @ j: mark vector 4"], [("i_step", 3, True)]),
        (["all @ i: split 3", "all @ j: split 2"], [("i_step", 3, True), ("j_step", 2, True)]),
        (["all @ j: split 4", "all @ j: mark vector 4"], []),
    ],
    ids=["vectors", "rolled", "elements", "written out", "another dimension", "two dimensions", "one vector"],
)
def test_a_split_is_a_loop_of_a_thread(
    lines: list[str], expected: list[tuple[str, int, bool]], tmp_path: Path
) -> None:
    kernel = advised(adding(tmp_path, (12, 64)), *lines)
    assert loops(kernel) == expected
    assert {v.outcome for v in kernel.verdicts} == {"honoured"}
    assert engine.check(kernel).status == "pass"


@needs_compiler
def test_a_split_of_a_reduced_loop_is_a_loop_over_strips(tmp_path: Path) -> None:
    group = kernel_of("column_sum", tmp_path).group
    assert loops(advised(group, "all @ j: mark warp 4"))[0] == ("chunk", 18, True)
    split = advised(group, "all @ j: mark warp 4", "all @ j: split 16")
    assert loops(split)[:2] == [("strip", 5, False), ("chunk_of_strip", 4, True)]
    assert engine.check(split).status == "pass"


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "width", "text"),
    [((4, 5, 7), 4, "x.load<4>(element)"), ((6, 10), 4, "x.load<4>(element)"), ((3, 5), 1, "x.load(i * 5 + j)")],
    ids=["over three loops", "over two loops", "odd"],
)
def test_vectors_go_over_the_ends_of_rows(shape: tuple[int, ...], width: int, text: str, tmp_path: Path) -> None:
    kernel = advised(adding(tmp_path, shape, bias=True), "all @ innermost: mark vector 4")
    assert kernel.tile.constants["VECTOR"] == width
    assert text in kernel.source.text
    assert engine.check(kernel).status == "pass"


@needs_compiler
def test_every_read_across_the_write_has_a_tile(tmp_path: Path) -> None:
    nodes = [
        ("Transpose", ["x"], ["a"], {}), ("Transpose", ["y"], ["b"], {}), ("Add", ["a", "b"], ["s"], {}),
        ("Mul", ["s", "w"], ["z"], {}),
    ]  # fmt: skip
    inputs = {"x": ("float32", (70, 40)), "y": ("float32", (70, 40)), "w": ("float32", (40, 70))}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "t.onnx", nodes, inputs, ["z"]))).groups
    kernel = engine.compile(group)
    tiles = [b.name for b in kernel.tile.buffers.values() if b.scope == "shared"]
    assert tiles == ["x_tile", "y_tile"]
    check = engine.check(kernel)
    assert check.status == "pass"
    sectors = sum(c.sectors for c in check.counts if c.kind == "global load")
    assert sectors <= 1.1 * 3 * 70 * 40 * 4 / 32, check.counts
