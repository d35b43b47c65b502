"""Loops of stitched kernels: whole where results stay in registers, longer ones so many iterations at a time."""

from __future__ import annotations

import re

import pytest

import engine
from engine.kernels.marks import WRITTEN_OUT
from engine.kernels.stitched import placement
from engine.kernels.stitched.placement import MOST_ITERATIONS, PlacementPlan
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import For, operations
from tests.kernels.stitched_programs import checked, group_norm, kernel_of, pooled_attention, turned
from tests.support.needs import needs_compiler


def with_threads(source: TensorProgram, threads: int) -> engine.Kernel:
    """The kernel of one point to a block."""
    wishes = [engine.entry(mark=("thread", threads), at="outermost"), engine.entry(mark=("block", 1), at="outermost")]
    kernel = kernel_of(source, *wishes)
    assert (kernel.family, kernel.source.block[0]) == ("stitched", threads)
    return kernel


def loops(kernel: engine.Kernel) -> list[tuple[str, int, bool | int]]:
    """(name, extent, how it is written out) of the loops over points and over chunks of a reduction."""
    found = [op for op in operations(kernel.tile.body) if isinstance(op, For) and op.name in ("step", "chunk")]
    return [(op.name, op.extent, op.unroll) for op in found]


def indexed_by_loops(kernel: engine.Kernel) -> set[str]:
    """Registers whose number a loop says that is left: local memory, to a GPU."""
    lines, found = kernel.source.text.splitlines(), set()
    for n, line in enumerate(lines):
        head = re.match(r"(\s*)for \(int (\w+) = ", line)
        if head is None or lines[n - 1].strip() == "#pragma unroll":
            continue
        end = next(m for m in range(n + 1, len(lines)) if lines[m].startswith(head[1] + "}"))
        found |= set(re.findall(rf"(\w+)\[[^\]]*\b{head[2]}\b", "\n".join(lines[n:end])))
    return found


KEPT = pooled_attention(8, 32, 64)
"""A row of 64 to each of 32 kept points: a warp has the maximum of 8 or 16 points, of which the next part reads all."""


@needs_compiler
@pytest.mark.parametrize(("threads", "is_held"), [(64, True), (32, False)])
def test_results_that_stay_in_registers_have_their_loop_written_out_whole(threads: int, is_held: bool) -> None:
    """Those of more iterations than are written out go through shared memory: their loads would fill the registers."""
    kernel = with_threads(KEPT, threads)
    schemes = {kernel.tile.schemes[name][0] for name in ("S0", "S1") if name in kernel.tile.schemes}
    assert schemes == {"shared"} if not is_held else schemes <= {"shuffle", "register"}
    assert ({how for name, _, how in loops(kernel) if name == "step"} == {True}) == is_held
    assert indexed_by_loops(kernel) == set()
    assert checked(kernel).status == "pass"


def test_a_loop_that_is_left_would_index_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above looks for is there where such loops are left."""
    monkeypatch.setattr(PlacementPlan, "written_out", lambda plan, number, inputs: (4, 4))
    assert {"m_2", "s_2"} <= indexed_by_loops(with_threads(KEPT, 64))


@needs_compiler
@pytest.mark.parametrize(
    ("source", "threads", "expected"),
    [
        (pooled_attention(4, 200, 64), 32, {("step", 100, WRITTEN_OUT), ("chunk", 100, WRITTEN_OUT)}),
        (pooled_attention(4, 20, 4096), 64, {("step", 10, False), ("chunk", 32, WRITTEN_OUT), ("step", 16, False),
                                             ("chunk", 20, WRITTEN_OUT)}),
        (turned(6, 48), 32, {("step", 18, WRITTEN_OUT)}),
        (turned(6, 48), 128, {("step", 5, True)}),
        (group_norm(), 32, {("step", 3, True), ("chunk", 3, True)}),
    ],
    ids=["long", "long rows", "element-wise", "short", "short rows"],
)  # fmt: skip
def test_longer_loops_are_written_out_so_many_at_a_time(
    source: TensorProgram, threads: int, expected: set[tuple[str, int, bool | int]]
) -> None:
    """Those of the reduced points first: a loop around a long one is a loop."""
    kernel = with_threads(source, threads)
    assert set(loops(kernel)) == expected
    longest = max((extent for _, extent, how in expected if how is not True), default=0)
    assert longest == 0 or f"#pragma unroll {WRITTEN_OUT}" in kernel.source.text
    assert indexed_by_loops(kernel) == set()
    assert checked(kernel).status == "pass"


def test_turns_are_those_of_iterations_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 iterations, 8 at a time, are 13 waits; one at a time they would be 100."""
    source = pooled_attention(4, 200, 64)
    assert with_threads(source, 32).facts.serial_steps == -(-100 // WRITTEN_OUT)
    monkeypatch.setattr(placement, "WRITTEN_OUT", 1)
    assert with_threads(source, 32).facts.serial_steps == 100


def test_what_is_too_long_for_registers_goes_through_memory() -> None:
    """More iterations than are ever written out hold nothing in registers."""
    kernel = with_threads(pooled_attention(4, 200, 64), 32)
    assert max(extent for _, extent, _ in loops(kernel)) > MOST_ITERATIONS
    held = [b for b in kernel.tile.buffers.values() if b.scope == "register" and b.elements > 4]
    assert held == []
