"""Kernels for CPUs, executed on this machine and compared with the reference, all of their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.cpu.nodes import CppSource, CpuKernel
from engine.execution.native.run import ONCE, USUAL, Arrays, Measuring, measure_native
from engine.execution.nodes import Check, Emulation, Failure, Finding, Timing
from engine.support.errors import Fault
from engine.verify.compare import compare
from engine.verify.footprint import own_part
from engine.verify.model_run import LaunchRun
from engine.verify.rounding import followed_errors
from engine.verify.tolerance import Tolerance, group_tolerance, magnitude
from engine.verify.values import group_values

NATIVE = "native"
"""Level of a check that executes the compiled kernel itself."""
THREADS = (0, 1)
"""Threads of the runs that are compared: one on each core, and one alone."""


def check_native(kernel: CpuKernel, values: Arrays, before: Arrays, timeout: float) -> Check:
    """Execute a kernel with all threads and with one, its buffers at the edges of pages that nothing may touch.

    values: expected value of each array of the group's program.  before: its value before the launch, where that
    differs.
    """
    found = _KernelComparison(kernel, {**values, **before}, values)
    for threads in THREADS:
        how = replace(ONCE, threads=threads, timeout=timeout, at_end=True)
        run = measure_native([(kernel, found.given)], how)
        if isinstance(run, Failure):
            finding = Finding(run.kind, 0, run.message)
            return _result(kernel, found, (finding,), f"{run.kind}: {run.message}")
        found.compare(run[0].outputs)
    if found.wrong:
        return _result(kernel, found, (Finding("wrong result", 0, found.wrong),), found.wrong)
    return _result(kernel, found, (), "")


class _KernelComparison:
    """What the runs of a kernel were compared with, and how far they were off."""

    def __init__(self, kernel: CpuKernel, given: Arrays, expected: Arrays) -> None:
        self.kernel, self.given, self.expected = kernel, given, expected
        self.tolerance = self.allowed = group_tolerance(kernel.group)
        self.worst, self.compared, self.wrong = 0.0, 0, ""

    def compare(self, outputs: Arrays) -> None:
        """Compare what one run wrote."""
        program = self.kernel.group.program
        for name, got in outputs.items():
            part, right = own_part(program, name), self.expected[name].reshape(-1)
            own = compare(self.tolerance, got.reshape(-1)[part], right[part], magnitude(right))
            if own.wrong.any():
                inputs = {n: self.given[n].reshape(program.arrays[n].shape) for n in program.inputs}
                followed = followed_errors(program, inputs)
                own = own if followed is None else own.within(followed[name].reshape(-1)[part])
            self.compared += own.errors.size
            self.worst = max(self.worst, float(own.errors.max(initial=0.0)))
            self._allow(own.tolerance)
            if own.wrong.any() and not self.wrong:
                many, worst = int(own.wrong.sum()), float(own.errors[own.wrong].max())
                limit = f"{own.tolerance.relative:.3g} allowed"
                self.wrong = f"{many} of {own.errors.size} elements of {name} are off by {worst:.3g}, {limit}"

    def _allow(self, tolerance: Tolerance) -> None:
        if tolerance.relative > self.allowed.relative:
            self.allowed = tolerance


def _result(kernel: CpuKernel, found: _KernelComparison, findings: tuple[Finding, ...], message: str) -> Check:
    status = "fail" if findings or not found.compared else "pass"
    return Check(
        kernel.group.name, status, found.worst, found.allowed.relative, found.allowed.because, 1, 1, found.compared,
        findings=findings, message=message, levels={NATIVE: status},
    )  # fmt: skip


def run_native_kernel(
    kernel: CpuKernel, arrays: Mapping[str, np.ndarray], timeout: float
) -> dict[str, np.ndarray]:
    """What one launch writes.  Raises Fault for a crash or a hang."""
    found = measure_native([(kernel, arrays)], replace(ONCE, timeout=timeout))
    if isinstance(found, Failure):
        raise Fault("run", kernel.group.name, f"{found.kind}: {found.message}")
    return dict(found[0].outputs)


def native_run(kernel: CpuKernel) -> LaunchRun:
    """How a kernel runs on this machine, with arguments and results as of `emulate`."""

    def run(
        source: CppSource, arrays: Mapping[str, np.ndarray], *, blocks: Sequence[int] | None = None,
        order: str = "late", timeout: float = 120,
    ) -> tuple[Emulation, dict[str, np.ndarray], dict[str, np.ndarray]]:  # fmt: skip
        return Emulation("", 1, 1, (), ()), run_native_kernel(kernel, arrays, timeout), {}

    return run


def measure_checked(
    kernel: CpuKernel, seed: int, on_sample: Callable[[float], None] | None = None, how: Measuring = USUAL
) -> Timing | Failure:
    """Time a kernel on this machine; its result is compared with the reference before the time counts."""
    expected, before = group_values(kernel.group, seed)
    given = {**expected, **before}
    seen = None if on_sample is None else (lambda _, microseconds: on_sample(microseconds))
    found = measure_native([(kernel, given)], how, seen)
    if isinstance(found, Failure):
        return found
    compared = _KernelComparison(kernel, given, expected)
    compared.compare(found[0].outputs)
    if compared.wrong:
        return Failure("wrong result", f"{compared.wrong}, on values drawn from seed {seed}")
    checked = {"values": f"drawn from seed {seed}; the result agreed with the reference"}
    timing = found[0].timing
    return replace(timing, environment={**(timing.environment or {}), **checked})
