"""The mappings of a contraction as tasks: every intrinsic that a kernel can be generated with, and CUDA cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.kernels.gemm.advise import advise_tiles
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.space import CUDA_CORES, DECIDED, Products, task_of
from engine.kernels.gemm.work import problem_of
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.prune import asked_intrinsic
from engine.kernels.space import Refused, Task
from engine.kernels.tuned_entries import with_tuned_entries
from engine.recipe import Recipe
from engine.support.errors import EngineError
from engine.tensor.nodes import Statement
from engine.tensorize.abstractions import ABSTRACTIONS
from engine.tensorize.bind import axes_of_contraction, contraction_misfit, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.mappings import IntrinsicMapping, mappings
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.product import products


def product_tasks(group: FusionGroup, kernel: Kernel, compile_group: Compile) -> tuple[list[Task], list[Refused]]:
    """A task for each mapping of a contraction that has a kernel, that of `kernel` first; why others have none."""
    anchor = next(s for s in kernel.program.statements if is_contraction(s))
    found: list[Task] = []
    refused: list[Refused] = []
    for intrinsic in _intrinsics(anchor, kernel):
        task = _task(group, kernel, intrinsic, compile_group)
        if isinstance(task, str):
            refused.append(Refused(intrinsic.name if intrinsic else CUDA_CORES, task))
        else:
            found.append(task)
    now = kernel.tile.intrinsic or CUDA_CORES
    return sorted(found, key=lambda task: task.name != now), refused


def _intrinsics(anchor: Statement, kernel: Kernel) -> Iterator[Intrinsic | None]:
    """What computes the contraction, and None for CUDA cores; alone what the user asks for, where that is one."""
    wish = asked_intrinsic(kernel)
    for intrinsic in INTRINSICS.values():
        misfit = contraction_misfit(anchor, kernel.program.arrays, intrinsic)
        if wish in ("", intrinsic.name) and not misfit and is_allowed(intrinsic, kernel.recipe.numerics):
            yield intrinsic
    if not wish:
        yield None


def _task(group: FusionGroup, kernel: Kernel, intrinsic: Intrinsic | None, compile_group: Compile) -> Task | str:
    """The task of one mapping, or why it has no kernel."""
    made, name = kernel, intrinsic.name if intrinsic else CUDA_CORES
    entries, _ = advise_tiles(kernel.program, intrinsic, kernel.target)
    if (kernel.tile.intrinsic or CUDA_CORES) != name:
        try:
            made = compile_group(group, with_tuned_entries(kernel.recipe, group, DECIDED, entries))
        except EngineError as error:
            return error.reason
    axes = gemm_axes(made.program)
    if axes is None or config_of_tile(made.tile) is None or (made.tile.intrinsic or CUDA_CORES) != name:
        return "its kernel has no tiles of two plain factors"
    kept = tuple(e for e in entries if isinstance(e.value, tuple) and e.value[0] == "intrinsic")
    problem = problem_of(made.program, intrinsic)
    family = Products(group, name, axes, problem, made.target, kept)
    return task_of(family, kernel)


def refused_mappings(group: FusionGroup, recipe: Recipe) -> list[Refused]:
    """The mappings of a group's sum to all intrinsics that code generation cannot apply, counted by reason."""
    sums = [s for s in group.program.statements if s.reduction is not None]
    anchor = next((s for s in sums if is_contraction(s)), sums[0] if sums else None)
    forms = products(anchor, group.program.arrays) if anchor else "no statement is a sum"
    if anchor is None or isinstance(forms, str):
        return []
    found: list[Refused] = []
    for name, abstraction in ABSTRACTIONS.items():
        listed = mappings(forms, abstraction)
        if isinstance(listed, str):
            found.append(Refused(name, listed, 0))
            continue
        reasons = Counter(why_no_kernel(mapping, anchor, group, recipe) for mapping in listed)
        found += [Refused(name, because, count) for because, count in reasons.items() if because]
    return found


def why_no_kernel(mapping: IntrinsicMapping, anchor: Statement, group: FusionGroup, recipe: Recipe) -> str:
    """Why no kernel can be generated for a mapping; "" where one can be tried."""
    name = mapping.abstraction.name
    if mapping.abstraction.why_not:
        return mapping.abstraction.why_not
    if mapping.product.because:
        return f"{mapping.product.because}: kernels multiply arrays, this factor is none"
    misfit = contraction_misfit(anchor, group.program.arrays, INTRINSICS[name])
    if misfit:
        return misfit
    if mapping.is_swapped:
        return "kernels take the factors as they are written"
    axes = axes_of_contraction(anchor)
    if mapping.product.splits or mapping.axes != (axes.rows, axes.columns, axes.depth):
        return f"kernels put all iterators of a side on its axis: {axes}"
    if not is_allowed(INTRINSICS[name], recipe.numerics):
        need = INTRINSICS[name]
        return f'{need.because}; the recipe\'s numerics must say "tensor_cores": "{need.numerics}"'
    return ""
