"""A whole model on the CPU: every launch in order, each fed with what the launches before it made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.compile import Kernel, compile_group
from engine.errors import Unsupported
from engine.fuse.nodes import FusionPlan
from engine.recipe import Recipe
from engine.run.emulate.emulate import emulate
from engine.run.nodes import Check
from engine.run.reference import input_values, reference_values
from engine.verify.tolerance import tolerance

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """An end-to-end run: one check for each output, errors in units of the output's standard deviation."""

    launches: int
    checks: tuple[Check, ...]

    @property
    def status(self) -> str:
        """ "pass" where every output does, else "fail"."""
        return "pass" if self.checks and all(c.status == "pass" for c in self.checks) else "fail"


def check_model(
    plan: FusionPlan, recipe: Recipe, *, seed: int = 0, timeout: float = 600.0, progress: Progress | None = None
) -> ModelCheck:
    """Run all launches of a plan and compare the graph's outputs with the reference.

    The tolerance of an output is the sum of the tolerances of all launches, relative to its standard deviation.
    Raises Unsupported when the plan does not cover the graph.
    """
    graph = plan.source
    if graph is None or plan.unsupported:
        names = ", ".join(list(plan.unsupported)[:3])
        raise Unsupported("check", plan.graph, f"no kernel for {names}", "verify the groups one by one")
    values: dict[str, np.ndarray] = dict(input_values(graph, seed))
    kernels: dict[str, Kernel] = {}
    allowed, blocks = 0.0, 0
    for number, launch in enumerate(plan.launches):
        if progress:
            progress(launch.group, number, len(plan.launches))
        if launch.group not in kernels:
            kernels[launch.group] = compile_group(plan.group(launch.group), recipe)
        kernel = kernels[launch.group]
        values.update(_launch(kernel, launch.instance, values, timeout))
        allowed += tolerance(kernel.group.program).relative
        blocks += kernel.source.grid[0]
    updated = [update.target for update in graph.updates]
    wanted = tuple(dict.fromkeys((*graph.outputs, *updated)))
    expected = reference_values(graph, seed, wanted)
    checks = tuple(
        _compare(n, values[n].reshape(expected[n].shape), expected[n], allowed, blocks, len(plan.launches))
        for n in wanted
    )
    return ModelCheck(len(plan.launches), checks)


def _launch(kernel: Kernel, instance: int, values: Mapping[str, np.ndarray], timeout: float) -> dict[str, np.ndarray]:
    """Run one launch; the arrays it wrote, by tensor name, in the group's shape.

    A launch that writes a part of an array leaves the rest as earlier launches made it.
    """
    tensors = kernel.group.instances[instance].arrays
    arrays = {b.array: values[tensors[b.array]] for b in kernel.source.buffers if b.read or tensors[b.array] in values}
    emulation, outputs, _ = emulate(kernel.source, arrays, checked=False, timeout=timeout)
    if emulation.findings:
        raise Unsupported("check", kernel.group.name, f"the run ended early: {emulation.findings[0].message}")
    shapes = {name: kernel.group.program.arrays[name].shape for name in outputs}
    return {tensors[name]: value.reshape(shapes[name]) for name, value in outputs.items()}


def _compare(
    tensor: str, got: np.ndarray, expected: np.ndarray, allowed: float, blocks: int, launches: int
) -> Check:
    """One output of the model as a check."""
    if expected.dtype.kind == "f":
        right = expected.astype(np.float64)
        # Where all elements are the same, their size takes the place of their spread.
        spread = float(right.std()) or float(np.abs(right).max()) or 1.0
        error = float(np.abs(got.astype(np.float64) - right).max() / spread)
        because = f"the tolerances of {launches} launches added up, in standard deviations of the output"
    else:
        error, allowed = float(np.count_nonzero(got != expected)), 0.0
        because = "exact: integers and booleans"
    passed = error <= allowed
    message = "" if passed else f"largest error {error:.3g}, allowed {allowed:.3g}"
    return Check(
        group=tensor,
        status="pass" if passed else "fail",
        max_error=error,
        tolerance=allowed,
        tolerance_because=because,
        blocks_run=blocks,
        blocks_total=blocks,
        elements_compared=got.size,
        orders=("late",),
        findings=(),
        counts=(),
        message=message,
    )
