"""The emulator: right kernels give right results without findings, planted faults are found at their line."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.execution.emulate.build import host_compiler
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS, Finding
from engine.execution.nvrtc import CompileError
from engine.support.errors import BadInput
from engine.tile.source import CudaSource, Parameter
from tests.execution.written_kernels import ALL, Written, block_reduction, matmul, transpose, vector_add, warp_softmax

pytestmark = pytest.mark.skipif(host_compiler() is None, reason="needs g++ or clang++")


def error_of(kernel: Written, outputs: dict[str, np.ndarray]) -> float:
    """Largest absolute error; infinite where the result is not a number."""
    got = outputs[kernel.output].astype(np.float64)
    difference = np.abs(got - kernel.expected.astype(np.float64).ravel())
    return float(np.where(np.isnan(difference), np.inf, difference).max())


def found(kernel: Written, order: str = "late") -> tuple[Finding, ...]:
    return emulate(kernel.source, kernel.inputs, order=order)[0].findings


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ALL)
def test_right_kernels_agree_with_numpy(name: str, order: str, checked: bool) -> None:
    kernel = ALL[name]()
    emulation, outputs, masks = emulate(kernel.source, kernel.inputs, order=order, checked=checked)
    assert emulation.findings == ()
    assert emulation.blocks_run == emulation.blocks_total
    assert error_of(kernel, outputs) <= kernel.tolerance
    if checked:
        assert masks[kernel.output].all()
    else:
        assert masks == {}


# Each planted fault: kernel, what is replaced, by what, the kind found, the text whose line the finding names (as its
# line or as the other access).
FAULTS = {
    "barrier removed before the tree": (
        block_reduction, "  barrier();\n  for", "  for", "race", "partial.store(column, value)"),
    "barrier removed inside the tree": (
        block_reduction, "barrier();  // of the tree", "", "race", "partial.load(column + half)"),
    "barrier removed from the transpose": (transpose, "  barrier();\n", "", "race", "tile.load("),
    "barrier removed from the pipeline": (matmul, "    barrier();\n", "", "race", "b_tile.load<4>"),
    "first element after the end": (
        block_reduction, "if (column < COLUMNS) value", "if (column <= COLUMNS) value", "out of bounds", "= x.load("),
    "vector after the end": (vector_add, "if (first < ELEMENTS)", "if (true)", "out of bounds", "x.load<4>(first)"),
    "element before the beginning": (
        block_reduction, "x.load(row * COLUMNS + column)", "x.load(row * COLUMNS + column - 1)", "out of bounds",
        "= x.load("),
    "shared element outside": (
        block_reduction, "partial.load(column + half)", "partial.load(column + THREADS)", "out of bounds",
        "column + THREADS"),
    "vector that is not aligned": (vector_add, "y.load<4>(first)", "y.load<4>(first / 2)", "misaligned", "first / 2"),
    "shared memory never written": (
        block_reduction, "  partial.store(column, value);\n", "", "uninitialised", "partial.load(column + half)"),
    "two blocks write one element": (
        block_reduction, "y.store(row, ", "y.store(row / 2, ", "written twice", "y.store(row / 2"),
    "two threads write one element": (
        block_reduction, "if (column == 0) y", "if (column < 2) y", "written twice", "y.store(row"),
    "barrier under a branch": (
        block_reduction, "barrier();  // of the tree", "if (column < 64) barrier();", "divergent barrier",
        "if (column < 64) barrier();"),
    "warp reduction under a branch": (
        warp_softmax, "total = warp_reduce<Sum<float>>(total);", "if (lane < 16) total = warp_reduce<Sum>(total);",
        "divergent barrier", "if (lane < 16) total"),
    "stage off by one": (
        matmul, "const int stage = step % STAGES;\n#pragma unroll\n    for (int k",
        "const int stage = (step + 1) % STAGES;\n#pragma unroll\n    for (int k", "unfinished copy", "b_tile.load<4>"),
    "fetch into the stage in use": (
        matmul, "const int stage = step % STAGES;\n#pragma unroll\n    for (int i",
        "const int stage = (step + 1) % STAGES;\n#pragma unroll\n    for (int i", "race", "b_tile.load<4>"),
    "wait too short": (matmul, "async_wait<STAGES - 2>", "async_wait<STAGES - 1>", "unfinished copy", "b_tile.load<4>"),
    "commit missing": (matmul, "    async_commit();  // of the prologue\n", "", "unfinished copy", "b_tile.load<4>"),
    "copy never waited for": (
        matmul, "if (step + STAGES - 1 < STEPS) fetch", "fetch", "unfinished copy", "async_copy<16>(a_tile"),
    "more shared memory than launched": (
        block_reduction, "LOOM_SHARED(THREADS * 4)", "LOOM_SHARED(THREADS * 8)", "out of bounds", "LOOM_SHARED"),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found_at_its_line(fault: str, order: str) -> None:
    make, old, new, kind, place = FAULTS[fault]
    kernel = make().with_text(old, new)
    line = kernel.line_of(place)
    findings = found(kernel, order)
    assert any(f.kind == kind and line in (f.line, f.other_line) for f in findings), findings


def test_wrong_index_changes_the_result() -> None:
    kernel = transpose().with_text("tile.load(column * PITCH + row)", "tile.load(row * PITCH + column)")
    _, outputs, _ = emulate(kernel.source, kernel.inputs)
    assert error_of(kernel, outputs) > 0.1


def test_wrong_identity_changes_the_result() -> None:
    kernel = warp_softmax().with_text("largest = Max<float>::identity()", "largest = 0.0f")
    emulation, outputs, _ = emulate(kernel.source, kernel.inputs)
    assert emulation.findings == ()
    assert error_of(kernel, outputs) > 0.01


def test_unwritten_element_shows_in_the_mask() -> None:
    kernel = transpose().with_text("i < ROWS && j < COLUMNS) y.", "i < ROWS - 1 && j < COLUMNS) y.")
    _, _, masks = emulate(kernel.source, kernel.inputs)
    unwritten = np.argwhere(~masks["y"].reshape(50, 70))
    assert unwritten.tolist() == [[j, 69] for j in range(50)]


def test_message_names_block_thread_and_element() -> None:
    kernel = vector_add().with_text("if (first < ELEMENTS)", "if (true)")
    (finding,) = [f for f in found(kernel) if f.line == kernel.line_of("x.load<4>(first)")]
    assert "block 1, thread 122: element 1000 of x_, which has 1000 elements" in finding.message


def test_a_sample_of_blocks_writes_exactly_theirs() -> None:
    kernel = transpose()
    emulation, _, masks = emulate(kernel.source, kernel.inputs, blocks=[1, 4])
    assert (emulation.blocks_run, emulation.blocks_total) == (2, 6)
    expected = np.zeros((50, 70), bool)
    expected[32:, :32] = True  # block (1, 0)
    expected[:32, 64:] = True  # block (0, 2)
    assert (masks["y"].reshape(50, 70) == expected).all()


def test_array_updated_in_place_keeps_what_was_given() -> None:
    kernel = vector_add()
    z = replace(kernel.source.buffers[2], read=True)
    source = replace(kernel.source, buffers=(*kernel.source.buffers[:2], z))
    given = np.full((10, 100), 7, np.float32)
    _, outputs, masks = emulate(source, {**kernel.inputs, "z": given}, blocks=[0])
    assert outputs["z"].shape == masks["z"].shape == (10, 100)
    assert (outputs["z"].ravel()[512:] == 7).all()
    assert (outputs["z"].ravel()[:512] == kernel.expected[:512]).all()


def test_counts_of_coalesced_and_strided_accesses() -> None:
    kernel = vector_add()
    counts = {c.line: c for c in emulate(kernel.source, kernel.inputs)[0].counts}
    load = counts[kernel.line_of("x.load<4>(first)")]
    # 250 threads act: 7 whole warps and 26 lanes, 16 bytes each: 16 sectors a warp, 13 for the last.
    assert (load.kind, load.width, load.requests, load.sectors, load.conflicts) == ("global load", 16, 8, 125, 0)

    strided = kernel.with_text("x.load<4>(first)", "x.load<4>(first * 8 % 992)")
    counts = {c.line: c for c in emulate(strided.source, strided.inputs)[0].counts}
    assert counts[strided.line_of("x.load<4>")].sectors > 125


@pytest.mark.parametrize(("pitch", "conflicts"), [(33, 0), (32, 31)])
def test_counts_of_bank_conflicts(pitch: int, conflicts: int) -> None:
    kernel = transpose().with_text("PITCH = 33", f"PITCH = {pitch}")
    emulation, outputs, _ = emulate(kernel.source, kernel.inputs, blocks=[0])
    assert error_of(kernel, outputs) == np.inf  # the other blocks did not run
    counts = {c.line: c for c in emulation.counts}
    read = counts[kernel.line_of("tile.load")]
    assert (read.kind, read.requests, read.conflicts) == ("shared load", 32, 32 * conflicts)
    assert counts[kernel.line_of("tile.store")].conflicts == 0


def test_wide_shared_accesses_are_served_in_quarters() -> None:
    """Quarters of 8 lanes move 128 bytes: in a row they use each bank once; 128 bytes apart they all hit four banks."""
    text = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32) wide(float* __restrict__ y_)
{
  LOOM_SHARED(4096);
  const Global<float> y(y_, 32);
  const Shared<float> tile(shared_memory, 1024);
  const int lane = int(threadIdx.x);
  const Pack<float, 4> zero = {};
  for (int i = 0; i < 8; ++i)
    tile.store<4>((i * 32 + lane) * 4, zero);
  barrier();
  y.store(lane, tile.load<4>(lane * 32)[0]);
}
"""
    base = vector_add().source
    output = replace(base.buffers[2], parameter="y_", array="y", elements=32)
    source = replace(
        base, text=text, entry="wide", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=4096, buffers=(output,)
    )
    emulation, _, _ = emulate(source, {})
    counts = {c.line: c for c in emulation.counts if c.kind.startswith("shared")}
    assert emulation.findings == ()
    assert (counts[10].requests, counts[10].conflicts) == (8, 0)
    assert (counts[12].requests, counts[12].conflicts) == (1, 4 * 7)


def test_copies_count_one_request_a_warp() -> None:
    kernel = matmul()
    counts = {c.line: c for c in emulate(kernel.source, kernel.inputs)[0].counts}
    copy = counts[kernel.line_of("async_copy<16>(b_tile")]
    # 4 blocks, 5 steps, 2 copies a thread, 2 warps.
    assert (copy.kind, copy.width, copy.requests) == ("async copy", 16, 80)


def test_warp_sync_orders_lanes_and_a_shuffle_does_not() -> None:
    kernel = block_reduction().with_text("barrier();  // of the tree", "if (half > 32) barrier(); else warp_sync();")
    kernel = kernel.with_text("THREADS / 2; half", "16; half").with_text("  barrier();\n  for", "  warp_sync();\n  for")
    assert found(kernel) == ()
    shuffled = kernel.with_text("if (half > 32) barrier(); else warp_sync();", "shuffle_xor(value, 1);")
    assert {f.kind for f in found(shuffled)} == {"race"}


def test_endless_loop_is_a_hang_at_its_line() -> None:
    kernel = block_reduction().with_text("half /= 2)", "half += 0)")
    emulation, _, _ = emulate(kernel.source, kernel.inputs, timeout=1.0)
    assert [f.kind for f in emulation.findings if f.kind == "hang"] == ["hang"]
    assert emulation.blocks_run == 0


def test_crash_is_a_finding() -> None:
    kernel = vector_add().with_text("z.store<4>(first, sum);", "*reinterpret_cast<volatile int*>(first % 2) = 1;")
    emulation, _, _ = emulate(kernel.source, kernel.inputs, checked=False)
    (finding,) = emulation.findings
    assert (finding.kind, emulation.blocks_run) == ("crash", 0)
    assert "SIGSEGV" in finding.message


def test_text_that_is_not_cuda_is_refused_at_its_line() -> None:
    kernel = vector_add().with_text("sum[v] = a[v] + b[v];", "sum[v] = a[v] + nothing[v];")
    with pytest.raises(CompileError) as error:
        emulate(kernel.source, kernel.inputs)
    assert error.value.line == kernel.line_of("nothing[v]")
    assert "nothing" in error.value.reason


def test_arrays_that_do_not_fit_are_refused() -> None:
    kernel = vector_add()
    with pytest.raises(BadInput, match="array y"):
        emulate(kernel.source, {"x": kernel.inputs["x"]})
    with pytest.raises(BadInput, match=r"float64\[1000\]"):
        emulate(kernel.source, {**kernel.inputs, "x": np.zeros(1000)})
    with pytest.raises(BadInput, match="block 2"):
        emulate(kernel.source, kernel.inputs, blocks=[2])
    with pytest.raises(BadInput, match="order"):
        emulate(kernel.source, kernel.inputs, order="random")


COPY = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32) copy(const float* __restrict__ x_, float* __restrict__ y_)
{
  LOOM_SHARED(512);
  const Global<const float> x(x_, 126);
  const Global<float> y(y_, 128);
  const Shared<float> row(shared_memory, 128);
  const int at = int(threadIdx.x) * 4;
  async_copy<16>(row, at, x, at, at + 4 <= 126 ? 4 : 2);
  async_commit();
  async_wait<0>();
  y.store<4>(at, row.load<4>(at));
}
"""


def copy_kernel() -> Written:
    """Each thread copies four elements; of the last four only two exist."""
    x = np.random.default_rng(14).standard_normal(126).astype(np.float32)
    buffers = (Parameter("x_", "x", "float32", 126, True, False), Parameter("y_", "y", "float32", 128, False, True))
    source = CudaSource(COPY, "copy", (1, 1, 1), (32, 1, 1), 512, buffers, ())
    return Written(source, {"x": x}, "y", np.concatenate([x, np.zeros(2, np.float32)]), 0.0)


@pytest.mark.parametrize("order", ORDERS)
def test_partly_valid_copies_fill_with_zeros(order: str) -> None:
    kernel = copy_kernel()
    emulation, outputs, _ = emulate(kernel.source, kernel.inputs, order=order)
    assert emulation.findings == ()
    assert error_of(kernel, outputs) == 0
    (copy,) = [c for c in emulation.counts if c.kind == "async copy"]
    assert (copy.requests, copy.sectors, copy.conflicts) == (1, 16, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_copies_without_valid_elements_read_nothing(order: str) -> None:
    kernel = copy_kernel().with_text("x, at, at + 4 <= 126 ? 4 : 2", "x, at - 1000000, 0")
    emulation, outputs, _ = emulate(kernel.source, kernel.inputs, order=order)
    assert emulation.findings == ()
    assert (outputs["y"] == 0).all()
    assert [c.sectors for c in emulation.counts if c.kind == "async copy"] == [0]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("? 4 : 2", "? 4 : 4", "out of bounds"),
        ("? 4 : 2", "? 5 : 2", "out of bounds"),
        ("x, at, at", "x, at / 2, at", "misaligned"),
        ("(row, at, x", "(row, at / 2, x", "misaligned"),
        ("(row, at, x", "(row, at + 4, x", "out of bounds"),
        ("(row, at, x", "(row, 0, x", "race"),
    ],
)
def test_faults_of_copies_are_found(old: str, new: str, kind: str) -> None:
    kernel = copy_kernel().with_text(old, new)
    line = kernel.line_of("async_copy")
    assert any((f.kind, f.line) == (kind, line) for f in found(kernel))


def test_a_waited_copy_needs_a_barrier_for_other_threads() -> None:
    kernel = copy_kernel().with_text("row.load<4>(at)", "row.load<4>(124 - at)")
    races = {(f.line, f.other_line) for f in found(kernel) if f.kind == "race"}
    copy, load = kernel.line_of("async_copy"), kernel.line_of("124 - at")
    assert races == {(copy, load), (load, copy)}  # whichever thread came first
    assert found(kernel.with_text("async_wait<0>();", "async_wait<0>(); barrier();")) == ()


def test_warp_collectives_need_a_whole_warp() -> None:
    kernel = warp_softmax()
    source = replace(kernel.source, block=(112, 1, 1))
    findings = emulate(source, kernel.inputs)[0].findings
    assert {f.kind for f in findings} == {"divergent barrier"}
    assert "this warp has 16" in findings[0].message


def test_global_memory_shared_between_threads_needs_a_barrier() -> None:
    """A kernel that reads back what another thread of its block, or another block, has stored."""
    kernel = block_reduction().with_text(
        "if (column == 0) y.store(row, partial.load(0));",
        "if (column == 0) y.store(row, partial.load(0));\n  if (column == 40) y.load(row);",
    )
    (finding,) = found(kernel)
    assert (finding.kind, finding.line) == ("race", kernel.line_of("y.load(row)"))
    assert found(kernel.with_text("if (column == 40)", "barrier();\n  if (column == 40)")) == ()
    across = kernel.with_text("if (column == 40) y.load(row)", "if (column == 0 && row > 0) y.load(row - 1)")
    (finding,) = found(across)
    assert "another block" in finding.message


@pytest.mark.parametrize("order", ORDERS)
def test_threads_of_a_block_start_in_the_order_asked_for(order: str) -> None:
    """Without a barrier the last thread to write wins: forward that is the last one, backward the first."""
    text = COPY.replace("  y.store<4>(at, row.load<4>(at));\n", "  y.store(0, float(at));\n")
    kernel = replace(copy_kernel(), source=replace(copy_kernel().source, text=text))
    _, outputs, _ = emulate(kernel.source, kernel.inputs, order=order, checked=False)
    assert outputs["y"][0] == (124 if order == "late" else 0)


def _emulated(kernel: Written) -> float:
    return error_of(kernel, emulate(kernel.source, kernel.inputs)[1])


@pytest.mark.slow(sentinel=True)
def test_processes_may_build_the_same_emulator_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_emulated, [vector_add()] * 2) == [0.0, 0.0]
    assert len(list((tmp_path / "emulator").iterdir())) == 1
    assert len(list((tmp_path / "machine").iterdir())) == 1
