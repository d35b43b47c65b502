"""A kernel whose values do not fit into memory, checked at a smaller size of the same file.

Outer axes that every access uses plainly are cut, the file's inputs with them; the reference runs the file with these,
and the kernel that the same recipe makes of the smaller group runs in place of the large one:

    x[345000000], 9.0 GiB of values  ->  x[11500032]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.compilation import compile_for
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import Check
from engine.fusion.nodes import FusionGroup
from engine.fusion.shrink import Shrunk, shrink
from engine.graph.load import load
from engine.graph.onnx import write_with_shapes
from engine.kernels.nodes import Kernel
from engine.support.budgets import MAX_REFERENCE_BYTES
from engine.support.errors import BadInput
from engine.verify.footprint import partition_faults
from engine.verify.kernel import check_kernel
from engine.verify.levels import KernelRun
from engine.verify.native import check_native
from engine.verify.values import bytes_of_values, group_values, refusal

AIM = MAX_REFERENCE_BYTES // 16
"""Bytes of values to cut to."""


def check_whole_or_cut(kernel: AnyKernel, seed: int, timeout: float, run: KernelRun = emulate) -> Check:
    """Check a kernel with the values of its whole launch, or, where these do not fit, with those of a part.

    seed: of the values.  timeout, run: as of `check_kernel`; a kernel for a CPU runs there.  Raises Unsupported as
    `cut_kernel`.
    """

    def check(one: AnyKernel) -> Check:
        given = group_values(one.group, seed)
        if isinstance(one, CpuKernel):
            return check_native(one, *given, timeout=timeout)
        return check_kernel(one, *given, timeout=timeout, run=run)

    small = cut_kernel(kernel)
    if small is None:
        return check(kernel)
    found = check(small)
    # What was counted is the smaller kernel's.
    blocks = kernel.source.blocks if isinstance(kernel, Kernel) else 1
    found = replace(found, group=kernel.group.name, blocks_run=0, blocks_total=blocks, counts=())
    faults = partition_faults(kernel.source, kernel.group.program) if isinstance(kernel, Kernel) else ()
    if faults:
        message = f"{faults[0].kind}: {faults[0].message}"
        return replace(found, status="fail", findings=(*faults, *found.findings), message=message)
    if found.status != "pass":
        return found
    inputs = (small.group.program.arrays[name] for name in small.group.program.inputs)
    sizes = ", ".join(f"{array.name}[{', '.join(map(str, array.shape))}]" for array in inputs)
    what = "blocks" if isinstance(kernel, Kernel) else "it"
    return replace(found, message=f"{refusal(kernel.group).reason}: {what} ran with {sizes}")


def cut_kernel(kernel: AnyKernel) -> AnyKernel | None:
    """The kernel of the same group with less of its outer axes; None where its values fit.

    Raises Unsupported where they do not, and no axis of the file can be cut, or the text is not what the recipe makes.
    """
    group, graph = kernel.group, kernel.group.graph
    needed = bytes_of_values(group)
    if needed <= MAX_REFERENCE_BYTES:
        return None
    points = max(s.points for s in group.program.statements)
    small = shrink(group, points * AIM // needed, no_further=True)
    shapes = None if small is None else _input_shapes(kernel, small)
    marked = max(group.program.arrays[name].elements for name in group.program.outputs)  # a byte each
    if small is None or shapes is None or graph is None or marked > MAX_REFERENCE_BYTES:
        raise refusal(group)
    if compile_for(group, kernel.recipe).source != kernel.source:
        raise refusal(group, ", and its text is not what its recipe makes")
    try:
        smaller = replace(small.group, graph=load(write_with_shapes(graph, shapes)))
    except BadInput as error:  # a shape that the file writes out
        raise refusal(group, f", and {error.reason}") from error
    whole = _uncut_tensor(smaller, small.cuts)
    if whole:
        raise refusal(group, f", and {whole} stays as large in a smaller file")
    return compile_for(smaller, kernel.recipe)


def _uncut_tensor(smaller: FusionGroup, cuts: Mapping[str, tuple[int, ...]]) -> str:
    """A tensor of the file, of another size than the group's array: a constant along an axis that was cut; else ""."""
    graph, program, instance = smaller.graph, smaller.program, smaller.instances[0]
    assert graph is not None
    ends = {*program.inputs, *program.outputs}
    tensors = ((name, array) for name, array in instance.arrays.items() if array in ends and name in graph.tensors)
    return next((n for n, array in tensors if math.prod(graph.tensors[n].shape) != math.prod(cuts[array])), "")


def _input_shapes(kernel: AnyKernel, small: Shrunk) -> Mapping[str, Sequence[int]] | None:
    """Input of the file -> its shape as the smaller group reads it; None where one is no array in the file's order."""
    group, graph = kernel.group, kernel.group.graph
    instance = group.instances[0]
    if graph is None or graph.source is None or instance.parts or instance.orders:
        return None
    arrays = {instance.arrays[name]: name for name in group.program.inputs}
    if not arrays.keys() >= set(graph.inputs):
        return None
    shapes: dict[str, Sequence[int]] = {}
    for name in graph.inputs:
        array, shape = arrays[name], list(graph.tensors[name].shape)
        # Axes of one element are no part of a program's arrays.
        places = [at for at, size in enumerate(shape) if size > 1]
        axes = [axis for axis, size in enumerate(group.program.arrays[array].shape) if size > 1]
        if [shape[at] for at in places] != [group.program.arrays[array].shape[axis] for axis in axes]:
            return None
        for at, axis in zip(places, axes, strict=True):
            shape[at] = small.cuts[array][axis]
        shapes[name] = shape
    return shapes
