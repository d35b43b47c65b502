"""Checking a kernel against an implementation that is not ours.

The CUDA text runs on the CPU in two thread and copy orders.  A large launch runs a sample of blocks that holds every
kind of boundary; then the index maps of all blocks must partition what the group writes, and the same group at a
smaller size, under the same recipe, runs too: in full, where its axes can be cut far enough.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from engine.compilation import compile_group
from engine.execution.emulate.emulate import ORDERS, emulate
from engine.execution.nodes import Check, Finding, SiteCount
from engine.fusion.shrink import Shrunk, shrink
from engine.kernels.nodes import Kernel
from engine.support.errors import EngineError, Unsupported
from engine.tile.source import CudaSource
from engine.verify.exponents import with_exponents
from engine.verify.footprint import boundary_blocks, own_part, partition_faults, written_by
from engine.verify.tolerance import Tolerance, group_tolerance, magnitude, on_tensor_cores

Values = Mapping[str, np.ndarray]

WORK = 60_000_000
"""Operations and bytes that one emulated order may cost before blocks are sampled."""
SMALLER = WORK // 16
"""Points of the widest statement of a group that is cut to a smaller size."""
SAMPLE = 4
"""Blocks of a sample besides the boundary ones."""


@dataclass(slots=True)
class _Tally:
    """What the runs so far have shown."""

    findings: dict[tuple[str, int, str], Finding] = field(default_factory=dict)
    counts: tuple[SiteCount, ...] = ()
    worst: float = 0.0
    compared: int = 0
    blocks_run: int = -1
    """Blocks that both orders finished; -1 before the first run."""

    def add(self, finding: Finding) -> None:
        self.findings.setdefault((finding.kind, finding.line, finding.message), finding)


def check_kernel(kernel: Kernel, values: Values, before: Values, timeout: float = 120.0) -> Check:
    """Emulate a kernel and compare every element it writes.

    values: expected value of each array of the group's program.  before: its value before the launch, where that
    differs (buffers updated in place).
    """
    wanted = kernel_tolerance(kernel, {**values, **before})
    blocks = sample_blocks(kernel)
    total = kernel.source.grid[0]
    tally = _Tally()
    for fault in partition_faults(kernel.source, kernel.group.program):
        tally.add(fault)
    expected = {name: values[name] for name in kernel.group.program.outputs}
    _run(kernel.source, {**values, **before}, expected, blocks, wanted, tally, timeout)
    if small := smaller(kernel):
        _run_smaller(*small, values, before, wanted, tally, timeout)
    status = "fail" if tally.findings or not tally.worst <= wanted.relative or not tally.compared else "pass"
    return Check(
        group=kernel.group.name,
        status=status,
        max_error=tally.worst,
        tolerance=wanted.relative,
        tolerance_because=wanted.because,
        blocks_run=tally.blocks_run,
        blocks_total=total,
        elements_compared=tally.compared,
        orders=ORDERS,
        findings=tuple(sorted(tally.findings.values(), key=lambda f: (f.line, f.kind))),
        counts=tally.counts,
        message="" if status == "pass" else _why(tally, wanted),
    )


def kernel_tolerance(kernel: Kernel, values: Values) -> Tolerance:
    """How far a right kernel may be from the reference.  values: of the arrays that it reads, at least."""
    found = on_tensor_cores(group_tolerance(kernel.group), kernel.tile.intrinsic)
    return with_exponents(found, kernel.group.program, values)


def sample_blocks(kernel: Kernel) -> tuple[int, ...]:
    """All blocks of a small launch; of a large one whole teams of the boundary blocks and others, by a fixed seed."""
    total, facts = kernel.source.grid[0], kernel.facts
    work = facts.flops + facts.tensor_flops + 8 * facts.special + facts.l2_bytes + facts.shared_bytes_moved
    affordable = max(SAMPLE, int(WORK * total / max(work, 1)))
    if affordable >= total:
        return tuple(range(total))
    others = random.Random(0).sample(range(total), min(total, max(SAMPLE, affordable // 2)))
    return kernel.source.whole_teams((*boundary_blocks(kernel.source), *others))


def _run(
    source: CudaSource,
    arrays: Values,
    expected: Values,
    blocks: tuple[int, ...],
    wanted: Tolerance,
    tally: _Tally,
    timeout: float,
) -> None:
    """Both orders over some blocks; what they wrote must be what the maps say, and right."""
    inputs = {b.array: arrays[b.array] for b in source.buffers if b.read}
    footprints = {b.array: written_by(source, b.array, b.elements, blocks) for b in source.buffers if b.written}
    for order in ORDERS:
        emulation, outputs, masks = emulate(source, inputs, blocks=blocks, order=order, timeout=timeout)
        ran = emulation.blocks_run
        tally.blocks_run = ran if tally.blocks_run < 0 else min(tally.blocks_run, ran)
        tally.counts = tally.counts or emulation.counts
        for finding in emulation.findings:
            tally.add(finding)
        for name, should in footprints.items():
            wrote = masks[name].reshape(-1)
            if (wrote != should).any():
                element = int(np.flatnonzero(wrote != should)[0])
                kind = "not written" if should[element] else "stray write"
                message = f"element {element} of {name}: the index maps and the run disagree"
                tally.add(Finding(kind, _store_line(source, name), message))
            right = expected[name].reshape(-1)
            scale = magnitude(expected[name])
            errors = wanted.errors(outputs[name].reshape(-1)[wrote], right[wrote], scale)
            tally.compared += errors.size
            tally.worst = max(tally.worst, float(errors.max(initial=0.0)))
            if tally.worst > wanted.relative and not any(f.kind == "wrong result" for f in tally.findings.values()):
                tally.add(_wrong(source, name, np.flatnonzero(wrote), errors, wanted))


def _wrong(source: CudaSource, array: str, elements: np.ndarray, errors: np.ndarray, wanted: Tolerance) -> Finding:
    """The worst element as a finding at the store that wrote it."""
    worst = int(errors.argmax())
    many = int((errors > wanted.relative).sum())
    message = f"{many} of {errors.size} elements of {array} are wrong, worst element {int(elements[worst])}"
    return Finding("wrong result", _store_line(source, array), f"{message}, off by {errors[worst]:.3g}")


def _store_line(source: CudaSource, array: str) -> int:
    """The line that stores to a global array."""
    lines = source.text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if f"{array}.store" in line), 0)


def wrong_result(kernel: Kernel, outputs: Values, expected: Values) -> str:
    """What is wrong with a launch's outputs, or "".  expected: values of what is read, too."""
    wanted = kernel_tolerance(kernel, expected)
    for name, got in outputs.items():
        part = own_part(kernel.group.program, name)
        errors = wanted.errors(got.reshape(-1)[part], expected[name].reshape(-1)[part], magnitude(expected[name]))
        worst = float(errors.max(initial=0.0))
        if not worst <= wanted.relative:
            return f"{name} is off by {worst:.3g}, allowed {wanted.relative:.3g}"
    return ""


def smaller(kernel: Kernel) -> tuple[Shrunk, Kernel] | None:
    """The same group at a smaller size and its kernel, where blocks of the large launch are only sampled; or None."""
    small = shrink(kernel.group, SMALLER) if len(sample_blocks(kernel)) < kernel.source.grid[0] else None
    return None if small is None else (small, compile_group(small.group, kernel.recipe))


def _run_smaller(
    small: Shrunk, compiled: Kernel, values: Values, before: Values, wanted: Tolerance, tally: _Tally, timeout: float
) -> None:
    """The group at a smaller size: its index maps, and every block that is affordable."""
    whole = {**values, **before}
    arrays = {name: small.slice(name, whole[name]) for name in small.cuts if name in whole}
    expected = {name: small.slice(name, values[name]) for name in small.group.program.outputs}
    blocks = sample_blocks(compiled)
    inner = _Tally()
    for fault in partition_faults(compiled.source, small.group.program):
        inner.add(fault)
    _run(compiled.source, arrays, expected, blocks, wanted, inner, timeout)
    tally.worst, tally.compared = max(tally.worst, inner.worst), tally.compared + inner.compared
    for finding in inner.findings.values():
        tally.add(replace(finding, message=f"at a smaller size: {finding.message}"))


def _why(tally: _Tally, wanted: Tolerance) -> str:
    if tally.findings:
        first = next(iter(tally.findings.values()))
        return f"{first.kind}: {first.message}"
    if not tally.compared:
        return "nothing was compared"
    return f"largest error {tally.worst:.3g}, allowed {wanted.relative:.3g}"


def failed_check(group: str, error: EngineError) -> Check:
    """A group that could not be checked: unsupported where no kernel is meant for it, else a failure."""
    status = "unsupported" if isinstance(error, Unsupported) else "fail"
    return Check(group, status, 0.0, 0.0, "", 0, 0, 0, (), (), (), str(error))
