"""The mappings of a group's contraction: which of them a search tries, a task each, and why it tries no others.

To every intrinsic that a kernel can be generated with: all iterators of a side on its axis, and the cheapest with loops
around the intrinsic.  Then CUDA cores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from engine.cost.estimate import model_microseconds
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_groups
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.kernels.gemm.advise import advise_tiles
from engine.kernels.gemm.outer_loops import AXIS, OUTER
from engine.kernels.gemm.problem import config_of_tile, gemm_axes, product_misfit
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.space import DECIDED, GemmTemplate, mapping_name, task_of
from engine.kernels.gemm.work import work
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.prune import asked_intrinsic, user_entries
from engine.kernels.space import Refused, Task
from engine.kernels.tuned_entries import kind_of, with_tuned_entries
from engine.recipe import Recipe
from engine.support.errors import EngineError, Unsupported
from engine.tensor.nodes import Statement
from engine.tensorize.abstractions import ABSTRACTIONS
from engine.tensorize.bind import axes_of_contraction, contraction_misfit, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.mappings import IntrinsicMapping, mappings
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.product import ProductForm, products

MOST_MAPPINGS = 4
"""To one intrinsic that a search tries.  With CUDA cores there are five: the fewest of which the sampling rule leaves
some out of a round."""
CONSIDERED = 8
"""With the fewest multiplications, of which the estimate chooses."""
DEARER = (
    f"a search tries {MOST_MAPPINGS} mappings to an intrinsic: all iterators on its axes, and of the {CONSIDERED} with "
    "the fewest multiplications those of the least estimated time"
)


@dataclass(frozen=True, slots=True)
class _Placement:
    """What a mapping puts the contraction on."""

    intrinsic: Intrinsic | None
    """None for CUDA cores."""
    outer: tuple[str, ...] = ()
    """As `GemmAxes.outer`."""

    @property
    def name(self) -> str:
        """Of the mapping."""
        return mapping_name(self.intrinsic.name if self.intrinsic else "", self.outer)


def product_tasks(group: FusionGroup, kernel: Kernel, compile_group: Compile) -> tuple[list[Task], list[Refused]]:
    """A task for each mapping of a contraction that is tried, that of `kernel` first; why there is none of others."""
    found: list[Task] = []
    refused: list[Refused] = []
    for one in _placements(kernel):
        task = _task(group, kernel, one, compile_group)
        if isinstance(task, str):
            refused.append(Refused(one.name, task))
        else:
            found.append(task)
    now = _name_of(kernel)
    tried = {task.name for task in found} | {one.mapping for one in refused}
    dearer = refused_mappings(group, kernel.recipe, tried)
    return sorted(found, key=lambda task: task.name != now), [*dearer, *refused]


def _name_of(kernel: Kernel) -> str:
    """The mapping of a kernel."""
    config = config_of_tile(kernel.tile)
    return mapping_name(kernel.tile.intrinsic, config.outer if config else ())


def _placements(kernel: Kernel) -> Iterator[_Placement]:
    """What computes the contraction; alone what the user asks for, where that is one.

    Loops around an intrinsic ask for one.
    """
    wish = asked_intrinsic(kernel)
    wants_one = wish or any(entry.value == (AXIS, OUTER) for entry in user_entries(kernel))
    for intrinsic in INTRINSICS.values():
        misfit = product_misfit(kernel.program, intrinsic)
        if wish in ("", intrinsic.name) and not misfit and is_allowed(intrinsic, kernel.recipe.numerics):
            yield from (_Placement(intrinsic, outer) for outer in _outer_loops(kernel, intrinsic))
    if not wants_one:
        yield _Placement(None)


def _outer_loops(kernel: Kernel, intrinsic: Intrinsic) -> list[tuple[str, ...]]:
    """The loops around an intrinsic in each mapping to it that is tried: those of the kernel, none, the cheapest."""
    config = config_of_tile(kernel.tile)
    now = config.outer if config and kernel.tile.intrinsic == intrinsic.name else ()
    if any(kind_of(entry) == AXIS for entry in user_entries(kernel)):
        return [now]
    first = list(dict.fromkeys((now, ())))
    cheapest = [outer for outer in _cheapest(kernel, intrinsic) if outer not in first][:CONSIDERED]

    def estimate_of(outer: tuple[str, ...]) -> float:
        try:
            _, best = advise_tiles(kernel.program, intrinsic, kernel.target, outer)
        except Unsupported:
            return math.inf
        gemm = fused_gemm(kernel.program, intrinsic, outer)
        return model_microseconds(work(gemm, best, kernel.target), kernel.target)

    return [*first, *sorted(cheapest, key=estimate_of)[: MOST_MAPPINGS - len(first)]]


def _cheapest(kernel: Kernel, intrinsic: Intrinsic) -> list[tuple[str, ...]]:
    """The loops around an intrinsic in each mapping to it that has a kernel, fewest multiplications first."""
    anchor, forms, _ = mapped_sum(kernel.group)
    listed = mappings(forms, ABSTRACTIONS[intrinsic.name]) if forms else ""
    if anchor is None or isinstance(listed, str):
        return []
    return [
        _outer_names(mapping, anchor, kernel.group)
        for mapping in listed
        if not why_no_kernel(mapping, anchor, kernel.group, kernel.recipe)
    ]


def mapped_sum(group: FusionGroup) -> tuple[Statement | None, Sequence[ProductForm], str]:
    """The sum of a group that is mapped, None without one; the ways in which it is one of products; why there is none.
    """
    sums = [s for s in group.program.statements if s.reduction is not None]
    anchor = next((s for s in sums if is_contraction(s)), sums[0] if sums else None)
    forms = products(anchor, group.program.arrays) if anchor else "no statement of the group is a sum"
    return (anchor, (), forms) if isinstance(forms, str) else (anchor, forms, "")


def _task(group: FusionGroup, kernel: Kernel, one: _Placement, compile_group: Compile) -> Task | str:
    """The task of one mapping, or why it has no kernel."""
    made = kernel
    try:
        entries, best = advise_tiles(kernel.program, one.intrinsic, kernel.target, one.outer)
        if _name_of(kernel) != one.name:
            made = compile_group(group, with_tuned_entries(kernel.recipe, group, DECIDED, entries))
    except EngineError as error:
        return error.reason
    axes = gemm_axes(made.program, one.outer)
    if axes is None or config_of_tile(made.tile) is None or _name_of(made) != one.name:
        return "its kernel has no tiles of two plain factors"
    # Programs decide all marks but the instruction and the loops around it, which are the mapping's own.
    kept = tuple(entry for entry in entries if kind_of(entry) in ("intrinsic", AXIS))
    gemm = fused_gemm(made.program, one.intrinsic, one.outer)
    template = GemmTemplate(
        group, one.name, axes, gemm, made.target, kept, advised=best if one.outer else None
    )  # fmt: skip
    return task_of(template, kernel)


def refused_mappings(group: FusionGroup, recipe: Recipe, tried: Collection[str] = ()) -> list[Refused]:
    """The mappings of a group's sum to all intrinsics that are not searched, counted by reason.

    tried: names of mappings that are, or of which more is known.
    """
    anchor, forms, _ = mapped_sum(group)
    if anchor is None or not forms:
        return []
    found: list[Refused] = []
    for name, abstraction in ABSTRACTIONS.items():
        listed = mappings(forms, abstraction)
        if isinstance(listed, str):
            found.append(Refused(name, listed, 0))
            continue
        reasons: Counter[str] = Counter()
        for mapping in listed:
            why_not = why_no_kernel(mapping, anchor, group, recipe)
            if not why_not and mapping_name(name, _outer_names(mapping, anchor, group)) not in tried:
                why_not = DEARER
            reasons[why_not] += 1
        found += [Refused(name, because, count) for because, count in reasons.items() if because]
    return found


def _outer_names(mapping: IntrinsicMapping, anchor: Statement, group: FusionGroup) -> tuple[str, ...]:
    """The loops around the intrinsic of a mapping that has a kernel, as `GemmAxes.outer`."""
    columns = reduced_columns(group.program.statements, anchor)
    return axes_of_contraction(anchor, columns, loops_around(mapping)).outer


def loops_around(mapping: IntrinsicMapping) -> tuple[str, ...]:
    """Names of the iterators that stay loops around the intrinsic."""
    return tuple(i.name for i in mapping.whole_iterators(mapping.outer))


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
    if mapping.cuts:
        cut = ", ".join(f"{name} by {by}" for name, by in mapping.cuts)
        return f"kernels take whole iterators, and this mapping cuts {cut}"
    walked = reduced_columns(group.program.statements, anchor)
    if set(walked) & set(loops_around(mapping)):
        return f"its kernel reduces results along {' '.join(walked)}: blocks have all of them on an axis"
    taken = axes_of_contraction(anchor, walked, loops_around(mapping))
    if not taken.has(*map(mapping.whole_iterators, mapping.axes)):
        why = f"its kernel reduces results along {' '.join(walked)}" if walked else "with these loops around"
        return f"{why}: the axes are {taken}"
    if taken.outer and len(part_groups(group)) > 1:
        return "products that share a launch have no loops around the intrinsic"
    if not is_allowed(INTRINSICS[name], recipe.numerics):
        need = INTRINSICS[name]
        return f'{need.because}; the recipe\'s numerics must say "tensor_cores": "{need.numerics}"'
    return ""
