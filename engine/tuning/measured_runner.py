"""Times of this machine's GPU: what NVRTC's figures rule out is dropped before it is launched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from engine.execution.nodes import MEASURED, Failure
from engine.execution.nvrtc import nvrtc_version
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.records.nodes import Subject
from engine.tuning.compiler_pruning import compiled_limits
from engine.tuning.runner import PRUNED, Outcome, Prepared, compile_tuned, recipe_of, subject_of, this_process

VALUES = 0
"""Seed of the values that kernels are measured on: part of what a trial is kept under."""

_GPU = threading.Lock()
"""Whatever threads a worker has, one kernel at a time is timed on its GPU."""


@dataclass(frozen=True, slots=True)
class MeasuredRunner:
    """Kernels launched by a process of its own, which may crash or hang alone."""

    measure: Callable[[Kernel], Outcome]
    """Runs, compares with the reference and times a kernel, on values of seed VALUES."""
    limits: Callable[[Kernel], str] = compiled_limits
    """Why the compiler's figures rule a kernel out; "" where they do not."""
    name: str = MEASURED
    origin: str = MEASURED
    needs_graph: bool = True

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile to machine code, which is kept on disk, and ask its figures."""
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(None, "", kernel, this_process())
        broken = self.limits(kernel)
        if broken:
            return Prepared(None, "", Failure(PRUNED, broken), this_process())
        return Prepared(measured_subject(kernel), recipe_of(kernel), None, this_process())

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Launch and time it."""
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return kernel
        with _GPU:
            return self.measure(kernel)


def measured_subject(kernel: Kernel) -> Subject:
    """What a measured time depends on."""
    flags = (f"--gpu-architecture={kernel.target.architecture}",)
    return subject_of(kernel, f"NVRTC {nvrtc_version() or 'absent'}", flags, VALUES)
