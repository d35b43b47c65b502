"""The mappings of a group to intrinsics, as entries of a recipe; compiled where today's kernels can take them."""

from __future__ import annotations

from collections.abc import Callable

from engine.compilation import compile_group
from engine.documents import mappings as documents
from engine.documents.mappings import MappingDoc, MappingsDoc, RefusedDoc
from engine.execution.nodes import Check
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_groups
from engine.kernels.advice import mark
from engine.kernels.family import Setting
from engine.kernels.gemm.advise import advise_tiles
from engine.kernels.gemm.mapping_tasks import loops_around, mapped_sum, why_no_kernel
from engine.kernels.gemm.outer_loops import outer_entries
from engine.kernels.gemm.problem import gemm_axes
from engine.kernels.nodes import Kernel
from engine.kernels.packed.advise import pack_group
from engine.recipe import Advice, Entry, Recipe, Scenario
from engine.scheduling.nodes import HONOURED
from engine.support.errors import EngineError
from engine.target import target
from engine.target.machines import refuse_cpu
from engine.tensor.nodes import Iterator, Statement
from engine.tensorize.abstractions import ABSTRACTIONS
from engine.tensorize.bind import GemmAxes
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.mappings import UNIT, IntrinsicMapping, mappings

Checker = Callable[[Kernel], Check]


def group_mappings(group: FusionGroup, recipe: Recipe, check: Checker | None = None) -> MappingsDoc:
    """Every mapping of a group's sum of products to every intrinsic of the table.

    check: compares a kernel with the reference; without it mappings that have a kernel are only compiled.
    Raises Unsupported for a CPU.
    """
    refuse_cpu(group.name, recipe.target)
    anchor, forms, why_none = mapped_sum(group)
    if anchor is None or not forms:
        refused = tuple(RefusedDoc(name, why_none) for name in ABSTRACTIONS)
        return MappingsDoc(group.name, anchor.name if anchor else "", "", "", (), refused)
    found: list[MappingDoc] = []
    reasons: list[RefusedDoc] = []
    for name, abstraction in ABSTRACTIONS.items():
        listed = mappings(forms, abstraction)
        if isinstance(listed, str):
            reasons.append(RefusedDoc(name, listed))
        else:
            found += [_document(mapping, anchor, group, recipe, check) for mapping in listed]
    return MappingsDoc(group.name, anchor.name, str(forms[0]), forms[0].because, tuple(found), tuple(reasons))


def entries_of(mapping: IntrinsicMapping, anchor: Statement, group: FusionGroup, recipe: Recipe) -> tuple[Entry, ...]:
    """The entries of author `tensorize` that ask for a mapping.

    Where a kernel can take it, with the tiles that the adviser would give, for products that share a launch all of
    theirs; else what the mapping itself says: cuts of iterators, the intrinsic on the summed loop, a tile of the
    intrinsic on each axis, and which loops are around it.
    """
    if not why_no_kernel(mapping, anchor, group, recipe):
        machine = target(recipe.target)
        if len(part_groups(group)) > 1:
            return pack_group(group, Setting(machine, recipe.numerics)).scenario.entries
        return advise_tiles(group.program, INTRINSICS[mapping.abstraction.name], machine, loops_around(mapping))[0]
    names = (anchor.name,)
    entries = [
        Entry(names, iterator, "split", by, because="an index divides it: groups of channels")
        for iterator, by in mapping.cuts
    ]
    own = mapping.abstraction.product
    for axis, iterators, tiled in zip(own.iterators, mapping.axes, mapping.tiled_axes(), strict=True):
        real = [i for i in iterators if not i.name.startswith(UNIT)]
        if not real:
            continue
        if axis.name in own.reduced:
            entries.append(_intrinsic(names, real, mapping))
        because = f"{axis.name} of the intrinsic is {' '.join(i.name for i in real)}: {tiled.tiles} tiles"
        what = "tile" if axis.name in own.reduced else "block"
        entries.append(mark(names, real[-1].name, what, axis.extent, because))
    return (*entries, *outer_entries(anchor.name, loops_around(mapping)))


def _intrinsic(names: tuple[str, ...], summed: list[Iterator], mapping: IntrinsicMapping) -> Entry:
    because = f"{mapping}; {mapping.padding:.0%} of the products fill tiles"
    return Entry(names, summed[-1].name, "mark", ("intrinsic", mapping.abstraction.name), because=because)


def _document(
    mapping: IntrinsicMapping, anchor: Statement, group: FusionGroup, recipe: Recipe, check: Checker | None
) -> MappingDoc:
    entries = entries_of(mapping, anchor, group, recipe)
    why_not = why_no_kernel(mapping, anchor, group, recipe)
    state = documents.LISTED
    if not why_not:
        state, why_not = _try_kernel(mapping, entries, anchor, group, recipe, check)
    flat = mapping.flat_indices()
    axes = (
        documents.IntrinsicAxisDoc(
            a.name, tuple(i.name for i in of), str(flat[a.name]), a.extent, a.size, a.tiles, a.padding
        )
        for a, of in zip(mapping.tiled_axes(), mapping.axes, strict=True)
    )
    return MappingDoc(
        mapping.abstraction.name, str(mapping), tuple(axes), outer=tuple(i.name for i in mapping.outer),
        is_swapped=mapping.is_swapped, calls=mapping.calls, cost=mapping.cost, padding=mapping.padding,
        why_not_strict=mapping.why_not_strict(), entries=tuple(map(str, entries)), state=state, why_not=why_not,
    )  # fmt: skip


def _try_kernel(
    mapping: IntrinsicMapping, entries: tuple[Entry, ...], anchor: Statement, group: FusionGroup, recipe: Recipe,
    check: Checker | None,
) -> tuple[str, str]:  # fmt: skip
    """How far a kernel of these entries comes, and what is wrong with it."""
    name, advice = mapping.abstraction.name, Advice("tensorize", Scenario(entries))
    try:
        kernel = compile_group(group, recipe.with_group(group.name, (advice,)))
    except EngineError as error:
        return documents.LISTED, error.reason
    if kernel.tile.intrinsic != name:
        said = [v.because for v in kernel.verdicts if v.placed.entry.value == ("intrinsic", name)]
        return documents.LISTED, "; ".join(filter(None, said)) or "the kernel runs on CUDA cores"
    axes = _axes(kernel, anchor)
    if axes is None or not axes.has(*map(mapping.whole_iterators, mapping.axes)):
        refused = [v.because for v in kernel.verdicts if v.outcome != HONOURED]
        return documents.LISTED, "; ".join(filter(None, refused)) or "the kernel puts other iterators on the axes"
    if check is None:
        return documents.COMPILED, ""
    result = check(kernel)
    return (documents.CHECKED, "") if result.status == "pass" else (documents.WRONG, result.message)


def _axes(kernel: Kernel, anchor: Statement) -> GemmAxes | None:
    """The iterators that a kernel has on each axis of its intrinsic; None where it is no tiled product."""
    config = kernel.tile.config.product if kernel.tile.config else None
    program = next(part.program for part in part_groups(kernel.group) if anchor in part.program.statements)
    return gemm_axes(program, config.outer) if config else None
