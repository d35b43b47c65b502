"""The mappings of a contraction as tasks: every intrinsic that a kernel can be generated with, and CUDA cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.kernels.gemm.advise_cuda_cores import map_contraction
from engine.kernels.gemm.advise_row_epilogue import row_binding
from engine.kernels.gemm.advise_tensor_cores import entries_for
from engine.kernels.gemm.problem import config_of_tile, sides_of
from engine.kernels.gemm.promise import problem_of, promise_of
from engine.kernels.gemm.space import CUDA_CORES, DECIDED, GemmTemplate, task_of
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.prune import asked_intrinsic
from engine.kernels.space import Refused, Task
from engine.kernels.tuned_entries import with_tuned_entries
from engine.recipe import Entry, Recipe
from engine.support.errors import EngineError
from engine.tensor.nodes import Statement
from engine.tensorize.abstractions import ABSTRACTIONS
from engine.tensorize.bind import Binding, bind, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.mappings import IntrinsicMapping, mappings
from engine.tensorize.product import products


@dataclass(frozen=True, slots=True)
class _Mapping:
    """One way to compute a contraction, and the entries that ask for it with the tiles that advisers would give."""

    name: str
    entries: tuple[Entry, ...]


def product_tasks(
    group: FusionGroup, kernel: Kernel, compile_group: Compile
) -> tuple[list[Task], list[Refused]]:
    """A task for each mapping of a contraction that has a kernel, that of `kernel` first; why others have none."""
    anchor = next(s for s in kernel.program.statements if is_contraction(s))
    found: list[Task] = []
    refused: list[Refused] = []
    for mapping in _mappings(anchor, kernel):
        task = _task(group, kernel, mapping, compile_group)
        if isinstance(task, str):
            refused.append(Refused(mapping.name, task))
        else:
            found.append(task)
    now = kernel.tile.intrinsic or CUDA_CORES
    return sorted(found, key=lambda task: task.name != now), refused


def _mappings(anchor: Statement, kernel: Kernel) -> Iterator[_Mapping]:
    """What binds, and CUDA cores; alone what the user asks for, where that is an intrinsic."""
    machine, program = kernel.target, kernel.program
    wish = asked_intrinsic(kernel)
    for intrinsic in INTRINSICS.values():
        binding = bind(anchor, program.arrays, intrinsic)
        is_wanted = wish in ("", intrinsic.name)
        if is_wanted and isinstance(binding, Binding) and is_allowed(intrinsic, kernel.recipe.numerics):
            binding = row_binding(program.statements, anchor, binding)
            promise = promise_of(machine, program, intrinsic)
            entries = entries_for(anchor, binding, intrinsic, machine, promise)
            yield _Mapping(intrinsic.name, tuple(entries))
    if not wish:
        advice = map_contraction(kernel.group.program, machine, promise_of(machine, program, None))
        yield _Mapping(CUDA_CORES, advice.scenario.entries)


def _task(group: FusionGroup, kernel: Kernel, mapping: _Mapping, compile_group: Compile) -> Task | str:
    """The task of one mapping, or why it has no kernel."""
    made = kernel
    if (kernel.tile.intrinsic or CUDA_CORES) != mapping.name:
        try:
            made = compile_group(group, with_tuned_entries(kernel.recipe, group, DECIDED, mapping.entries))
        except EngineError as error:
            return error.reason
    sides = sides_of(made.program)
    if sides is None or config_of_tile(made.tile) is None or (made.tile.intrinsic or CUDA_CORES) != mapping.name:
        return "its kernel has no tiles of two plain factors"
    kept = tuple(e for e in mapping.entries if isinstance(e.value, tuple) and e.value[0] == "intrinsic")
    problem = problem_of(made.program, INTRINSICS.get(made.tile.intrinsic))
    family = GemmTemplate(group, mapping.name, sides, problem, made.target, kept)
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
    binding = bind(anchor, group.program.arrays, INTRINSICS[name])
    if isinstance(binding, str):
        return binding
    if mapping.is_swapped:
        return "kernels take the factors as they are written"
    wanted = (binding.rows, binding.columns, binding.depth)
    if mapping.product.splits or mapping.axes != wanted:
        return f"kernels put all iterators of a side on its axis: {binding}"
    if not is_allowed(INTRINSICS[name], recipe.numerics):
        need = INTRINSICS[name]
        return f'{need.because}; the recipe\'s numerics must say "tensor_cores": "{need.numerics}"'
    return ""
