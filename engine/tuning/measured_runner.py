"""The runner that measures on this machine's GPU; kernels that NVRTC's figures rule out are not launched."""

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
"""Seed of the inputs of measured kernels; part of a trial's subject."""

_GPU = threading.Lock()
"""Held while a kernel is timed: threads of one worker share its GPU."""


@dataclass(frozen=True, slots=True)
class MeasuredRunner:
    """Compiles here, and measures in a child process."""

    measure: Callable[[Kernel], Outcome]
    """Runs, compares with the reference and times a kernel, on values of seed VALUES."""
    limits: Callable[[Kernel], str] = compiled_limits
    """Why the compiler's figures rule a kernel out; "" where they do not."""
    name: str = MEASURED
    origin: str = MEASURED
    needs_graph: bool = True

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile to machine code, which is cached on disk, and check its figures."""
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
