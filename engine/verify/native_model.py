"""A whole model on this machine's CPU: every launch of a plan in one process, which is timed from end to end."""

from __future__ import annotations

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
from engine.graph.nodes import DTYPES
from engine.recipe import Recipe
from engine.support.errors import Unsupported
from engine.target.machines import cpu
from engine.verify.tensor_memory import TensorMemory, share_memory


@dataclass(frozen=True, slots=True, eq=False)
class ModelTiming:
    """The time of all launches, and the graph's outputs after the first run."""

    timing: Timing
    outputs: Mapping[str, np.ndarray]


def measure_model(
    plan: FusionPlan, recipe: Recipe, values: Mapping[str, np.ndarray] | None = None, how: Measuring = USUAL
) -> ModelTiming | Failure:
    """Run and time all launches of a plan for this machine's CPU, on warm caches; arrays share memory.

    values: of inputs and constants; by default those of seed 0.  Results are not compared: `check_model` does that.
    Raises Unsupported where an operator has no kernel, or the host has a part in it.
    """
    graph = plan.source
    if graph is None or plan.without_kernel:
        names = ", ".join(list(plan.without_kernel)[:3]) or "it comes from no graph"
        raise Unsupported("measure", plan.graph, f"not all of it are kernels: {names}", "measure its kernels alone")
    require_features(cpu(recipe.target))
    values = input_values(graph, 0) if values is None else values
    kernels = compile_launched(plan, recipe)
    memory = share_memory(plan, kernels, {*values, *graph.outputs})
    held = {block: values[tensor] for tensor, block in memory.blocks.items() if tensor in values}
    buffers = [NativeBuffer(size, held.get(block)) for block, size in enumerate(memory.sizes)]
    launches = [_launch(kernels[launch.group], launch.instance, memory, buffers) for launch in plan.launches]
    wanted = [memory.blocks[name] for name in graph.outputs]
    job = NativeJob(buffers, [launches], wanted, how.rounds, how.samples, 0, how.threads)
    found = run_native(job, how.timeout)
    if isinstance(found, Failure):
        return found
    outputs = {}
    for name, number in zip(graph.outputs, wanted, strict=True):
        tensor = graph.tensors[name]
        outputs[name] = np.frombuffer(found.outputs[number], np.dtype(tensor.dtype)).reshape(tensor.shape)
    return ModelTiming(timing_of(found.samples[0], how, cpu(recipe.target)), outputs)


def compile_launched(plan: FusionPlan, recipe: Recipe) -> Mapping[str, CpuKernel]:
    """The kernels of all groups that have launches, by group."""
    kernels: dict[str, CpuKernel] = {}
    for launch in plan.launches:
        if launch.group not in kernels:
            kernel = compile_for(plan.group(launch.group), recipe)
            assert isinstance(kernel, CpuKernel)
            kernels[launch.group] = kernel
    return kernels


def _launch(kernel: CpuKernel, instance: int, memory: TensorMemory, buffers: list[NativeBuffer]) -> NativeLaunch:
    """A call of a kernel on the tensors of one of its places; what it prepares gets a buffer."""
    own, source = kernel.group.instances[instance], kernel.source
    places = []
    for buffer in source.buffers:
        part = own.parts.get(buffer.array)
        places.append((memory.blocks[own.arrays[buffer.array]], part.first * DTYPES[buffer.dtype] if part else 0))
    for size in source.prepared:
        buffers.append(NativeBuffer(size))
        places.append((len(buffers) - 1, 0))
    return NativeLaunch(library(source, kernel.target), source.entry, bool(source.prepared), tuple(places))
