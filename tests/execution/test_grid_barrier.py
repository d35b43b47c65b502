"""Kernels whose blocks wait for each other, in both emulators: right ones pass, and planted faults are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS, Emulation, Finding
from engine.execution.nvrtc import compile_ptx
from engine.execution.ptx.execute import execute
from engine.tile.source import CudaSource, KernelLaunch
from engine.verify.levels import LINE_TABLE
from tests.execution.written_kernels import Written, grid_steps
from tests.support.needs import needs_compiler, needs_nvrtc

Arrays = Mapping[str, np.ndarray]
Outcome = tuple[Emulation, dict[str, np.ndarray], dict[str, np.ndarray]]
Run = Callable[[CudaSource, Arrays, str], Outcome]


def run_text(source: CudaSource, arrays: Arrays, order: str) -> Outcome:
    return emulate(source, arrays, order=order, timeout=20)


def run_compiled(source: CudaSource, arrays: Arrays, order: str) -> Outcome:
    return execute(source, ptx_of(source), arrays, order=order, timeout=20)


def ptx_of(source: CudaSource, architecture: str = "sm_80") -> str:
    return compile_ptx(source.text, architecture, LINE_TABLE)


RUNS = pytest.mark.parametrize(
    "run", [pytest.param(run_text, marks=needs_compiler), pytest.param(run_compiled, marks=needs_nvrtc)]
)
IN_ORDERS = pytest.mark.parametrize("order", ORDERS)


def assert_right(kernel: Written, outcome: Outcome) -> None:
    emulation, outputs, masks = outcome
    assert emulation.findings == ()
    assert emulation.blocks_run == kernel.source.blocks
    assert masks["y"].all()
    np.testing.assert_allclose(outputs["y"], kernel.expected, kernel.tolerance, kernel.tolerance)


def twice(kernel: Written) -> Written:
    """Launched a second time on the same workspaces: the counter has to be zero again."""
    s = kernel.source
    again = KernelLaunch(s.entry, s.grid, s.block, s.shared_bytes, resident=1)
    return replace(kernel, source=replace(s, later=(again,)))


@IN_ORDERS
@RUNS
def test_every_block_sees_what_the_others_stored(run: Run, order: str) -> None:
    kernel = grid_steps()
    assert_right(kernel, run(kernel.source, kernel.inputs, order))


@IN_ORDERS
@RUNS
def test_the_counter_is_zero_for_the_next_launch(run: Run, order: str) -> None:
    kernel = twice(grid_steps())
    assert_right(kernel, run(kernel.source, kernel.inputs, order))
    longer = kernel.with_text("0, step + 1, STEPS)", "0, step + 1, STEPS + 1)")
    findings = run(longer.source, kernel.inputs, order)[0].findings
    assert findings and findings[-1].kind in ("race", "unfinished team"), findings


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_it_is_right_as_compiled_for_each_architecture(architecture: str) -> None:
    kernel = grid_steps()
    assert_right(kernel, execute(kernel.source, ptx_of(kernel.source, architecture), kernel.inputs))


@IN_ORDERS
@RUNS
def test_blocks_that_come_later_are_waited_for(run: Run, order: str) -> None:
    """A block that does more before it comes, so that the others are at the barrier, or asleep, before it."""
    slow = "if (blockIdx.x == 2) { float more = 0.0f; for (int n = 0; n < 9; ++n) { barrier(); more += x.load(n); }"
    slow += " parts.store(i, more > 1e30f ? more : x.load(i)); barrier(); } else parts.store(i, x.load(i));"
    kernel = grid_steps().with_text("parts.store(i, x.load(i));", slow)
    assert_right(kernel, run(kernel.source, kernel.inputs, order))


def fetching_ahead() -> Written:
    """x comes by an asynchronous copy that is under way while the blocks meet."""
    kernel = grid_steps().with_text("LOOM_SHARED(THREADS * 4)", "LOOM_SHARED(THREADS * 8)")
    kernel = kernel.with_text("  const int thread =", "  const Shared<float> ahead(shared_memory + 256, THREADS);\n"
                              "  const int thread =")  # fmt: skip
    fetch = "  async_copy<4>(ahead, thread, x, (i + THREADS) % ELEMENTS, 1);\n  async_commit();\n"
    kernel = kernel.with_text("  read_so_far.store(THREADS", fetch + "  read_so_far.store(THREADS")
    arrive = "if (step == 0) async_wait<0>();\n    "
    take = "step == 0 ? ahead.load(thread) : parts.load(before + (i + THREADS) % ELEMENTS)"
    kernel = kernel.with_text("const float other = parts.load(before + (i + THREADS) % ELEMENTS)",
                              f"{arrive}const float other = {take}")  # fmt: skip
    return replace(kernel, source=replace(kernel.source, shared_bytes=512))


@IN_ORDERS
@RUNS
def test_a_copy_is_under_way_while_blocks_meet(run: Run, order: str) -> None:
    kernel = fetching_ahead()
    assert_right(kernel, run(kernel.source, kernel.inputs, order))
    early = kernel.with_text("if (step == 0) async_wait<0>();", "if (step == STEPS - 1) async_wait<0>();")
    findings = run(early.source, kernel.inputs, order)[0].findings
    if run is run_text:
        assert "unfinished copy" in {one.kind for one in findings}
    elif order == "late":
        assert "uninitialised" in {one.kind for one in findings}


@RUNS
def test_a_part_of_the_blocks_cannot_run_alone(run: Run) -> None:
    kernel = grid_steps()
    for blocks in ([0], [5, 1]):
        if run is run_text:
            outcome = emulate(kernel.source, kernel.inputs, blocks=blocks)
        else:
            outcome = execute(kernel.source, ptx_of(kernel.source), kernel.inputs, blocks=blocks)
        assert_right(kernel, outcome)


def many_blocks() -> Written:
    """512 blocks of 256 threads: all their stacks and their shared memory are there at once."""
    kernel, elements = grid_steps(), 512 * 256
    for old, new in (("THREADS = 64", "THREADS = 256"), ("ELEMENTS = 384", f"ELEMENTS = {elements}"),
                     ("STEPS = 5", "STEPS = 3"), ("n += 37", "n += 131071")):  # fmt: skip
        kernel = kernel.with_text(old, new)
    x = np.random.default_rng(7).standard_normal(elements, np.float32)
    now, read = x.astype(np.float64), np.zeros(elements)
    for _ in range(3):
        other = np.roll(now, -256)
        read += other
        now = other / 2 + now[::131071].sum() / 8 + read / 16
    s = kernel.source
    source = replace(
        s, grid=(512, 1, 1), block=(256, 1, 1), shared_bytes=1024,
        buffers=tuple(replace(b, elements=elements) for b in s.buffers),
        workspaces=(replace(s.workspaces[0], elements=2 * elements), s.workspaces[1]),
    )  # fmt: skip
    return replace(kernel, source=source, inputs={"x": x}, expected=now.astype(np.float32))


@RUNS
def test_many_blocks_wait_at_once(run: Run) -> None:
    kernel = many_blocks()
    assert_right(kernel, run(kernel.source, kernel.inputs, "late"))


@needs_compiler
def test_accesses_are_counted_in_every_step() -> None:
    kernel = grid_steps()
    counts = {c.line: c for c in emulate(kernel.source, kernel.inputs)[0].counts}
    # 12 warps, 5 steps.
    kept = counts[kernel.line_of("const float read = ")]
    assert (kept.kind, kept.requests, kept.conflicts) == ("shared load", 60, 0)
    other = counts[kernel.line_of("const float other = ")]
    assert (other.kind, other.requests, other.sectors) == ("global load", 60, 60 * 4)


MEETING = "    grid_barrier(arrivals, 0, step + 1, STEPS);  // of a step"
# What stands for the meeting, the kinds of which one is found as text, and as compiled.
FAULTS: dict[str, tuple[str, set[str], set[str]]] = {
    "no meeting in one step": (
        "if (step != 2) grid_barrier(arrivals, 0, step < 2 ? step + 1 : step, STEPS - 1); else barrier();",
        {"race"}, {"race"}),
    "a meeting of the block alone": ("barrier();", {"race"}, {"race"}),
    "one block does not come": ("if (step != 2 || blockIdx.x != 3) grid_barrier(arrivals, 0, step + 1, STEPS);",
                                {"hang"}, {"race", "hang"}),
    "one block ends": ("if (step == 2 && blockIdx.x == 3) return;\n" + MEETING, {"hang"}, {"hang"}),
    "one block does not come to the last": (
        "if (step != 4 || blockIdx.x != 3) grid_barrier(arrivals, 0, step + 1, STEPS);", {"hang"}, {"race", "hang"}),
    "some threads do not come": ("if (thread < 32) grid_barrier(arrivals, 0, step + 1, STEPS);",
                                 {"divergent barrier"}, {"race", "uninitialised", "divergent barrier"}),
    "threads meet at two places": (
        "if (thread < 32) grid_barrier(arrivals, 0, step + 1, STEPS);\n"
        "    else grid_barrier(arrivals, 0, step + 1, STEPS);", {"divergent barrier"}, {"divergent barrier"}),
    "a thread has ended": ("if (step == 1 && thread == 40) return;\n" + MEETING, {"divergent barrier"},
                           {"divergent barrier"}),
    "a number too high": ("grid_barrier(arrivals, 0, step + 2, STEPS + 1);", {"hang"}, {"hang"}),
    "meetings after the last": ("grid_barrier(arrivals, 0, step + 1, STEPS - 1);", {"race"},
                                {"hang", "unfinished team"}),
    "a counter beyond the workspace": ("grid_barrier(arrivals, 1, step + 1, STEPS);", {"out of bounds"},
                                       {"out of bounds"}),
    "a number too low": ("grid_barrier(arrivals, 0, step, STEPS);", {"race"}, {"race", "uninitialised"}),
    "the same number": ("grid_barrier(arrivals, 0, 1, STEPS);", {"race"}, {"race"}),
}  # fmt: skip
def planted(fault: str) -> Written:
    return grid_steps().with_text(MEETING, FAULTS[fault][0])


def assert_found(findings: tuple[Finding, ...], kinds: set[str], text: str) -> None:
    assert kinds & {one.kind for one in findings}, findings
    assert all(0 < one.line <= len(text.splitlines()) for one in findings if one.kind != "unfinished team")


@needs_compiler
@IN_ORDERS
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_text_are_found(fault: str, order: str) -> None:
    kernel = planted(fault)
    emulation = run_text(kernel.source, kernel.inputs, order)[0]
    assert_found(emulation.findings, FAULTS[fault][1], kernel.source.text)
    assert "crash" not in {one.kind for one in emulation.findings}


@needs_nvrtc
@IN_ORDERS
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_compiled_text_are_found(fault: str, order: str) -> None:
    kernel = planted(fault)
    assert_found(run_compiled(kernel.source, kernel.inputs, order)[0].findings, FAULTS[fault][2], kernel.source.text)


@needs_compiler
@IN_ORDERS
def test_one_buffer_for_all_steps_is_overwritten_too_early(order: str) -> None:
    kernel = grid_steps().with_text("const int after = (step + 1) % 2 * ELEMENTS;", "const int after = before;")
    findings = run_text(kernel.source, kernel.inputs, order)[0].findings
    assert {one.kind for one in findings if one.other_line} == {"race"}


@needs_nvrtc
@IN_ORDERS
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_fence_that_is_missing_is_a_race(place: str, order: str) -> None:
    """The fences of the first meeting, or of those in the loop: each before the counter moves, or after."""
    kernel = grid_steps()
    good = ptx_of(kernel.source)
    pairs = list(re.finditer(r"membar\.gl;", good))
    assert len(pairs) == 2
    gone = pairs[place == "after"]
    text = good[: gone.start()] + good[gone.end() :]
    emulation = execute(kernel.source, text, kernel.inputs, order=order)[0]
    (finding,) = emulation.findings
    assert finding.kind == "race" and "fence" in finding.message


@needs_nvrtc
@IN_ORDERS
@pytest.mark.parametrize("number", [0, 1])
def test_a_block_barrier_that_is_missing_is_found(number: int, order: str) -> None:
    """Those of the meeting itself: the counter moves before all have fenced, or threads go on before it has moved."""
    kernel = grid_steps()
    good = ptx_of(kernel.source)
    barriers = list(re.finditer(r"bar\.sync \t?0;", good))
    gone = barriers[number]
    text = good[: gone.start()] + good[gone.end() :]
    emulation, outputs, _ = execute(kernel.source, text, kernel.inputs, order=order)
    wrong = not np.allclose(outputs["y"], kernel.expected, kernel.tolerance, kernel.tolerance)
    assert emulation.findings or wrong
