"""Which tensors of a model lie in the same memory: one takes the place of another that no later launch touches.

    b = f(a); c = g(b); d = h(c)        c lies where a did, d where b did: what is written was in the caches before
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.cpu.nodes import CpuKernel
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import DTYPES


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Blocks of memory, and which of them holds a tensor."""

    blocks: Mapping[str, int]
    """Tensor -> its block."""
    sizes: Sequence[int]
    """Bytes of each block."""


def share_memory(plan: FusionPlan, kernels: Mapping[str, CpuKernel], kept: Collection[str]) -> TensorMemory:
    """The memory of all tensors that launches touch.  kernels: by group.  kept: tensors with a block of their own."""
    touched = [_sizes(plan, kernels[launch.group], launch.instance) for launch in plan.launches]
    last = {tensor: number for number, sizes in enumerate(touched) for tensor in sizes}
    blocks: dict[str, int] = {}
    made: list[int] = []
    free: list[int] = []
    for number, sizes in enumerate(touched):
        for tensor, size in sizes.items():
            if tensor in blocks:
                continue
            fitting = [block for block in free if made[block] >= size] if tensor not in kept else []
            if fitting:
                blocks[tensor] = min(fitting, key=lambda block: made[block])
                free.remove(blocks[tensor])
            else:
                blocks[tensor] = len(made)
                made.append(size)
        free += [blocks[tensor] for tensor in sizes if last[tensor] == number and tensor not in kept]
    return TensorMemory(blocks, made)


def _sizes(plan: FusionPlan, kernel: CpuKernel, instance: int) -> Mapping[str, int]:
    """Tensor -> bytes, of those that a launch touches."""
    own = kernel.group.instances[instance]
    tensors = plan.source.tensors if plan.source else {}
    found: dict[str, int] = {}
    for buffer in kernel.source.buffers:
        part, tensor = own.parts.get(buffer.array), own.arrays[buffer.array]
        declared = tensors.get(tensor)
        elements = math.prod(declared.shape) if declared else part.whole if part else buffer.elements
        found[tensor] = elements * DTYPES[declared.dtype if declared else buffer.dtype]
    return found
