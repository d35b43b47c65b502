"""Runners: turn programs into times of one origin.

A runner is pickled to the process that does the work, so it is a plain value.  It works in two steps: `prepare` gives
the subject that a trial is kept under, and `finish` runs it, only where the records have no such trial.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.compilation import compile_for, predict_kernel
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.build import compiler_version, require_compiler
from engine.execution.native.build import flags_of
from engine.execution.nodes import MEASURED, PREDICTED, Failure, Timing
from engine.execution.nvrtc import nvrtc_version
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import Subject
from engine.support.errors import EngineError
from engine.tuning.compiler_pruning import compiled_limits
from engine.tuning.problem import arrays_of, why_not_followed

MODEL = "model of times 1"
"""Name and version of the model; part of the subject of predicted trials."""
COMPILE, NOT_TAKEN, PRUNED, NOT_RECORDED = "compile", "not taken", "pruned", "not recorded"
"""Kinds of failures of programs that never ran."""
VALUES = 0
"""Seed of the inputs of measured kernels; part of a trial's subject."""

_GPU = threading.Lock()
"""Held while a kernel is timed: threads of one worker share its GPU."""

Outcome = Timing | Failure


def this_process() -> str:
    """This process as "host:pid"."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program whose kernel is compiled."""

    subject: Subject | None = None
    """What its trial is kept under; None where there is no kernel, and `outcome` says why."""
    recipe: str = ""
    """JSON of what the group was compiled by; "" without a kernel."""
    outcome: Outcome | None = None
    """None where it has to be finished to be known."""
    worker: str = field(default_factory=this_process)
    """Process that did it."""


class Runner(Protocol):
    """Gives compiled programs a time of one origin."""

    @property
    def name(self) -> str:
        """As a user asks for it."""

    @property
    def origin(self) -> str:
        """Of all its times."""

    @property
    def needs_graph(self) -> bool:
        """Whether it compares results with a reference, for which it needs the graph of a group."""

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile a group under a recipe; what cannot be compiled is a Failure, never an error."""

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Run what was prepared and is not known."""


def compile_tuned(group: FusionGroup, recipe: Recipe) -> AnyKernel | Failure:
    """The kernel of a group, where it follows the recipe's entries of author `tune` as they stand."""
    try:
        kernel = compile_for(group, recipe)
    except EngineError as error:
        return Failure(COMPILE, error.reason)
    other = why_not_followed(kernel)
    return Failure(NOT_TAKEN, other) if other else kernel


def subject_of(
    kernel: AnyKernel, compiler: str, flags: tuple[str, ...] = (), values: int | None = None
) -> Subject:
    """What a result of a kernel depends on.  values: seed of those that it ran on."""
    source = kernel.source
    if isinstance(kernel, CpuKernel):
        launch = f"{kernel.target.title}, {kernel.target.cores.value:g} threads"
    else:
        launches = kernel.source.launches
        launch = "; ".join(f"grid {one.grid}, block {one.block}, {one.shared_bytes} bytes" for one in launches)
    inputs = arrays_of(kernel) + ("" if values is None else f", seed {values}")
    return Subject.of(source.text, launch, inputs, kernel.target.name, compiler, flags)


def recipe_of(kernel: AnyKernel) -> str:
    """JSON of the recipe of a kernel's own group."""
    return json.dumps(replace(kernel.recipe, groups={kernel.group.name: kernel.advice}).to_json())


@dataclass(frozen=True, slots=True)
class PredictedRunner:
    """Times of the model of the compiled kernel: no GPU, no compiler but ours."""

    name: str = PREDICTED
    origin: str = PREDICTED
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile and predict: there is nothing left to finish."""
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(outcome=kernel)
        try:
            found = predict_kernel(kernel)
        except EngineError as error:
            return Prepared(outcome=Failure(COMPILE, error.reason))
        outcome = Timing(PREDICTED, found.microseconds, environment={"note": found.note})
        return Prepared(subject_of(kernel, f"{MODEL}, {found.note}"), recipe_of(kernel), outcome)

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Never called: `prepare` gives the outcome."""
        raise AssertionError("a predicted time is known as soon as the kernel is compiled")


@dataclass(frozen=True, slots=True)
class MeasuredRunner:
    """Compiles here, and measures on this machine's GPU, or its CPU, in a child process."""

    measure: Callable[[AnyKernel], Outcome]
    """Runs, compares with the reference and times a kernel, on values of seed VALUES."""
    limits: Callable[[AnyKernel], str] = compiled_limits
    """Why the compiler's figures rule a kernel out; "" where they do not."""
    name: str = MEASURED
    origin: str = MEASURED
    needs_graph: bool = True

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile to machine code, which is cached on disk, and check its figures."""
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(outcome=kernel)
        broken = self.limits(kernel)
        if broken:
            return Prepared(outcome=Failure(PRUNED, broken))
        return Prepared(measured_subject(kernel), recipe_of(kernel))

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Launch and time it."""
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return kernel
        with _GPU:
            return self.measure(kernel)


def measured_subject(kernel: AnyKernel) -> Subject:
    """What a measured time depends on."""
    if isinstance(kernel, CpuKernel):
        return subject_of(kernel, compiler_version(require_compiler()), flags_of(kernel.target), VALUES)
    flags = (f"--gpu-architecture={kernel.target.architecture}",)
    return subject_of(kernel, f"NVRTC {nvrtc_version() or 'absent'}", flags, VALUES)


@dataclass(frozen=True, slots=True)
class ReplayedRunner:
    """Gives recorded times; kernels without one fail with `NOT_RECORDED`."""

    origin: str = MEASURED
    name: str = "replayed"
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile, to find the subject that its trial was kept under."""
        if self.origin == PREDICTED:
            found = PredictedRunner().prepare(group, recipe)
            return found if found.subject is None else replace(found, outcome=None)
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(outcome=kernel)
        return Prepared(measured_subject(kernel), recipe_of(kernel))

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Fail: recorded trials were found before."""
        return Failure(NOT_RECORDED, "no trial of this kernel is kept")
