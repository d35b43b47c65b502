"""Kernels for a dimension of many sizes: how many blocks each needs, whether it is right with them, and what is lost.

A kernel is made for the largest size.  Blocks are numbered so that those of the first rows come first in nearly every
kernel: a smaller size launches no more than the last one that writes a row of it.  What its blocks do beyond is
undefined, and stays in arrays of the largest size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.execution.nodes import Check, Finding
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.size_range import growing_arrays, growing_tensors
from engine.graph.nodes import SizeRange
from engine.kernels.nodes import Kernel
from engine.tile.source import CudaSource
from engine.verify.footprint import first_written
from engine.verify.kernel import WORK, Elements, compare_elements, kernel_tolerance
from engine.verify.levels import KernelRun, work_of
from engine.verify.tolerance import magnitude

Values = Mapping[str, np.ndarray]
SIZES = 3
"""Sizes that a kernel is checked at: the smallest, one between, the largest but one."""


@dataclass(frozen=True, slots=True)
class RangedPlan:
    """A plan for the largest size of a dimension, and what of its tensors grows."""

    plan: FusionPlan
    sizes: SizeRange
    tensors: Mapping[str, int]
    """Tensor -> rows for each of the size."""

    @staticmethod
    def of(plan: FusionPlan, sizes: SizeRange) -> RangedPlan:
        """Raises Unsupported, naming a tensor, where the dimension is not outermost everywhere."""
        assert plan.source is not None, plan.graph
        return RangedPlan(plan, sizes, growing_tensors(plan.source, sizes))

    def rows(self, group: FusionGroup) -> dict[str, int]:
        """As `growing_arrays`."""
        return growing_arrays(self.plan, group, self.tensors, self.sizes.high)

    def grids(self, kernel: Kernel) -> list[tuple[int, int]]:
        """(largest size, blocks) in order: sizes up to it need so many blocks."""
        needs = _needs(kernel.source, self.rows(kernel.group), self.sizes.high)
        last = np.zeros(self.sizes.high + 1, np.int64)
        np.maximum.at(last, needs, np.arange(1, needs.size + 1))
        blocks = np.maximum.accumulate(last)[self.sizes.low :]
        # The largest size of each run of sizes that need as many.
        largest = np.flatnonzero(np.append(np.diff(blocks), 1))
        return [(self.sizes.low + int(at), int(blocks[at])) for at in largest]

    def blocks(self, kernel: Kernel, size: int) -> int:
        """Blocks of a launch for a size.  BadInput for one that is not among those that are served."""
        self.sizes.check(size)
        return next(blocks for largest, blocks in self.grids(kernel) if size <= largest)

    def microseconds(self, kernel: Kernel, size: int) -> float:
        """The modelled time of one launch for a size."""
        blocks = self.blocks(kernel, size)
        work = _part_of(kernel.facts, blocks, self._dram_bytes(kernel, size))
        # Fewer blocks are not slower than all of them, whatever a model says of SMs that are left idle.
        return min(estimate_microseconds(one, kernel.target) for one in (work, kernel.facts))

    def _dram_bytes(self, kernel: Kernel, size: int) -> tuple[int, int]:
        """Read and written, where arrays have so many rows."""
        rows, program = self.rows(kernel.group), kernel.group.program
        share = size / self.sizes.high
        read, made = (
            sum(math.ceil(program.arrays[n].bytes * (share if n in rows else 1)) for n in names)
            for names in (program.inputs, program.outputs)
        )
        return min(read, kernel.facts.dram_bytes_read), min(made, kernel.facts.dram_bytes_written)

    def checked_sizes(self) -> tuple[int, ...]:
        """Some sizes below the largest."""
        low, high = self.sizes.low, self.sizes.high
        between = (low + high) // 2 | 1
        return tuple(sorted({low, min(between, high - 1), high - 1}))[:SIZES]


def _part_of(work: Work, blocks: int, dram: tuple[int, int]) -> Work:
    """The work of some blocks of a launch, all of which do as much."""
    share = blocks / work.blocks
    counted = (
        "flops", "special", "l2_bytes", "shared_bytes_moved", "shared_bytes_loaded", "shared_passes", "tensor_flops",
    )  # fmt: skip
    fewer = {name: round(getattr(work, name) * share) for name in counted}
    return replace(work, blocks=blocks, dram_bytes_read=dram[0], dram_bytes_written=dram[1], **fewer)


def _needs(source: CudaSource, rows: Mapping[str, int], high: int) -> np.ndarray:
    """Of each block the smallest size that needs it; 1 where it writes what does not grow.

    Blocks that wait for each other, and several launches, are all needed.
    """
    if source.later or source.team > 1 or source.meets_as_grid:
        return np.ones(source.blocks, np.int64)
    found = np.full(source.blocks, high, np.int64)
    for buffer in source.buffers:
        if not buffer.written:
            continue
        each = buffer.elements // high
        first = first_written(source, buffer.array)
        found = np.minimum(found, np.maximum(first, 0) // each + 1 if buffer.array in rows else 1)
    return found


def check_sizes(
    ranged: RangedPlan, kernel: Kernel, values: Values, run: KernelRun, timeout: float = 120.0
) -> Check:
    """Run a kernel for some smaller sizes, what lies beyond them spoilt, and compare the rows of each.

    values: of all arrays of the group at the largest size, after the launch.
    """
    rows, name = ranged.rows(kernel.group), kernel.group.name
    worst, compared, findings = 0.0, 0, list[Finding]()
    wanted = kernel_tolerance(kernel)
    limit = wanted.relative
    sizes = ranged.checked_sizes()
    ran = 0
    for size in sizes:
        blocks = ranged.blocks(kernel, size)
        chosen = _affordable(kernel, blocks)
        share = size / ranged.sizes.high
        inputs = {
            b.array: _spoilt(values[b.array], share) if b.array in rows else values[b.array]
            for b in kernel.source.buffers if b.read
        }  # fmt: skip
        emulation, outputs, masks = run(kernel.source, inputs, blocks=chosen, order="late", timeout=timeout)
        ran = max(ran, emulation.blocks_run)
        findings += emulation.findings
        for array, made in outputs.items():
            wrote = masks[array].reshape(-1).copy()
            if array in rows:
                wrote[size * (wrote.size // ranged.sizes.high) :] = False
                if len(chosen) == blocks and not wrote[: size * (wrote.size // ranged.sizes.high)].all():
                    findings.append(Finding("not written", 0, f"rows of {array} at {ranged.sizes.name} = {size}"))
            right = values[array]
            elements = Elements(made.reshape(-1), right.reshape(-1), wrote, magnitude(right))
            found = compare_elements(kernel, wanted, array, elements, values)
            compared += found.errors.size
            limit = max(limit, found.tolerance.relative)
            worst = max(worst, float(found.errors.max(initial=0.0)))
            if found.wrong.any():
                message = f"{int(found.wrong.sum())} elements of {array} at {ranged.sizes.name} = {size} are wrong"
                findings.append(Finding("wrong result", 0, message))
    status = "fail" if findings or not compared else "pass"
    message = f"{findings[0].kind}: {findings[0].message}" if findings else ""
    return Check(
        name, status, worst, limit, f"{ranged.sizes}, at {', '.join(map(str, sizes))}", ran, kernel.source.blocks,
        compared, ("late",), tuple(findings), message,
    )  # fmt: skip


def _affordable(kernel: Kernel, blocks: int) -> Sequence[int]:
    """The blocks of a size, or its first and its last ones."""
    if work_of(kernel) * blocks / kernel.source.blocks <= WORK:
        return range(blocks)
    return tuple(sorted({0, max(0, blocks - 2), blocks - 1}))


def _spoilt(value: np.ndarray, share: float) -> np.ndarray:
    """A value whose rows beyond a part are no numbers; zeros where it holds integers, which may be places."""
    made = value.copy()
    made.reshape(-1)[round(value.size * share) :] = np.nan if value.dtype.kind not in "iub" else 0
    return made
