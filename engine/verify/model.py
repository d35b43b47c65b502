"""End-to-end check of a model on the CPU: every launch in order, fed with the results of earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.execution.nodes import Check
from engine.execution.reference import input_values, reference_values
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import is_float
from engine.recipe import Recipe
from engine.support.errors import Unsupported
from engine.verify.levels import SOURCE, find_run
from engine.verify.model_run import ModelRun
from engine.verify.tolerance import on_tensor_cores, tolerance

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """An end-to-end run: one check for each output, errors relative to an element or the output's spread."""

    launches: int
    checks: tuple[Check, ...]
    by_reference: tuple[str, ...] = ()
    """Operators without a kernel, which the reference implementation ran between the launches."""

    @property
    def status(self) -> str:
        """ "pass" where every output does, else "fail"."""
        return "pass" if self.checks and all(c.status == "pass" for c in self.checks) else "fail"


def check_model(
    plan: FusionPlan, recipe: Recipe, *, seed: int = 0, timeout: float = 600.0, level: str = SOURCE,
    progress: Progress | None = None,
) -> ModelCheck:  # fmt: skip
    """Run all launches of a plan and compare the graph's outputs with the reference.

    Operators that the plan does not cover run in the reference implementation, on what the launches made.  The
    tolerance of an output is the sum of the tolerances of all launches, relative to the larger of an element's own size
    and the output's standard deviation.
    level: what of a kernel runs, as of `find_run`.  Raises Unsupported when the reference lacks an operator too.
    """
    graph = plan.source
    if graph is None:
        raise Unsupported("check", plan.graph, "the plan comes from no graph", "fuse a graph")
    updated = [update.target for update in graph.updates]
    wanted = tuple(dict.fromkeys((*graph.outputs, *updated)))
    if not wanted:
        names = ", ".join(list(plan.unsupported)[:3])
        raise Unsupported("check", plan.graph, f"no output is known without a kernel for {names}")
    run = ModelRun(plan, recipe, dict(input_values(graph, seed)), partial(find_run, level, checked=False), timeout)
    for number, launch in enumerate(plan.launches):
        if progress:
            progress(launch.group, number, len(plan.launches))
        run.launch(launch)
    allowed = sum(on_tensor_cores(tolerance(k.group.program), k.tile.intrinsic).relative for k in run.launched)
    expected = reference_values(graph, seed, wanted)
    checks = tuple(_compare(n, run.value(n).reshape(expected[n].shape), expected[n], run, allowed) for n in wanted)
    return ModelCheck(len(plan.launches), checks, tuple(run.by_reference))


def _compare(tensor: str, got: np.ndarray, expected: np.ndarray, run: ModelRun, allowed: float) -> Check:
    """One output of the model as a check."""
    blocks = sum(kernel.source.blocks for kernel in run.launched)
    if is_float(expected.dtype):
        right = expected.astype(np.float64)
        # Where all elements are the same, their size takes the place of their spread.
        spread = float(right.std()) or float(np.abs(right).max()) or 1.0
        # Rounding grows with an element: the one large probability of a softmax is 100 standard deviations from 0.
        error = float((np.abs(got.astype(np.float64) - right) / np.maximum(np.abs(right), spread)).max())
        added = f"the tolerances of {len(run.launched)} launches added up"
        because = f"{added}, relative to an element or the output's spread"
    else:
        error, allowed = float(np.count_nonzero(got != expected)), 0.0
        because = "exact: integers and booleans"
    if run.by_reference:
        because += f"; without a kernel, run by the reference: {', '.join(run.by_reference)}"
    passed = error <= allowed
    message = "" if passed else f"largest error {error:.3g}, allowed {allowed:.3g}"
    status = "pass" if passed else "fail"
    return Check(
        tensor, status, error, allowed, because, blocks, blocks, got.size, ("late",), message=message
    )
