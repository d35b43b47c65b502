"""Kernels for all sizes of one dimension: what they need at each, whether they are right there, and what they lose.

Whoever launches them reads that from a file beside the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.api import compile, fuse, load, predict
from engine.cpu.nodes import AnyKernel
from engine.execution.nodes import Check
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import SizeRange
from engine.kernels.nodes import Kernel
from engine.support.errors import EngineError, Unsupported
from engine.support.files import replace_whole, unwritable
from engine.target.machines import is_cpu
from engine.verify import size_range
from engine.verify.levels import find_run
from engine.verify.size_range import RangedPlan
from engine.verify.values import group_values

FILE = "sizes.json"
NOT_LAUNCHED, NAME_GPU = "its kernels have no blocks to leave out", "name a GPU, or give the dimension one size"


def for_sizes(plan: FusionPlan, name: str, low: int, high: int) -> RangedPlan:
    """A plan whose kernels serve all sizes of a dimension: those below `high`, which it is made for, with fewer blocks.

        plan = engine.fuse(engine.load("model.onnx", {"batch": 64}))
        ranged = engine.for_sizes(plan, "batch", 1, 64)
        ranged.blocks(engine.compile(plan.group("matmul_0")), 5)

    Arrays are those of the largest size at any size; what lies beyond a smaller one is undefined afterwards, and
    integers there have to be valid places, such as zeros.  Raises BadInput for sizes that are no range or do not end at
    the plan's, Unsupported for a CPU, and, naming a tensor, where the dimension is not outermost.
    """
    if is_cpu(plan.target):
        raise Unsupported("range", plan.graph, f"is planned for {plan.target}, a CPU: {NOT_LAUNCHED}", NAME_GPU)
    return RangedPlan.of(plan, SizeRange(name, low, high))


def check_sizes(ranged: RangedPlan, kernel: AnyKernel, seed: int = 0, level: str = "source") -> Check:
    """Run a kernel at some sizes below the largest, with what lies beyond them spoilt.

    level: as of `engine.check`.  Raises Unsupported for a group that makes rows of one size from those of others.
    """
    own = _for_gpu(kernel)
    values, _ = group_values(own.group, seed)
    return size_range.check_sizes(ranged, own, values, find_run(level, own))


def size_loss(ranged: RangedPlan, size: int) -> tuple[float, float]:
    """(microseconds of the kernels for all sizes at one of them, of kernels that are made for it alone), predicted.

    Raises BadInput for a size that is not one of them.
    """
    ranged.sizes.check(size)
    plan, source = ranged.plan, ranged.plan.source
    assert source is not None and source.source is not None
    alone = fuse(load(source.source, {**source.dimensions, ranged.sizes.name: size}), plan.target, plan.policy)
    every = sum(ranged.microseconds(_for_gpu(compile(group)), size) * len(group.instances) for group in plan.groups)
    return every, sum(predict(compile(group)).microseconds * len(group.instances) for group in alone.groups)


def _for_gpu(kernel: AnyKernel) -> Kernel:
    """A kernel of which a launch may have fewer blocks."""
    if not isinstance(kernel, Kernel):
        raise Unsupported("range", kernel.group.name, f"runs on a CPU: {NOT_LAUNCHED}", NAME_GPU)
    return kernel


def write_sizes(ranged: RangedPlan, kernels: Iterable[Kernel], folder: Path) -> dict[str, Any]:
    """Write `sizes.json`: which tensors grow, how many blocks each kernel needs up to which size, and what the kernels
    lose against such as are made for one size alone, predicted; its content is returned.

    Raises BadInput where the folder cannot be written.
    """
    sizes = ranged.sizes
    predicted = []
    for size in (*ranged.checked_sizes(), sizes.high):
        try:
            every, alone = size_loss(ranged, size)
        except EngineError:  # a size at which a plan of its own cannot be had
            continue
        predicted.append({"size": size, "microseconds": every, "microseconds_alone": alone})
    found = {
        "dimension": sizes.name, "from": sizes.low, "to": sizes.high, "rows": dict(ranged.tensors),
        "blocks": {kernel.group.name: ranged.grids(kernel) for kernel in kernels}, "predicted": predicted,
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_whole(folder / FILE, (json.dumps(found, indent=1) + "\n").encode())
    except OSError as error:
        raise unwritable(folder, "generate", error) from error
    return found
