"""Programs that no GPU or kernel could take, dropped before they cost anything; a funnel counts what each rule drops.

GTA drops by shared memory alone and leaves threads to Ansor's own check.  Here whatever a kernel's figures tell before
code is generated counts: the limits of the knobs, the powers of two that kernels take, registers, the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from engine.codegen.contraction import MAX_THREADS
from engine.codegen.tensor_cores import MAX_WARPS
from engine.explore.limits import LIMITS, Limit, kib
from engine.predict.alcop import allowed_registers
from engine.predict.alcop_nodes import WARP, Contraction
from engine.predict.alcop_work import SUM_BYTES, estimated_registers, work_of_knobs
from engine.target import Target
from engine.target.shared import most_shared
from engine.tensor.access import VECTOR_BYTES
from engine.tensorize.space import FRAGMENT, Knobs
from engine.tune.nodes import Dropped, Funnel, Program

GRID = 2**31 - 1
"""Blocks along the first axis of a grid, on every NVIDIA GPU since compute capability 3.0."""
CORE_BLOCK = 128
"""Rows and columns of a block's tile on CUDA cores."""
LEAST_COPY = 4
"""Bytes that one asynchronous copy moves at least."""
BLOCKS, WARPS, DEPTHS = (16, 256), (16, 64), (16, 128)
"""Smallest and largest rows or columns of a block's and of a warp's tile, and depths, that tensor-core kernels take."""


class Named(Protocol):
    """A rule as a funnel counts it."""

    @property
    def name(self) -> str: ...

    @property
    def because(self) -> str: ...


Broken = Callable[[Program], tuple[Named, str] | None]
"""The first rule that a program breaks, and how; None where it keeps all."""


def prune(points: Iterable[Program], rules: Sequence[Named], broken: Broken) -> Funnel:
    """Drop every program that breaks a rule; each counts for the first that it breaks."""
    counts = {rule.name: 0 for rule in rules}
    examples: dict[str, str] = {}
    left: list[Program] = []
    for program in points:
        found = broken(program)
        if found is None:
            left.append(program)
            continue
        rule, how = found
        counts[rule.name] += 1
        examples.setdefault(rule.name, f"{program}: {how}")
    dropped = tuple(Dropped(r.name, r.because, counts[r.name], examples.get(r.name, "")) for r in rules)
    return Funnel(len(left) + sum(counts.values()), dropped, tuple(left))


def _shape(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    if not contraction.unit:
        return _core_shape(knobs)
    sizes = [(size, BLOCKS, "a block") for size in knobs.block[:2]]
    sizes += [(size, WARPS, "a warp") for size in knobs.part] + [(knobs.block[2], DEPTHS, "a tile's depth")]
    for size, (least, most), what in sizes:
        if not least <= size <= most or size & (size - 1):
            return f"{size} of {what}, kernels take powers of two from {least} to {most}"
    if knobs.parts > MAX_WARPS:
        return f"{knobs.parts} warps, a block has up to {MAX_WARPS}"
    return ""


def _exchange(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    warps = knobs.parts // knobs.slices
    exchanged = SUM_BYTES * (knobs.block[0] * knobs.block[1] + warps * FRAGMENT * knobs.part[1])
    if knobs.slices == 1 or knobs.slices * exchanged <= most_shared(machine):
        return ""
    return f"{knobs.slices} slices exchange {kib(exchanged)} of sums each, a block may have {kib(most_shared(machine))}"


def _core_shape(knobs: Knobs) -> str:
    """The same for a kernel on CUDA cores."""
    rows, columns, depth = knobs.block
    for size, most, what in ((rows, CORE_BLOCK, "a block"), (columns, CORE_BLOCK, "a block"), (depth, 64, "its depth")):
        if size > most:
            return f"{size} of {what}, kernels on CUDA cores have up to {most}"
    most = min(MAX_THREADS, depth * min(rows, columns))
    return f"{knobs.parts} threads, with so small a tile a block has up to {most}" if knobs.parts > most else ""


def _warps(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    threads = knobs.parts * contraction.lanes
    return f"{threads} threads are no whole warps of {WARP}" if threads % WARP else ""


def _copies(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    narrowest = min(contraction.widths) * contraction.element_bytes
    if knobs.stages == 1 or narrowest >= LEAST_COPY:
        return ""
    return f"{knobs.stages} stages, and an operand is copied {narrowest} bytes at a time"


def _registers(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    """By what sums and fragments take: addresses of narrow copies are left out, the compiler may walk them in turn."""
    wide = VECTOR_BYTES // contraction.element_bytes
    needed = estimated_registers(replace(contraction, widths=(wide, wide)), knobs)
    most = allowed_registers(knobs.parts * contraction.lanes, machine)
    return f"about {needed} registers, a thread may have {most}" if needed > most else ""


def _grid(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    blocks = work_of_knobs(contraction, knobs).blocks
    return f"{blocks:,} blocks, a grid may have {GRID:,}" if blocks > GRID else ""


def _empty(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
    for what, size, tile, unit in zip(
        ("rows", "columns", "depths"), (contraction.m, contraction.n, contraction.k), knobs.block, (16, 16, 16),
        strict=True,
    ):  # fmt: skip
        if tile >= 2 * max(size, unit):
            return f"a tile of {tile} {what} for {size}: half of it would only be filled"
    return ""


RULES = (
    Limit("shape of tiles", _shape, "kernels are generated for these alone"),
    Limit("whole warps", _warps, "lanes without a thread cost as much as those with one"),
    *LIMITS,
    Limit("exchange of sums", _exchange, "slices add their sums by way of shared memory"),
    Limit("asynchronous copies", _copies, f"cp.async moves {LEAST_COPY} bytes or more, what is gathered waits"),
    Limit("registers", _registers, "what does not fit is spilled; an estimate, the compiler has the last word"),
    Limit("grid", _grid, "a launch of more blocks fails"),
    Limit("filled tiles", _empty, "half the tile does the same work"),
)
"""Every rule in the order in which it is asked."""
