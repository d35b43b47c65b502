"""A whole model on this machine's CPU: every launch of a plan in one process, which is timed from end to end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.compilation import compile_for
from engine.cpu.nodes import CpuKernel
from engine.execution.native.build import library, require_features
from engine.execution.native.run import (
    USUAL,
    Measuring,
    NativeBuffer,
    NativeJob,
    NativeLaunch,
    run_native,
    timing_of,
)
from engine.execution.nodes import Failure, Timing
from engine.execution.reference import input_values
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import DTYPES, OperatorGraph
from engine.recipe import Recipe
from engine.support.errors import Unsupported
from engine.target.machines import cpu


@dataclass(frozen=True, slots=True, eq=False)
class ModelTiming:
    """The time of all launches, and the graph's outputs after the first run."""

    timing: Timing
    outputs: Mapping[str, np.ndarray]


def measure_model(
    plan: FusionPlan, recipe: Recipe, values: Mapping[str, np.ndarray] | None = None, how: Measuring = USUAL
) -> ModelTiming | Failure:
    """Run and time all launches of a plan for a CPU.  values: of inputs and constants; by default those of seed 0.

    Raises Unsupported where an operator has no kernel, or the host has a part in it.
    """
    graph = plan.source
    if graph is None or plan.without_kernel:
        names = ", ".join(list(plan.without_kernel)[:3]) or "it comes from no graph"
        raise Unsupported("measure", plan.graph, f"not all of it are kernels: {names}", "measure its kernels alone")
    require_features(cpu(recipe.target))
    memory = _Tensors(graph, input_values(graph, 0) if values is None else values)
    launches = []
    kernels: dict[str, CpuKernel] = {}
    for launch in plan.launches:
        if launch.group not in kernels:
            kernel = compile_for(plan.group(launch.group), recipe)
            assert isinstance(kernel, CpuKernel)
            kernels[launch.group] = kernel
        launches.append(memory.launch(kernels[launch.group], launch.instance))
    wanted = [memory.numbers[name] for name in graph.outputs]
    job = NativeJob(memory.buffers, [launches], wanted, how.rounds, how.samples, 0, how.threads)
    found = run_native(job, how.timeout)
    if isinstance(found, Failure):
        return found
    outputs = {}
    for name, number in zip(graph.outputs, wanted, strict=True):
        tensor = graph.tensors[name]
        outputs[name] = np.frombuffer(found.outputs[number], np.dtype(tensor.dtype)).reshape(tensor.shape)
    return ModelTiming(timing_of(found.samples[0], how, cpu(recipe.target)), outputs)


class _Tensors:
    """The memory of a model's tensors, each of which has a buffer once a launch touches it."""

    def __init__(self, graph: OperatorGraph, values: Mapping[str, np.ndarray]) -> None:
        self._graph, self._values = graph, values
        self.buffers: list[NativeBuffer] = []
        self.numbers: dict[str, int] = {}

    def launch(self, kernel: CpuKernel, instance: int) -> NativeLaunch:
        """A call of a kernel on the tensors of one of its places."""
        own, source = kernel.group.instances[instance], kernel.source
        places = []
        for buffer in source.buffers:
            part, size = own.parts.get(buffer.array), DTYPES[buffer.dtype]
            elements = part.whole if part else buffer.elements
            number = self._number(own.arrays[buffer.array], elements * size)
            places.append((number, part.first * size if part else 0))
        for size in source.prepared:
            self.buffers.append(NativeBuffer(size))
            places.append((len(self.buffers) - 1, 0))
        return NativeLaunch(library(source, kernel.target), source.entry, bool(source.prepared), tuple(places))

    def _number(self, tensor: str, size: int) -> int:
        if tensor not in self.numbers:
            declared = self._graph.tensors.get(tensor)
            if declared is not None:
                size = math.prod(declared.shape) * DTYPES[declared.dtype]
            self.numbers[tensor] = len(self.buffers)
            self.buffers.append(NativeBuffer(size, self._values.get(tensor)))
        return self.numbers[tensor]
