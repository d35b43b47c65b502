"""End-to-end check of a model on the CPU: every launch in order, fed with the results of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.exact import exact_values
from engine.execution.nodes import Check
from engine.execution.reference import input_values, reference_values
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import OperatorGraph, is_float
from engine.recipe import Recipe
from engine.support.errors import BadInput, OverBudget, Unsupported
from engine.verify.condition import DRAWS, MARGIN, WIDER, OutputLimits, even_limits, find_limits
from engine.verify.kernel import kernel_rounding
from engine.verify.levels import SOURCE, find_run
from engine.verify.model_run import LaunchRun, ModelRun
from engine.verify.native import NATIVE, native_run
from engine.verify.tolerance import tolerance

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
        """ "fail" where an output does, "unsupported" where none could be compared, else "pass"."""
        found = {check.status for check in self.checks}
        return "fail" if "fail" in found or not found else "pass" if "pass" in found else "unsupported"


def check_model(
    plan: FusionPlan, recipe: Recipe, *, seed: int = 0, timeout: float = 600.0, level: str = SOURCE,
    progress: Progress | None = None,
) -> ModelCheck:  # fmt: skip
    """Run all launches of a plan and compare the graph's outputs with the reference.

    Operators that the plan does not cover run in the reference implementation, on what the launches made.  Each element
    has its own limit (`engine.verify.condition`); an output that fails is compared with the reference in double
    precision, too: a reference that is less exact than a kernel does not call it wrong.
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
    run = ModelRun(plan, recipe, dict(input_values(graph, seed)), _find_run(level), timeout)
    for number, launch in enumerate(plan.launches):
        if progress:
            progress(launch.group, number, len(plan.launches))
        run.launch(number)
    expected = reference_values(graph, seed, wanted)
    results = {name: run.value(name).reshape(expected[name].shape) for name in wanted}
    filled = {name: value for name, value in expected.items() if value.size}
    limits, because = _find_limits(graph, filled, run.launched, seed) if filled else ({}, "")
    comparison = _Comparison(run, because)
    checks = {
        name: comparison.check(name, results[name], expected[name], limits[name])
        if name in filled else Check(name, "unsupported", message="not compared: these data give it no elements")
        for name in wanted
    }  # fmt: skip
    if wrong := [name for name, check in checks.items() if check.status == "fail"]:
        for name, exact in _exact(graph, wrong, seed).items():
            again = comparison.check(name, results[name], exact, limits[name])
            if again.status == "pass":
                doubted = f"in double precision; ONNX Runtime differs by {checks[name].max_error:.2g}"
                checks[name] = replace(again, tolerance_because=f"{again.tolerance_because}, {doubted}")
    return ModelCheck(len(plan.launches), tuple(checks.values()), tuple(run.by_reference))


def _find_run(level: str) -> Callable[[AnyKernel], LaunchRun]:
    """How each kernel runs: one for a CPU on this machine, others at a level."""
    return lambda kernel: (
        native_run(kernel) if isinstance(kernel, CpuKernel) else find_run(level, kernel, checked=False)
    )


def _find_limits(
    graph: OperatorGraph, expected: Mapping[str, np.ndarray], launched: Sequence[AnyKernel], seed: int
) -> tuple[Mapping[str, OutputLimits], str]:
    """The limits of outputs, with their reason; from the roundings of all launches where no noise can be put in."""
    try:
        found = find_limits(graph, expected, launched, seed)
        runs = f"{DRAWS} runs of the reference with {WIDER}-fold roundings"
        return found, f"{MARGIN} times what an element moves by in {runs}"
    except (Unsupported, BadInput):
        relative = sum(_tolerance(kernel) for kernel in launched)
        because = f"the tolerances of {len(launched)} launches added up, relative to an element or the output's spread"
        return {name: even_limits(right, relative) for name, right in expected.items()}, because


def _tolerance(kernel: AnyKernel) -> float:
    if isinstance(kernel, CpuKernel):
        return tolerance(kernel.group.program).relative
    return tolerance(kernel.group.program, kernel=kernel_rounding(kernel)).relative


def _exact(graph: OperatorGraph, names: Sequence[str], seed: int) -> Mapping[str, np.ndarray]:
    """Some outputs in double precision; none where nothing computes them so."""
    try:
        return exact_values(graph, names, input_values(graph, seed))
    except (Unsupported, OverBudget):
        return {}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What is said of each output of a run."""

    run: ModelRun
    because: str
    """Where limits come from."""

    def check(self, tensor: str, got: np.ndarray, expected: np.ndarray, limits: OutputLimits) -> Check:
        """One output of the model as a check."""
        blocks = sum(1 if isinstance(k, CpuKernel) else k.source.blocks for k in self.run.launched)
        errors = limits.errors(got, expected)
        worst = limits.worst(errors)
        error, allowed = float(errors.flat[worst]), float(limits.relative.flat[worst])
        because = self.because if is_float(expected.dtype) else "exact: integers and booleans"
        if left_out := got.size - limits.compared:
            because += f"; {left_out} of {got.size} elements move too much to be compared"
        host = self.run.graph.host
        for who, names in (
            ("on the host", [name for name in self.run.by_reference if name in host]),
            ("without a kernel, run by the reference", [name for name in self.run.by_reference if name not in host]),
        ):
            because += f"; {who}: {', '.join(names)}" if names else ""
        status, message = "pass", ""
        if not error <= allowed:
            status, message = "fail", f"largest error {error:.3g}, allowed {allowed:.3g}"
        elif left_out > got.size // 2:
            status = "unsupported"
            message = f"not compared: rounding alone moves {left_out} of {got.size} elements by more than they are"
        is_native = all(isinstance(kernel, CpuKernel) for kernel in self.run.launched)
        return Check(
            tensor, status, error, allowed, because, blocks, blocks, limits.compared, () if is_native else ("late",),
            message=message, levels={NATIVE: status} if is_native else {},
        )  # fmt: skip
