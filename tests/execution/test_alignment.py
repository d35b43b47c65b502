"""Alignment in the emulator: addresses as a launch may choose them, and no better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS, Finding
from engine.tile.source import CudaSource, GlobalWorkspace, Parameter
from tests.execution.written_kernels import ALL, Written, matmul, vector_add
from tests.support.needs import needs_compiler

pytestmark = needs_compiler

ADDRESSES = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32)
addresses(const {kind}* __restrict__ x_, i64* __restrict__ y_, float* parts_)
{{
  const int thread = threadIdx.x;
  if (thread == 0) {{
    Global<i64>(y_, 3).store(0, reinterpret_cast<i64>(x_));
    Global<i64>(y_, 3).store(1, reinterpret_cast<i64>(y_));
    Global<i64>(y_, 3).store(2, reinterpret_cast<i64>(parts_));
  }}
}}
"""


def shifted(kernel: Written, array: str, alignment: int) -> Written:
    """The kernel as if one array had to be aligned otherwise."""
    buffers = tuple(replace(b, alignment=alignment) if b.array == array else b for b in kernel.source.buffers)
    return replace(kernel, source=replace(kernel.source, buffers=buffers))


def found(kernel: Written, order: str = "late") -> tuple[Finding, ...]:
    return emulate(kernel.source, kernel.inputs, order=order)[0].findings


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(("kind", "stored", "alignment"), [("float", "float32", 16), ("bool8", "bool", 1)])
def test_an_address_is_a_multiple_of_what_is_asked_and_of_no_more(
    kind: str, stored: str, alignment: int, checked: bool
) -> None:
    buffers = (
        Parameter("x_", "x", stored, 4, True, False, alignment),
        Parameter("y_", "y", "int64", 3, False, True, 8),
    )
    own = (GlobalWorkspace("parts_", "parts", "float32", 4, 16, False),)
    text = ADDRESSES.format(kind=kind)
    source = CudaSource(text, "addresses", (1, 1, 1), (32, 1, 1), 0, buffers, (), workspaces=own)
    run, outputs, _ = emulate(source, {"x": np.zeros(4, stored)}, checked=checked)
    assert run.findings == ()
    for address, wanted in zip(outputs["y"], (alignment, 8, 16), strict=True):
        assert address % (2 * wanted) == wanted


# Kernel, array, the text of the line at which it is accessed, the bytes accessed at once.
WIDE = [
    (vector_add, "x", "x.load<4>(first)", 16),
    (vector_add, "z", "z.store<4>(first, sum)", 16),
    (matmul, "b", "async_copy<16>(b_tile", 16),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("make", "array", "place", "size"), WIDE)
def test_an_array_that_begins_at_an_element_is_a_fault_at_its_line(
    make: type[Written], array: str, place: str, size: int, order: str
) -> None:
    """Shifted by one element, as `x[1:]` is, and by half an access."""
    kernel = make()
    assert found(shifted(kernel, array, size), order) == ()
    for alignment in (4, size // 2):
        findings = found(shifted(kernel, array, alignment), order)
        first = findings[0]
        assert (first.kind, first.line) == ("misaligned", kernel.line_of(place))
        assert f"{size} bytes accessed; the memory begins at a multiple of {alignment}" in first.message


@pytest.mark.parametrize("name", ALL)
def test_transactions_are_counted_as_at_an_allocator_s_address(name: str) -> None:
    """The sectors of a kernel do not depend on how little of alignment it asks for."""
    kernel = ALL[name]()
    counts = [emulate(kernel.source, kernel.inputs)[0].counts]
    for array in (b.array for b in kernel.source.buffers):
        kernel = shifted(kernel, array, 512)
    counts.append(emulate(kernel.source, kernel.inputs)[0].counts)
    assert counts[0] == counts[1]


SHARED = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32) shared(const f16* __restrict__ x_, f16* __restrict__ y_)
{
  LOOM_SHARED(1024);
  const Global<const f16> x(x_, 256);
  const Global<f16> y(y_, 256);
  const Shared<f16> tile(shared_memory + 16, 256);
  const int lane = int(threadIdx.x);
  async_copy<16>(tile, lane * 8, x, lane * 8, 8);  // of the tile
  async_commit();
  async_wait<0>();
  barrier();
  u32 words[4];
  ldmatrix_x4(words, tile, lane * 8);
  const Pack<f16, 8> row = tile.load<8>(lane * 8);
  y.store<8>(lane * 8, row);
}
"""


def shared() -> Written:
    x = np.arange(256, dtype=np.float16)
    buffers = (Parameter("x_", "x", "float16", 256, True, False), Parameter("y_", "y", "float16", 256, False, True))
    source = CudaSource(SHARED, "shared", (1, 1, 1), (32, 1, 1), 1024, buffers, ())
    return Written(source, {"x": x}, "y", x, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("shared_memory + 16,", "shared_memory + 8,", "// of the tile"),
        ("(words, tile, lane * 8)", "(words, tile, lane * 4)", "ldmatrix_x4"),
        ("tile.load<8>(lane * 8)", "tile.load<8>(lane * 8 / 16 * 16 + 4)", "tile.load<8>"),
        ("x, lane * 8, 8);", "x, lane * 7, 8);", "// of the tile"),
    ],
)
def test_shared_memory_is_aligned_as_it_is_declared(old: str, new: str, place: str) -> None:
    """Rows of a matrix load and targets of copies: 16 bytes each."""
    assert found(shared()) == ()
    kernel = shared().with_text(old, new)
    assert ("misaligned", kernel.line_of(place)) in {(f.kind, f.line) for f in found(kernel)}


def test_shared_memory_begins_at_no_more_than_it_is_declared() -> None:
    """A kernel cannot rely on 32 bytes: its shared memory starts 16 behind a multiple of them."""
    outside = "if (reinterpret_cast<i64>(shared_memory) % 32 != 16) y.load(256);"
    kernel = shared().with_text("lane * 8, row);", f"lane * 8, row);\n  {outside}")
    assert found(kernel) == ()


def test_a_copy_that_reads_nothing_still_has_an_aligned_source() -> None:
    """Its instruction gets the start of the array."""
    kernel = shared().with_text("x, lane * 8, 8);", "x, lane * 8, 0);")
    assert found(kernel) == ()
    kinds = {(f.kind, f.line) for f in found(shifted(kernel, "x", 8))}
    assert ("misaligned", kernel.line_of("// of the tile")) in kinds


def test_counters_at_which_blocks_meet_are_whole_integers() -> None:
    text = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32) meet(float* __restrict__ y_, int* arrivals_)
{
  const Global<float> y(y_, 1);
  const Global<int> arrivals(arrivals_, 1);
  if (!is_last_of<2>(arrivals, 0)) return;
  if (threadIdx.x == 0) y.store(0, 1.0f);
}
"""
    own = GlobalWorkspace("arrivals_", "arrivals", "int32", 1, 4, True)
    buffers = (Parameter("y_", "y", "float32", 1, False, True, 4),)
    source = CudaSource(text, "meet", (2, 1, 1), (32, 1, 1), 0, buffers, (), team=2, workspaces=(own,))
    run, outputs, _ = emulate(source, {})
    assert run.findings == () and outputs["y"] == [1.0]
    worse = replace(source, workspaces=(replace(own, alignment=2),))
    assert {(f.kind, f.line) for f in emulate(worse, {})[0].findings} >= {("misaligned", 6)}
