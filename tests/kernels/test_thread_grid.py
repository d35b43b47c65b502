"""Lanes of products on CUDA cores: who owns which part of a tile, right results, and passes over shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import engine
from engine.kernels.gemm.passes import exchange_passes, fragment_passes
from engine.kernels.gemm.thread_grid import Bind, ThreadGrid
from engine.target.hardware import PASS_BYTES, WARP
from engine.tensor.index import Extents, Index
from engine.tile.addresses import Lanes, conflicts_of, evaluate, passes_of
from engine.tile.nodes import THREAD
from tests.benchmarks.work import Row, compare
from tests.benchmarks.work_walk import PASSES
from tests.kernels.test_gemm_work import assert_same_work
from tests.kernels.test_marks import advised
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

TILE = ("all @ i: mark block 16", "all @ j: mark block 64", "all @ i: mark thread 2", "all @ j: mark thread 4")
"""A tile of 8 x 16 threads: lanes lie as 4 x 8."""
SMALL = (
    "all @ i: mark block 16", "all @ j: mark block 16", "all @ i: mark thread 8", "all @ j: mark thread 8",
    "all @ k: mark tile 64", "all @ k: mark slices 8",
)  # fmt: skip
"""A tile of 2 x 2 threads: eight slices are a warp, and meet in the banks."""


class Case(NamedTuple):
    """A product, and what follows it."""

    name: str
    first: tuple[int, ...]
    second: tuple[int, ...]
    lines: tuple[str, ...] = TILE
    kind: str = "MatMul"
    attributes: Mapping[str, object] = {}
    after: str = ""
    """An operator; "" for none."""


CASES = [
    Case("whole tiles", (32, 32), (32, 64)),
    Case("ragged", (37, 45), (45, 83)),
    Case("batched", (3, 17, 24), (3, 24, 66), ()),
    Case("transposed first", (24, 40), (24, 64), TILE, "Gemm", {"transA": 1}),
    Case("transposed second", (32, 24), (72, 24), TILE, "Gemm", {"transB": 1}),
    Case("both transposed, ragged", (25, 33), (67, 25), TILE, "Gemm", {"transA": 1, "transB": 1}),
    Case("slices", (32, 64), (64, 64), (*TILE, "all @ k: mark tile 32", "all @ k: mark slices 4")),
    Case("slices within a warp", (32, 128), (128, 32), SMALL),
    Case("split-K", (32, 128), (128, 64), (*TILE, "all @ k: mark split_k 3")),
    Case("slices and split-K", (30, 128), (128, 62), (*TILE, "all @ k: mark slices 2", "all @ k: mark split_k 2")),
    Case("rows reduced", (24, 32), (32, 60), (), after="Softmax"),
    Case("rows reduced by two warps", (24, 32), (32, 256), ("all @ j: mark thread 4",), after="Softmax"),
    Case("few columns", (64, 32), (32, 6), ()),
    Case("activation", (48, 32), (32, 64), after="Relu"),
    Case("convolution", (2, 8, 12, 12), (16, 8, 3, 3), (), "Conv", {"pads": [1, 1, 1, 1]}),
    Case("convolution with steps", (1, 6, 17, 19), (40, 6, 3, 3), (), "Conv", {"strides": [2, 2]}),
]


def slots(grid: ThreadGrid) -> list[Lanes]:
    """Slice, part by rows and part by columns of every thread."""
    threads = np.arange(grid.threads)
    place = grid.place(lambda _, index: index, {THREAD: grid.threads})
    return [np.broadcast_to(evaluate(one, {THREAD: threads}), threads.shape) for one in (place.slice, *place.slots)]


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("has_whole_rows", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (8, 8), (8, 16), (16, 16), (4, 32), (3, 8), (4, 4), (12, 24)])
def test_every_part_of_a_tile_has_one_thread(rows: int, columns: int, has_whole_rows: bool, slices: int) -> None:
    owned = list(zip(*slots(ThreadGrid(rows, columns, slices, has_whole_rows)), strict=True))
    assert sorted(owned) == [(s, r, c) for s in range(slices) for r in range(rows) for c in range(columns)]


def test_lanes_of_a_warp_share_rows_and_columns_in_pairs() -> None:
    _, rows, columns = (part[:WARP] for part in slots(ThreadGrid(8, 16, 1, has_whole_rows=False)))
    lanes = np.arange(WARP)
    assert set(rows) == set(range(4)) and set(columns) == set(range(8))
    assert (rows == rows[lanes ^ 2]).all() and (columns == columns[lanes ^ 1]).all()


def test_lanes_whose_results_are_reduced_are_neighbours() -> None:
    _, rows, columns = slots(ThreadGrid(8, 16, 1, has_whole_rows=True))
    assert rows[:WARP].tolist() == [0] * 16 + [1] * 16 and columns[:16].tolist() == list(range(16))


LANES = np.arange(WARP)


@pytest.mark.parametrize(
    ("addresses", "width", "passes"),
    [
        (LANES * 4, 4, 1), (LANES * 8, 4, 2), (LANES * 0, 4, 1),
        (LANES * 8, 8, 2), (LANES // 2 * 8, 8, 1),
        (LANES * 16, 16, 4), (LANES * 0, 16, 2), (LANES // 2 * 16, 16, 2), (LANES // 8 * 16, 16, 2),
        (LANES // 4 * 32 + LANES % 2 * 16, 16, 2),  # n and n ^ 2
        (LANES % 8 * 16, 16, 4),  # n and n ^ 8 share a place, neighbours do not
        (LANES // 2 * 128, 16, 16),  # all in the same banks
    ],
)  # fmt: skip
def test_lanes_that_read_in_pairs_are_served_twice_as_many_at_once(addresses: Lanes, width: int, passes: int) -> None:
    assert passes_of(addresses, np.ones(WARP, bool), width) == passes


def test_lanes_that_take_no_part_share_with_nobody_and_keep_nobody_from_it() -> None:
    assert passes_of(LANES // 4 * 16, LANES % 2 == 0, 16) == 1


def kernel_of(case: Case, folder: Path) -> engine.Kernel:
    """On CUDA cores, with what follows the product."""
    nodes: list[Node] = [(case.kind, ["a", "b"], ["sums" if case.after else "y"], dict(case.attributes))]
    if case.after:
        nodes.append((case.after, ["sums"], ["y"], {}))
    inputs = {"a": ("float32", case.first), "b": ("float32", case.second)}
    groups = engine.fuse(engine.load(write_model(folder / "product.onnx", nodes, inputs, ["y"]))).groups
    return advised(next(group for group in groups if group.kind == "contraction"), *case.lines)


def comparison(kernel: engine.Kernel) -> Row:
    """`Work` beside the emulator's counts."""
    row = compare(kernel)
    assert isinstance(row, Row), row
    return row


@needs_compiler
@pytest.mark.few(6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products_are_right_and_pass_shared_memory_as_often_as_work_says(case: Case, tmp_path: Path) -> None:
    kernel = kernel_of(case, tmp_path)
    assert not kernel.tile.intrinsic and kernel.facts.shared_passes
    assert all(verdict.outcome == "honoured" for verdict in kernel.verdicts), [str(v) for v in kernel.verdicts]
    assert engine.check(kernel).status == "pass"
    row = comparison(kernel)
    assert row.work[PASSES] == row.counted[PASSES] and not row.left


@needs_compiler
@needs_nvrtc
@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products_are_right_as_ptx(case: Case, tmp_path: Path) -> None:
    found = engine.check(kernel_of(case, tmp_path), level="ptx")
    assert found.status == "pass", found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_promised_is_what_kernels_have(case: Case, tmp_path: Path) -> None:
    assert assert_same_work(kernel_of(case, tmp_path))


# What must not go unseen


def in_turn(number: Index, across: int, bind: Bind, extents: Extents) -> tuple[Index, Index]:
    """A wrong map: lanes 8 apart have the same part."""
    column = number.floordiv(32, extents).mod(across, extents) * 8 + number.mod(8, extents)
    return number.floordiv(32 * across, extents) * 4, column


@pytest.fixture
def wrong_map(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("engine.kernels.gemm.thread_grid._block_place", in_turn)
    yield
    for kept in (fragment_passes, exchange_passes):
        kept.cache_clear()


@pytest.mark.usefixtures("wrong_map")
def test_a_part_that_two_threads_have_is_seen() -> None:
    with pytest.raises(AssertionError):
        test_every_part_of_a_tile_has_one_thread(8, 16, False, 1)


@needs_compiler
@pytest.mark.usefixtures("wrong_map")
def test_a_part_that_no_thread_has_is_a_wrong_result(tmp_path: Path) -> None:
    assert engine.check(kernel_of(CASES[0], tmp_path)).status == "fail"


@needs_compiler
def test_passes_by_another_rule_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(addresses: Lanes, active: np.ndarray, width: int) -> Lanes:
        """As if lanes that read in pairs were served like others."""
        return -(-active.sum(axis=-1) * width // PASS_BYTES) + conflicts_of(addresses, active, width)

    monkeypatch.setattr("engine.tile.work.passes_of", alone)
    row = comparison(kernel_of(CASES[0], tmp_path))
    assert [name for name in row.work if row.work[name] != row.counted[name]] == [PASSES]


def test_lanes_in_rows_pass_more_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = kernel_of(CASES[0], tmp_path).facts
    monkeypatch.setattr(ThreadGrid, "is_blocked", False)
    in_rows = kernel_of(CASES[0], tmp_path).facts
    assert in_rows.shared_bytes_loaded == blocked.shared_bytes_loaded
    assert in_rows.shared_passes > blocked.shared_passes
