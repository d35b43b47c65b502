"""End-to-end check of a model on the CPU: every launch in order, fed with the results of earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.compilation import compile_group
from engine.execution.nodes import Check
from engine.execution.reference import input_values, operator_values, reference_values
from engine.fusion.nodes import FusionPlan, Launch
from engine.graph.nodes import is_float
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.support.errors import Fault, Unsupported
from engine.verify.footprint import own_part
from engine.verify.levels import SOURCE, KernelRun, find_run
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
    run = _ModelRun(plan, recipe, dict(input_values(graph, seed)), timeout, level)
    for number, launch in enumerate(plan.launches):
        if progress:
            progress(launch.group, number, len(plan.launches))
        run.launch(launch)
    expected = reference_values(graph, seed, wanted)
    checks = tuple(_compare(n, run.value(n).reshape(expected[n].shape), expected[n], run) for n in wanted)
    return ModelCheck(len(plan.launches), checks, tuple(run.by_reference))


class _ModelRun:
    """Tensor values while a graph's launches run."""

    def __init__(
        self, plan: FusionPlan, recipe: Recipe, values: dict[str, np.ndarray], timeout: float, level: str
    ) -> None:
        assert plan.source is not None
        self._plan, self._recipe, self._timeout, self._level = plan, recipe, timeout, level
        self._graph = plan.source
        self._values = values
        self._kernels: dict[str, Kernel] = {}
        self._without_kernel = {
            name: op for op in self._graph.operators if op.name in plan.unsupported for name in op.outputs if name
        }
        self.allowed, self.blocks, self.launches = 0.0, 0, 0
        self.by_reference: list[str] = []

    def value(self, tensor: str) -> np.ndarray:
        """A tensor; operators without a kernel run when somebody asks for what they make."""
        if tensor not in self._values and tensor in self._without_kernel:
            op = self._without_kernel[tensor]
            given = {name: self.value(name).reshape(self._shape(name)) for name in op.inputs if name}
            self._values.update(operator_values(self._graph, op, {**self._values, **given}))
            self.by_reference.append(op.name)
        return self._values[tensor]

    def _shape(self, tensor: str) -> tuple[int, ...]:
        """The shape that the graph gives a tensor; groups know it without its axes of one element."""
        known = self._graph.tensors.get(tensor)
        return known.shape if known else self._values[tensor].shape

    def launch(self, launch: Launch) -> None:
        """Run one launch."""
        if launch.group not in self._kernels:
            self._kernels[launch.group] = compile_group(self._plan.group(launch.group), self._recipe)
        kernel = self._kernels[launch.group]
        tensors = kernel.group.instances[launch.instance].arrays
        for name in kernel.group.program.inputs:
            self.value(tensors[name])
        run = find_run(self._level, kernel, checked=False)
        self._values.update(run_launch(kernel, launch.instance, self._values, run, self._timeout))
        self.allowed += on_tensor_cores(tolerance(kernel.group.program), kernel.tile.intrinsic).relative
        self.blocks += kernel.source.blocks
        self.launches += 1


def run_launch(
    kernel: Kernel, instance: int, values: Mapping[str, np.ndarray], run: KernelRun, timeout: float = 120.0
) -> dict[str, np.ndarray]:
    """Run one launch on the values of tensors; the whole tensors that it wrote to.

    A launch that writes a part of a tensor leaves the rest as earlier launches made it.  Raises Fault for what the
    emulator finds.
    """
    group = kernel.group
    own, declared = group.instances[instance], group.program.arrays
    arrays = {}
    for buffer in kernel.source.buffers:
        tensor = own.arrays[buffer.array]
        if tensor in values:
            arrays[buffer.array] = own.view(declared[buffer.array], values[tensor])
        elif buffer.read:  # of its own results: what lies there before the launch is not looked at
            arrays[buffer.array] = np.zeros(declared[buffer.array].shape, buffer.dtype)
    emulation, outputs, _ = run(kernel.source, arrays, timeout=timeout)
    for finding in emulation.findings:
        raise Fault("check", group.name, f"{finding.kind}: {finding.message}")
    written: dict[str, np.ndarray] = {}
    writers = Counter(own.arrays[name] for name in outputs)
    for name, value in outputs.items():
        tensor = own.arrays[name]
        if name not in own.parts and writers[tensor] == 1:
            written[tensor] = value.reshape(declared[name].shape)
            continue
        if tensor not in written:
            before, part = values.get(tensor), own.parts.get(name)
            size = part.whole if part else declared[name].elements
            written[tensor] = np.zeros(size, value.dtype) if before is None else before.copy()
        mine = own_part(group.program, name)
        own.view(declared[name], written[tensor]).reshape(-1)[mine] = value.reshape(-1)[mine]
    return written


def _compare(tensor: str, got: np.ndarray, expected: np.ndarray, run: _ModelRun) -> Check:
    """One output of the model as a check."""
    allowed = run.allowed
    if is_float(expected.dtype):
        right = expected.astype(np.float64)
        # Where all elements are the same, their size takes the place of their spread.
        spread = float(right.std()) or float(np.abs(right).max()) or 1.0
        # Rounding grows with an element: the one large probability of a softmax is 100 standard deviations from 0.
        error = float((np.abs(got.astype(np.float64) - right) / np.maximum(np.abs(right), spread)).max())
        because = f"the tolerances of {run.launches} launches added up, relative to an element or the output's spread"
    else:
        error, allowed = float(np.count_nonzero(got != expected)), 0.0
        because = "exact: integers and booleans"
    if run.by_reference:
        because += f"; without a kernel, run by the reference: {', '.join(run.by_reference)}"
    passed = error <= allowed
    message = "" if passed else f"largest error {error:.3g}, allowed {allowed:.3g}"
    status = "pass" if passed else "fail"
    return Check(
        tensor, status, error, allowed, because, run.blocks, run.blocks, got.size, ("late",), message=message
    )
