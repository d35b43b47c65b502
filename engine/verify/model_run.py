"""The launches of a model in order, each fed with the results of earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from engine.compilation import compile_for
from engine.cpu.nodes import AnyKernel
from engine.execution import host_operators
from engine.execution.nodes import Emulation
from engine.execution.reference import operator_values
from engine.fusion.host_program import host_program
from engine.fusion.nodes import FusionPlan
from engine.graph.host import BRANCHES
from engine.graph.nodes import HostStep, Operator
from engine.recipe import Recipe
from engine.support.errors import BadInput, Fault
from engine.verify.footprint import own_part

LaunchRun = Callable[..., tuple[Emulation, dict[str, np.ndarray], dict[str, np.ndarray]]]
"""Runs a kernel's source on arrays, with arguments and results as of `emulate`."""


class ModelRun:
    """Tensor values while a graph's launches run."""

    def __init__(
        self,
        plan: FusionPlan,
        recipe: Recipe,
        values: dict[str, np.ndarray],
        find_run: Callable[[AnyKernel], LaunchRun],
        timeout: float,
    ) -> None:
        """values: of inputs and constants; results come beside them.  find_run: what of a kernel runs, and where."""
        assert plan.source is not None
        self._plan, self._recipe, self._timeout, self._find_run = plan, recipe, timeout, find_run
        self.graph = plan.source
        self._values = values
        self._kernels: dict[str, AnyKernel] = {}
        self._without_kernel = {
            name: op for op in self.graph.operators if op.name in plan.without_kernel for name in op.outputs if name
        }
        self._conditions = host_program(plan).conditions
        self.launched: list[AnyKernel] = []
        """The kernel of each launch so far."""
        self.by_reference: list[str] = []

    def value(self, tensor: str) -> np.ndarray:
        """A tensor; operators without a kernel run when somebody asks for what they make.

        Raises BadInput where the data decide otherwise than the plan is for.
        """
        if tensor not in self._values and tensor in self._without_kernel:
            op = self._without_kernel[tensor]
            step = self.graph.host.get(op.name)
            made = self._run_on_host(op) if step else self._run(op)
            if step and step.decisions:
                self._check_end(op, step)
                self._check_sizes(op, step, made)
            self._values.update(made)
            self.by_reference.append(op.name)
        known = self.graph.tensors.get(tensor)
        if known is not None and not known.elements:  # no kernel makes it
            self._values.setdefault(tensor, np.empty(known.shape, known.dtype))
        return self._values[tensor]

    def _check_sizes(self, op: Operator, step: HostStep, made: Mapping[str, np.ndarray]) -> None:
        for name, value in made.items():
            if value.shape != self._shape(name):
                found = f"gives {list(value.shape)}, the plan is for {list(self._shape(name))}"
                sizes = " ".join(
                    f"--dim {one.name}={1 - one.assumed if one.axis is None else made[one.tensor].shape[one.axis]}"
                    for one in step.decisions
                )
                raise BadInput("check", f"operator {op.name}", found, f"plan for these data: {sizes}")

    def _check_end(self, op: Operator, step: HostStep) -> None:
        """BadInput where a loop goes on after all steps that the plan has."""
        for one in step.decisions:
            if one.is_limit and bool(self.value(one.tensor).reshape(-1)[0]):
                found = f"the data ask for more than the {one.assumed} steps that the plan has"
                raise BadInput("check", op.name, found, f"plan for more: --dim {one.name}={2 * max(one.assumed, 1)}")

    def _run(self, op: Operator) -> Mapping[str, np.ndarray]:
        """The results of an operator by the reference implementation."""
        given = {name: self.value(name).reshape(self._shape(name)) for name in op.inputs if name}
        return operator_values(self.graph, op, {**self._values, **given})

    def _run_on_host(self, op: Operator) -> Mapping[str, np.ndarray]:
        """The results of an operator as the exported program computes them."""
        if op.kind == "If":
            branch = op.attributes[BRANCHES[0 if self.value(op.inputs[0]).reshape(-1)[0] else 1]]
            assert isinstance(branch, tuple)
            results = [self.value(str(name)).reshape(self._shape(str(name))) for name in branch]
        else:
            operands = [self.value(name).reshape(self._shape(name)) if name else np.empty(0) for name in op.inputs]
            try:
                results = list(host_operators.run(op.kind, operands, op.attributes))
            except (ValueError, ArithmeticError, MemoryError) as refused:
                reason = f"{op.kind} cannot be of these data: {refused}"
                raise BadInput("check", f"operator {op.name}", reason) from None
        return {name: value for name, value in zip(op.outputs, results, strict=False) if name}

    def _shape(self, tensor: str) -> tuple[int, ...]:
        """The shape that the graph gives a tensor; groups know it without its axes of one element."""
        known = self.graph.tensors.get(tensor)
        return known.shape if known else self._values[tensor].shape

    def launch(self, number: int) -> None:
        """Run one launch, by its place in the plan; none whose results nobody reads, as the data decide."""
        launch = self._plan.launches[number]
        conditions = self._conditions[number]
        if not all(bool(self.value(one.tensor).reshape(-1)[0]) == one.holds for one in conditions):
            return
        if launch.group not in self._kernels:
            self._kernels[launch.group] = compile_for(self._plan.group(launch.group), self._recipe)
        kernel = self._kernels[launch.group]
        tensors = kernel.group.instances[launch.instance].arrays
        for name in kernel.group.program.inputs:
            self.value(tensors[name])
        run = self._find_run(kernel)
        self._values.update(run_launch(kernel, launch.instance, self._values, run, self._timeout))
        self.launched.append(kernel)


def run_launch(
    kernel: AnyKernel, instance: int, values: Mapping[str, np.ndarray], run: LaunchRun, timeout: float = 120.0
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
        tensor, mine = own.arrays[name], own_part(group.program, name)
        if name not in own.parts and writers[tensor] == 1 and mine.all():
            written[tensor] = value.reshape(declared[name].shape)
            continue
        if tensor not in written:
            before, part = values.get(tensor), own.parts.get(name)
            size = part.whole if part else declared[name].elements
            written[tensor] = np.zeros(size, value.dtype) if before is None else before.copy()
        own.view(declared[name], written[tensor]).reshape(-1)[mine] = value.reshape(-1)[mine]
    return written
