"""Element-wise kernels: every thread makes one vector of elements of the flattened loop space.

    y[i,j] = relu(x[i,j] + b[j])    ->    element = block * 1024 + thread * 4;  i, j = divmod(element, 768)

Where a thread owns strips of dimensions, the flattened space counts strips, and loops inside the thread walk them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from engine.fusion.nodes import FusionGroup
from engine.kernels.elementwise.thread_tiling import UNROLLED, Strips, read_strips
from engine.kernels.elementwise.work_partition import Share, share_elements
from engine.kernels.loop_nest import Nest, without_loops
from engine.kernels.marks import Marks
from engine.kernels.statement_block import evaluate_block
from engine.scheduling.nodes import Member
from engine.tensor.access import delinearize_nested
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import Buffer, TileProgram
from engine.tile.source import Line

REFUSED = {
    "tile": "no read runs across the direction of the write, so a tile would turn nothing",
    "stages": "an element-wise kernel has no tiles to copy ahead",
    "lane": "no value is shared along a row, so threads need no lanes: ask for threads",
    "warp": "no value is shared down a column, so threads need no warps: ask for threads",
}
"""Marks that no element-wise kernel has a use for, and why."""


def lower_elementwise(
    group: FusionGroup, nest: Nest, marks: Marks, taken: Mapping[str, Buffer] | None = None
) -> TileProgram:
    """One kernel for statements that share all their iterators.  taken: buffers of other parts of a packed one."""
    without_loops(nest, nest.statements)
    marks.refuse(REFUSED)
    strips = read_strips(group.program, nest, marks)
    share = share_elements(nest.outer, marks, strips.each)
    whole = [m for m in nest.outer if m.name not in strips.owned]
    is_unrolled = marks.unrolled(share.steps, share.steps <= UNROLLED, whole)
    emitter = Emitter(group.program, share.blocks, share.threads, taken)
    emitter.vector = strips.vector
    emitter.extents[LANE_OF_VECTOR] = strips.vector
    names = tuple(m.name for m in nest.outer)
    with _element(emitter, share, strips, is_unrolled, nest.outer) as variables:
        values: dict[str, Access] = {}
        evaluate_block(
            emitter,
            nest.statements,
            lambda s: place(s, nest.outer, variables),
            values,
            stored=frozenset(group.program.outputs),
            dimensions=names,
        )
    return _finished(emitter, group, nest, share, strips)


@contextmanager
def _element(
    emitter: Emitter, share: Share, strips: Strips, is_unrolled: bool, members: tuple[Member, ...]
) -> Iterator[dict[str, Index]]:
    """The body of a thread for each of its vectors: where it stands in every dimension.

    element = block * BLOCK_ELEMENTS + step * THREADS * VECTOR + thread * VECTOR, counted in strips where there are any.
    """
    names = tuple(m.name for m in members)
    link = Line((), names)
    lanes = strips.lanes
    owned = strips.each // lanes
    total = math.prod(m.extent for m in members) // owned
    elements = share.elements // owned
    with emitter.loop("step", share.steps, link, is_unrolled) as step, ExitStack() as inner:
        own = step * (share.threads * lanes) + Index.of("thread") * lanes
        start = Index.of("block") * elements + own
        counted = "element" if owned == 1 else "strip"
        element = emitter.bind(counted, start, link)
        outside = [Index((), elements - lanes) - own, Index((), total - 1) - element]
        inner.enter_context(emitter.when(emitter.mask("inside", outside, link), link))
        emitter.extents[counted] = total
        emitter.definitions[counted] = start
        variables = _located(emitter, strips, element, members)
        for member in members:
            if member.name in strips.owned:
                at = Line((), (member.name,))
                name = f"{member.name}_step"
                loop = emitter.loop(name, strips.steps(member), at, strips.unrolled[member.name])
                inside = inner.enter_context(loop)
                wide = strips.vector if member is strips.run[-1] else 1
                variables[member.name] = variables[member.name] * strips.owned[member.name] + inside * wide
        if lanes == 1 and strips.vector > 1:
            along = strips.run[-1].name
            variables[along] = variables[along] + Index.of(LANE_OF_VECTOR)
        yield variables


def _located(emitter: Emitter, strips: Strips, element: Index, members: tuple[Member, ...]) -> dict[str, Index]:
    """Where the flattened position of a thread stands in every dimension, counted in strips."""
    sizes = tuple(m.extent // strips.owned.get(m.name, 1) for m in members)
    lane = Index.of(LANE_OF_VECTOR) if strips.lanes > 1 else Index()
    before = len(members) - len(strips.run)
    if len(strips.run) < 2:
        indices = delinearize(element, sizes, emitter.extents)
        variables = {m.name: _bind(emitter, m, index, strips) for m, index in zip(members, indices, strict=True)}
        for last in members[-1:]:
            variables[last.name] += lane
        return variables
    # Vectors go over the ends of rows: only the position in all rows together is a multiple of the width.
    rows = math.prod(sizes[before:])
    outer = delinearize(element, (*sizes[:before], rows), emitter.extents)
    variables = {m.name: _bind(emitter, m, index, strips) for m, index in zip(members[:before], outer, strict=False)}
    link = Line((), tuple(m.name for m in strips.run))
    point = emitter.bind("_".join(m.name for m in strips.run), outer[-1], link) + lane
    inner = delinearize_nested(point, sizes[before:], emitter.extents)
    return variables | {m.name: index for m, index in zip(strips.run, inner, strict=True)}


def _bind(emitter: Emitter, member: Member, index: Index, strips: Strips) -> Index:
    """The variable of a dimension, or of its strips."""
    name = f"{member.name}_strip" if member.name in strips.owned else member.name
    return emitter.bind(name, index, Line((), (member.name,)))


def _finished(emitter: Emitter, group: FusionGroup, nest: Nest, share: Share, strips: Strips) -> TileProgram:
    total = math.prod(m.extent for m in nest.outer)
    constants = {"ELEMENTS": total, "BLOCK_ELEMENTS": share.elements, "STEPS": share.steps, "VECTOR": strips.vector}
    portion = "VECTOR"
    if strips.owned:
        portion = "OWNED"
        constants[portion] = strips.each
    per_thread = f"{strips.each} element{'s' if strips.each > 1 else ''} of a thread"
    return emitter.finish(
        group,
        constants=constants,
        assertions=(
            ("BLOCKS * BLOCK_ELEMENTS >= ELEMENTS", "every element has a block"),
            (f"STEPS * THREADS * {portion} >= BLOCK_ELEMENTS", "every element of a block has a thread"),
        ),
        placements={s.name: f"register: {per_thread}, made and used by the same thread" for s in nest.statements},
    )


def bind_members(
    emitter: Emitter, members: tuple[Member, ...], flat: Index, shape: tuple[int, ...]
) -> dict[str, Index]:
    """Named variables for the dimensions of a flattened position."""
    indices = delinearize(flat, shape, emitter.extents)
    return {
        m.name: emitter.bind(m.name, index, Line((), (m.name,))) for m, index in zip(members, indices, strict=True)
    }


def place(statement: Statement, members: tuple[Member, ...], variables: Mapping[str, Index]) -> dict[str, Index]:
    """Iterator of the statement -> the variable of the dimension that moves it."""
    found: dict[str, Index] = {}
    for member in members:
        name = plain_iterator(member.rows[statement.name]) if statement.name in member.rows else None
        if name is not None:
            found[name] = variables[member.name]
    return found
