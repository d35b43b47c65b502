"""Stitched kernels: schemes follow from the mappings, kernels agree with NumPy, planted faults are caught."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda
from engine.kernels.stitched.walk import shared_out
from engine.scheduling.nodes import HONOURED, RELAXED
from engine.tensor.evaluate import evaluate
from engine.tile.arena import assign_offsets
from engine.tile.check import check_tile
from engine.tile.hazards import hazards
from engine.tile.nodes import Barrier, TileOp, TileProgram
from engine.tile.storage import shared_map
from tests.graph.models import model, node, save
from tests.kernels.stitched_programs import (
    RandomBlocks,
    chain_of_turns,
    checked,
    group_norm,
    kernel_of,
    long_rows,
    pooled_attention,
    turned,
    values_of,
)
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.programs import apply, at, layernorm, program, statement

ARCHITECTURES = ("sm_80", "sm_90a")


def schemes(kernel: engine.Kernel) -> dict[str, str]:
    return {statement: scheme for statement, (scheme, _) in kernel.tile.schemes.items()}


def test_schemes_follow_from_the_mappings() -> None:
    kernel = kernel_of(pooled_attention(8, 20, 40))
    assert schemes(kernel) == {
        "S0": "shuffle", "S1": "register", "S2": "shuffle", "S3": "shared", "S4": "register",
    }  # fmt: skip
    because = kernel.tile.schemes["S3"][1]
    assert because == "made walking (j | k), read walking (k | j): in other threads"


@needs_compiler
def test_walks_that_meet_at_every_point_need_no_shared_memory() -> None:
    """Rows of 8 threads with 4 elements each, then columns of the same threads."""
    kernel = kernel_of(pooled_attention(8, 16, 32))
    assert schemes(kernel)["S3"] == "register"
    assert checked(kernel).status == "pass"


def test_every_scheme_is_an_entry_with_its_reason() -> None:
    kernel = kernel_of(pooled_attention(8, 20, 40))
    mine = [v for v in kernel.verdicts if v.placed.author == "stitch"]
    scopes = {v.placed.entry.statements[0]: v.placed.entry.value[1] for v in mine if v.placed.entry.value[0] == "scope"}
    assert scopes == schemes(kernel)
    assert {v.outcome for v in mine} == {HONOURED}
    assert all(v.placed.entry.because for v in mine)


@needs_compiler
def test_a_user_has_values_shared_or_computed_again() -> None:
    kernel = kernel_of(
        pooled_attention(8, 20, 40),
        engine.entry("S0", mark=("scope", "shared"), at="innermost"),
        engine.entry("S3", mark=("scope", "recompute"), at="innermost"),
    )
    assert schemes(kernel)["S0"] == "shared"
    assert schemes(kernel)["S3"] == "recompute"
    assert checked(kernel).status == "pass"


def test_a_register_that_another_thread_needs_is_not_granted() -> None:
    wish = engine.entry("S3", mark=("scope", "register"), at="innermost")
    kernel = kernel_of(pooled_attention(8, 20, 40), wish)
    verdict = next(v for v in kernel.verdicts if v.placed.author == "user")
    assert verdict.outcome == RELAXED
    assert "in other threads" in verdict.because


@needs_compiler
@pytest.mark.parametrize("sizes", [(8, 16, 32), (3, 5, 7), (2, 33, 130), (4, 100, 3), (999, 3, 130), (2, 300, 17)])
def test_ragged_sizes(sizes: tuple[int, int, int]) -> None:
    found = checked(kernel_of(pooled_attention(*sizes)))
    assert found.status == "pass", found.message


@needs_compiler
def test_loops_of_one_name_and_other_ends_are_apart() -> None:
    """Two boxes that end with the same dimension: the threads past the end of one are not those of the other."""
    first, second = [("b", 2), ("p", 2), ("o", 3)], [("b", 2), ("n", 3), ("o", 3)]
    source = program(
        "ends",
        {"x": (2, 2, 3), "t": (2, 2, 3), "z": (2, 3, 3), "y": (2, 3, 3)},
        [
            statement("S0", first, at("t", "b", "p", "o"), apply("exp", at("x", "b", "p", "o"))),
            statement(
                "S1", second, at("y", "b", "n", "o"), apply("mul", at("t", "b", 0, "o"), at("z", "b", "n", "o"))
            ),
        ],
        "y t",
    )  # fmt: skip
    found = checked(kernel_of(source))
    assert found.status == "pass", found.message


@needs_compiler
@pytest.mark.parametrize("size", [7, 24, 64])
def test_elements_of_other_threads_go_through_shared_memory(size: int) -> None:
    kernel = kernel_of(turned(size=size))
    assert schemes(kernel) == {"S0": "shared"}
    assert checked(kernel).status == "pass"


@needs_compiler
@pytest.mark.parametrize("size", [6, 14, 32])
def test_guards_of_staged_values_may_change_inside_a_vector(size: int, tmp_path: Path) -> None:
    """What a border reflects is read behind guards that hold for one lane and not for its neighbour."""
    pool = node("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2])
    border = node("Pad", "p pads", "y", mode="reflect")
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    graph = engine.load(save(tmp_path / "border.onnx", model([pool, border], {"x": [1, 4, size, size]}, ["y"], pads)))
    (group,) = engine.fuse(graph).groups
    kernel = engine.compile(group)
    assert {"y_padded2_block"} <= {b.name for b in kernel.tile.buffers.values() if b.scope == "shared"}
    assert engine.check(kernel).status == "pass"


@needs_compiler
@pytest.mark.parametrize("sizes", [(2, 4, 3, 5), (1, 32, 8, 16), (3, 1, 6, 4)])
def test_a_group_norm_is_one_kernel(sizes: tuple[int, int, int, int]) -> None:
    """Channels are cut in groups and their members; a block stages its group's channels alone."""
    kernel = kernel_of(group_norm(*sizes))
    images, groups, each, size = sizes
    assert kernel.source.grid[0] == images * groups
    assert kernel.tile.buffers["x_block"].elements == each * size * size
    assert checked(kernel).status == "pass"


@pytest.mark.few(8)
@needs_compiler
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_are_exact(seed: int) -> None:
    found = checked(kernel_of(RandomBlocks(seed).program()), seed, whole=True)
    assert found.status == "pass", found.message
    assert found.max_error == 0


@needs_compiler
@pytest.mark.parametrize("threads", [32, 128, 1024])
@pytest.mark.parametrize("points", [1, 4])
def test_any_block_gives_the_same(threads: int, points: int) -> None:
    kernel = kernel_of(
        pooled_attention(8, 12, 20),
        engine.entry(mark=("thread", threads), at="outermost"),
        engine.entry(mark=("block", points), at="outermost"),
    )
    assert kernel.source.block[0] == threads
    assert kernel.source.grid[0] == 8 // points
    assert checked(kernel).status == "pass"


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_spills(architecture: str) -> None:
    for source in (pooled_attention(64, 64, 128), turned(), long_rows()):
        compiled = compile_cuda(kernel_of(source).source.text, architecture)
        assert compiled.spill_bytes == 0


@needs_compiler
def test_rows_that_do_not_fit_are_computed_again() -> None:
    kernel = kernel_of(layernorm(2, 50_000))
    assert schemes(kernel)["S1"] == "recompute"
    assert kernel.source.shared_bytes < 8192
    assert checked(kernel).status == "pass"


@needs_compiler
def test_a_softmax_of_rows_that_do_not_fit_is_online() -> None:
    """One pass finds the maximum and the sum, the second one divides."""
    kernel = kernel_of(long_rows())
    (verdict,) = [v for v in kernel.verdicts if v.placed.entry.field == "rewrite"]
    assert (verdict.outcome, verdict.placed.author) == (HONOURED, "stitch")
    assert kernel.source.text.count("x.load") == 2
    assert checked(kernel).status == "pass"
    assert not [v for v in kernel_of(long_rows(2, 4096)).verdicts if v.placed.entry.field == "rewrite"]


@needs_compiler
@pytest.mark.parametrize("empty", ["some", "all"])
def test_a_sum_finds_the_largest_exponent_of_its_row_by_itself(empty: str) -> None:
    """The online rewrite, with exponents of no weight; a row of nothing else is no number."""
    kernel = kernel_of(long_rows(3, 5000), engine.entry("S2", rewrite="online"))
    assert any(s.reduction and s.reduction.operation == "shifted_sum" for s in kernel.program.statements)
    source = kernel.group.program
    x = values_of(source)["x"]
    x[1, : 4096 if empty == "some" else 5000] = -np.inf
    x[2, ::2] = -np.inf
    with np.errstate(invalid="ignore"):
        weights = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    expected = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    _, found, _ = emulate(kernel.source, {"x": x}, blocks=(0, 1, 2))
    np.testing.assert_allclose(found["y"].reshape(expected.shape), expected, rtol=2e-5, atol=1e-9)


@needs_compiler
def test_values_that_fit_nowhere_are_told_with_their_size_and_go_through_memory() -> None:
    kernel = kernel_of(turned(blocks=2, size=256))
    assert "would keep 262,144 bytes in shared memory (t 262,144 bytes)" in own_refusal(kernel).reason
    assert checked(kernel).status == "pass"


# Planted faults


def without_barrier(body: tuple[TileOp, ...], number: int) -> tuple[TileOp, ...]:
    """A body without its barrier of that number."""
    barriers = [n for n, op in enumerate(body) if isinstance(op, Barrier)]
    return tuple(op for n, op in enumerate(body) if n != barriers[number])


def test_every_missing_barrier_is_seen_before_there_is_text() -> None:
    tile = kernel_of(pooled_attention(8, 20, 40)).tile
    assert check_tile(tile) == ()
    count = sum(isinstance(op, Barrier) for op in tile.body)
    assert count == 2
    for number in range(count):
        faults = check_tile(replace(tile, body=without_barrier(tile.body, number)))
        assert len(faults) == 1
        assert "with no barrier after the stores to" in faults[0]


@needs_compiler
def test_a_missing_barrier_shows_when_the_kernel_runs() -> None:
    kernel = kernel_of(pooled_attention(8, 20, 40))
    text = re.sub(r"barrier\(\);", ";", kernel.source.text, count=1)
    found = checked(replace(kernel, source=replace(kernel.source, text=text)))
    assert found.status == "fail"
    assert {f.kind for f in found.findings} & {"race", "uninitialised"}


def test_scratch_that_is_used_again_too_early_is_seen() -> None:
    tile = kernel_of(long_rows()).tile
    shared = [b for b in tile.buffers.values() if b.scope == "shared"]
    assert len(shared) > 1
    same = {n: replace(b, offset=0) if b.scope == "shared" else b for n, b in tile.buffers.items()}
    faults = check_tile(replace(tile, buffers=same))
    assert any("at the same bytes" in fault for fault in faults)


@needs_compiler
def test_a_wrong_scheme_is_seen() -> None:
    """A register where another thread's value is needed: the element of the own point instead."""
    kernel = kernel_of(turned())
    text = re.sub(r"t_block\.load\([^)]*\)", "t_block.load(j * 24 + k)", kernel.source.text)
    assert text != kernel.source.text
    assert checked(replace(kernel, source=replace(kernel.source, text=text))).status == "fail"


# Room


def life(offsets: dict[str, int], tile: TileProgram) -> set[tuple[str, str]]:
    """Pairs of buffers that share bytes."""
    size = {n: tile.buffers[n].elements * 4 for n in offsets}
    return {
        (a, b) for a in offsets for b in offsets
        if a < b and offsets[a] < offsets[b] + size[b] and offsets[b] < offsets[a] + size[a]
    }  # fmt: skip


def test_bytes_are_used_again_when_nobody_needs_them_any_more() -> None:
    tile = kernel_of(chain_of_turns()).tile
    offsets, used = shared_map(tile.buffers)
    apart = shared_map({n: replace(b, offset=None) for n, b in tile.buffers.items()})[1]
    assert used < apart
    assert life(offsets, tile)
    assert not list(hazards(tile))
    assert assign_offsets(tile) == tile


@needs_compiler
def test_reused_bytes_hold_the_right_values() -> None:
    kernel = kernel_of(chain_of_turns())
    source = kernel.group.program
    assert checked(kernel).status == "pass"
    values = values_of(source)
    again = evaluate(source, {n: values[n] for n in source.inputs})
    assert all(np.array_equal(values[n], again[n]) for n in source.outputs)


def test_threads_share_reductions_as_far_as_they_are_long() -> None:
    few_long = shared_out([("i", 2)], [("j", 4096)], 256, by_row=True, vector=4)
    many_short = shared_out([("i", 512)], [("j", 8)], 256, by_row=True, vector=1)
    down = shared_out([("i", 64)], [("j", 1000)], 256, by_row=False, vector=1)
    assert (few_long.sharers, few_long.steps, few_long.chunks) == (128, 1, 8)
    assert (many_short.sharers, many_short.steps, many_short.chunks) == (8, 16, 1)
    assert (down.sharers, down.steps, down.chunks) == (4, 1, 250)
