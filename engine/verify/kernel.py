"""Check a kernel against an independent implementation.

The CUDA text, or the PTX that it is compiled to, runs on the CPU in two thread and copy orders.  A large launch runs a
sample of blocks that holds every kind of boundary; then the index maps of all blocks must partition what the group
writes, and the same group at a smaller size, under the same recipe, runs too: in full, where its axes can be cut far
enough.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.compilation import compile_group
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS, Check, Finding, SiteCount
from engine.fusion.shrink import Shrunk, shrink
from engine.kernels.nodes import Kernel
from engine.support.errors import EngineError, Unsupported
from engine.tensor.numerics import is_opmath
from engine.tensor.terms import HALVES
from engine.tile.source import CudaSource
from engine.verify.compare import ElementComparison, compare
from engine.verify.footprint import boundary_blocks, own_part, partition_faults, written_by
from engine.verify.levels import KernelRun, work_of
from engine.verify.rounding import followed_errors
from engine.verify.tolerance import KernelRounding, Tolerance, group_tolerance, magnitude, operand_roundoff

Values = Mapping[str, np.ndarray]

WORK = 60_000_000
"""Cost of one emulated order, in operations and bytes, above which blocks are sampled."""
SMALLER = WORK // 16
"""Largest size of a reduced group: points of its widest statement."""
SAMPLE = 4
"""Blocks of a sample besides the boundary ones."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Those of one array after a launch, in a row."""

    got: np.ndarray
    right: np.ndarray
    wrote: np.ndarray
    """bool: which ones to compare."""
    largest: float
    """Of what is right, by `magnitude`."""


@dataclass(slots=True)
class _KernelRuns:
    """A kernel emulated over a sample of its blocks, and what the runs have shown."""

    kernel: Kernel
    timeout: float
    run_blocks: KernelRun
    tolerance: Tolerance
    """Of every element, whatever the values are."""
    allowed: Tolerance | None = None
    """The largest that an element was allowed where errors were followed through the values."""
    findings: dict[tuple[str, int, str], Finding] = field(default_factory=dict)
    counts: tuple[SiteCount, ...] = ()
    worst: float = 0.0
    compared: int = 0
    blocks_run: int = -1
    """Blocks that both orders finished; -1 before the first run."""

    def add(self, finding: Finding) -> None:
        """Keep a finding; one of the same kind, line and message is kept once."""
        self.findings.setdefault((finding.kind, finding.line, finding.message), finding)

    def run(self, arrays: Values, expected: Values, blocks: Sequence[int]) -> None:
        """Run both orders of some blocks; what they write must be what the index maps say, and right.

        arrays: values before the launch.  expected: values of the group's outputs after it.
        """
        source = self.kernel.source
        for fault in partition_faults(source, self.kernel.group.program):
            self.add(fault)
        inputs = {b.array: arrays[b.array] for b in source.buffers if b.read}
        footprints = {b.array: written_by(source, b.array, b.elements, blocks) for b in source.buffers if b.written}
        largest = {name: magnitude(expected[name]) for name in footprints}
        for order in ORDERS:
            emulation, outputs, masks = self.run_blocks(
                source, inputs, blocks=blocks, order=order, timeout=self.timeout
            )
            ran = emulation.blocks_run
            self.blocks_run = ran if self.blocks_run < 0 else min(self.blocks_run, ran)
            self.counts = self.counts or emulation.counts
            for finding in emulation.findings:
                self.add(finding)
            for name, should in footprints.items():
                wrote = masks[name].reshape(-1)
                self._compare_masks(name, wrote, should)
                found = Elements(outputs[name].reshape(-1), expected[name].reshape(-1), wrote, largest[name])
                self._compare_values(name, found, arrays)

    def _compare_masks(self, name: str, wrote: np.ndarray, should: np.ndarray) -> None:
        """Compare what was stored of an array with what had to be."""
        source = self.kernel.source
        if (wrote != should).any():
            element = int(np.flatnonzero(wrote != should)[0])
            kind = "not written" if should[element] else "stray write"
            message = f"element {element} of {name}: the index maps and the run disagree"
            self.add(Finding(kind, _store_line(source, name), message))

    def _compare_values(self, name: str, elements: Elements, given: Values) -> None:
        """Compare one array with its reference.  given: values before the launch."""
        compared = compare_elements(self.kernel, self.tolerance, name, elements, given)
        self.compared += compared.errors.size
        self.worst = max(self.worst, float(compared.errors.max(initial=0.0)))
        self._allow(compared.tolerance)
        if compared.wrong.any() and not any(f.kind == "wrong result" for f in self.findings.values()):
            self.add(_wrong(self.kernel.source, name, np.flatnonzero(elements.wrote), compared))

    def _allow(self, tolerance: Tolerance) -> None:
        if tolerance != self.tolerance and (self.allowed is None or tolerance.relative > self.allowed.relative):
            self.allowed = tolerance

    def run_smaller(self, small: Shrunk, compiled: Kernel, values: Values, before: Values) -> None:
        """Run the group at a smaller size too: its index maps, and every block that is affordable."""
        whole = {**values, **before}
        inner = _KernelRuns(compiled, self.timeout, self.run_blocks, self.tolerance)
        inner.run(
            {name: small.slice(name, whole[name]) for name in small.cuts if name in whole},
            {name: small.slice(name, values[name]) for name in small.group.program.outputs},
            # Of several launches a sample is of the first alone: here all of them run.
            range(compiled.source.blocks) if compiled.source.later else sample_blocks(compiled),
        )
        self.worst, self.compared = max(self.worst, inner.worst), self.compared + inner.compared
        self._allow(inner.allowed or inner.tolerance)
        for finding in inner.findings.values():
            self.add(replace(finding, message=f"at a smaller size: {finding.message}"))

    def check(self) -> Check:
        """The result, for the user."""
        wanted = self.allowed or self.tolerance
        # `not <=` instead of `>`: an error that is not a number fails.
        failed = self.findings or not self.worst <= wanted.relative or not self.compared
        findings = tuple(sorted(self.findings.values(), key=lambda f: (f.line, f.kind)))
        return Check(
            self.kernel.group.name, "fail" if failed else "pass", self.worst, wanted.relative, wanted.because,
            self.blocks_run, self.kernel.source.blocks, self.compared, ORDERS, findings, counts=self.counts,
            message=self._why() if failed else "",
        )  # fmt: skip

    def _why(self) -> str:
        if self.findings:
            first = next(iter(self.findings.values()))
            return f"{first.kind}: {first.message}"
        if not self.compared:
            return "nothing was compared"
        return f"largest error {self.worst:.3g}, allowed {(self.allowed or self.tolerance).relative:.3g}"


def check_kernel(
    kernel: Kernel, values: Values, before: Values, timeout: float = 120.0, run: KernelRun = emulate
) -> Check:
    """Run a kernel on the CPU and compare every element it writes.

    values: expected value of each array of the group's program.  before: its value before the launch, where that
    differs (buffers updated in place).  timeout: seconds for one run.  run: what of the kernel runs.
    """
    whole = {**values, **before}
    runs = _KernelRuns(kernel, timeout, run, kernel_tolerance(kernel))
    small = smaller(kernel)
    blocks = sample_blocks(kernel) if small or not kernel.source.later else range(kernel.source.blocks)
    runs.run(whole, {name: values[name] for name in kernel.group.program.outputs}, blocks)
    if small:
        runs.run_smaller(*small, values, before)
    return runs.check()


def kernel_tolerance(kernel: Kernel) -> Tolerance:
    """Allowed error of a correct kernel, whatever its values are."""
    return group_tolerance(kernel.group, kernel_rounding(kernel))


def kernel_rounding(kernel: Kernel) -> KernelRounding:
    """What a kernel rounds: under `opmath` between its operators only what it hands on in memory or on tensor cores."""
    tile = kernel.tile
    handed_on = {b.dtype for one in tile.launches for b in one.buffers.values() if b.scope in ("shared", "workspace")}
    between = not is_opmath(kernel.recipe.numerics) or bool(tile.intrinsic) or not handed_on.isdisjoint(HALVES)
    return KernelRounding(operand_roundoff(tile.intrinsic), between)


def compare_elements(
    kernel: Kernel, found: Tolerance, name: str, elements: Elements, given: Values
) -> ElementComparison:
    """Compare an array of a kernel where it was written: errors are followed where they are above the tolerance.

    given: values before the launch, of the kernel's inputs at least.
    """
    wrote = elements.wrote
    compared = compare(found, elements.got[wrote], elements.right[wrote], elements.largest)
    if not compared.wrong.any():
        return compared
    program = kernel.group.program
    inputs = {n: given[n].reshape(program.arrays[n].shape) for n in program.inputs}
    followed = followed_errors(program, inputs, kernel_rounding(kernel))
    return compared if followed is None else compared.within(followed[name].reshape(-1)[wrote])


def sample_blocks(kernel: Kernel) -> tuple[int, ...]:
    """The blocks to run: all of a small kernel; of a large one whole split-K groups of the boundary blocks and others,
    by a fixed seed.

    Blocks of later launches need all those before: of a large kernel with several only the first launch runs.
    """
    total = kernel.source.blocks
    affordable = max(SAMPLE, int(WORK * total / max(work_of(kernel), 1)))
    if affordable >= total:
        return tuple(range(total))
    first = kernel.source.launches[0].blocks
    others = random.Random(0).sample(range(first), min(first, max(SAMPLE, affordable // 2)))
    return kernel.source.whole_teams((*boundary_blocks(kernel.source), *others))


def _wrong(source: CudaSource, array: str, elements: np.ndarray, compared: ElementComparison) -> Finding:
    """The worst element as a finding at the store that wrote it."""
    errors = np.where(compared.wrong, compared.errors, 0.0)
    worst, many = int(errors.argmax()), int(compared.wrong.sum())
    message = f"{many} of {errors.size} elements of {array} are wrong, worst element {int(elements[worst])}"
    return Finding("wrong result", _store_line(source, array), f"{message}, off by {errors[worst]:.3g}")


def _store_line(source: CudaSource, array: str) -> int:
    """The line that stores to a global array."""
    lines = source.text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if f"{array}.store" in line), 0)


def wrong_result(kernel: Kernel, outputs: Values, expected: Values) -> str:
    """What is wrong with a launch's outputs, or "".  expected: values of what is read, too."""
    wanted = kernel_tolerance(kernel)
    for name, got in outputs.items():
        part = own_part(kernel.group.program, name)
        elements = Elements(got.reshape(-1), expected[name].reshape(-1), part, magnitude(expected[name]))
        compared = compare_elements(kernel, wanted, name, elements, expected)
        if compared.wrong.any():
            worst = float(compared.errors[compared.wrong].max())
            return f"{name} is off by {worst:.3g}, allowed {compared.tolerance.relative:.3g}"
    return ""


def smaller(kernel: Kernel) -> tuple[Shrunk, Kernel] | None:
    """The group cut to a smaller size and its kernel, if blocks of the large launch are only sampled; else None."""
    small = shrink(kernel.group, SMALLER) if len(sample_blocks(kernel)) < kernel.source.blocks else None
    return None if small is None else (small, compile_group(small.group, kernel.recipe))


def failed_check(group: str, error: EngineError) -> Check:
    """A group that could not be checked: unsupported where no kernel is meant for it, else a failure."""
    status = "unsupported" if isinstance(error, Unsupported) else "fail"
    return Check(group, status, message=str(error))
