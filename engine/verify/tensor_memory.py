"""Which tensors of a model lie in the same memory: one takes the place of another that no later launch touches, or that
its own launch reads last, element by element.

    b = f(a); c = g(b); d = h(c)        c lies where a did, d where b did: what is written was in the caches before
    y = a @ b + x                       y lies where x does
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
    for number, (launch, sizes) in enumerate(zip(plan.launches, touched, strict=True)):
        lent = _in_place(kernels[launch.group], launch.instance)
        for tensor, size in sizes.items():
            if tensor in blocks:
                continue
            over = lent.get(tensor, "")
            if tensor not in kept and over not in kept and last.get(over) == number and sizes[over] == size:
                blocks[tensor] = blocks[over]
                continue
            fitting = [block for block in free if made[block] >= size] if tensor not in kept else []
            if fitting:
                blocks[tensor] = min(fitting, key=lambda block: made[block])
                free.remove(blocks[tensor])
            else:
                blocks[tensor] = len(made)
                made.append(size)
        in_use = {blocks[tensor] for tensor in sizes if last[tensor] > number}
        ended = {blocks[tensor] for tensor in sizes if last[tensor] == number and tensor not in kept}
        free += sorted(ended - in_use)
    return TensorMemory(blocks, made)


def _in_place(kernel: CpuKernel, instance: int) -> Mapping[str, str]:
    """Tensor -> the one in whose memory a launch may write it: both whole, and each the other's only use here."""
    own = kernel.group.instances[instance]
    uses = [own.arrays[buffer.array] for buffer in kernel.source.buffers]
    pairs = {own.arrays[output]: own.arrays[given] for output, given in kernel.source.in_place.items()
             if not {output, given} & own.parts.keys()}  # fmt: skip
    return {tensor: over for tensor, over in pairs.items() if uses.count(tensor) == uses.count(over) == 1}


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
