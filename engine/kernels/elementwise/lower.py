"""Element-wise kernels: every thread makes one vector of elements of the flattened loop space.

    y[i,j] = relu(x[i,j] + b[j])    ->    element = block * 1024 + thread * 4;  i, j = divmod(element, 768)

Where a thread owns strips of dimensions, the flattened space counts strips, and loops inside the thread walk them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from engine.fusion.nodes import FusionGroup
from engine.kernels.elementwise.config import ElementwiseConfig, Strips, read_config
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.kernels.statement_block import BlockOptions, evaluate_block
from engine.scheduling.nodes import Member
from engine.tensor.access import delinearize_nested
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import Buffer, TileProgram
from engine.tile.source import Line


def lower_elementwise(
    group: FusionGroup, nest: Nest, marks: Marks, taken: Mapping[str, Buffer] | None = None
) -> TileProgram:
    """One kernel for statements that share all their iterators.  taken: buffers of other parts of a packed one."""
    config = read_config(group.program, nest, marks)
    total = math.prod(m.extent for m in nest.outer)
    emitter = Emitter(group.program, -(-total // config.elements), config.threads, taken)
    emitter.vector = config.strips.vector
    emitter.extents[LANE_OF_VECTOR] = config.strips.vector
    names = tuple(m.name for m in nest.outer)
    with _element(emitter, config, nest.outer) as variables:
        values: dict[str, Access] = {}
        options = BlockOptions(stored=frozenset(group.program.outputs), dimensions=names)
        evaluate_block(emitter, nest.statements, lambda s: place(s, nest.outer, variables), values, options)
    return marks.describe(_finish(emitter, group, nest, config), config)


@contextmanager
def _element(emitter: Emitter, config: ElementwiseConfig, members: tuple[Member, ...]) -> Iterator[dict[str, Index]]:
    """The body of a thread for each of its vectors: where it stands in every dimension.

    element = block * BLOCK_ELEMENTS + step * THREADS * VECTOR + thread * VECTOR, counted in strips where there are any.
    """
    names = tuple(m.name for m in members)
    link = Line((), names)
    strips = config.strips
    lanes = strips.lanes
    owned = strips.elements // lanes
    total = math.prod(m.extent for m in members) // owned
    elements = config.elements // owned
    with emitter.loop("step", config.steps, link, config.is_unrolled) as step, ExitStack() as inner:
        own = step * (config.threads * lanes) + Index.of("thread") * lanes
        start = Index.of("block") * elements + own
        counted = "element" if owned == 1 else "strip"
        element = emitter.bind(counted, start, link)
        outside = [Index((), elements - lanes) - own, Index((), total - 1) - element]
        inner.enter_context(emitter.when(emitter.mask("inside", outside, link), link))
        emitter.extents[counted] = total
        emitter.definitions[counted] = start
        variables = _locate(emitter, strips, element, members)
        for member in members:
            if member.name in strips.owned:
                at = Line((), (member.name,))
                name = f"{member.name}_step"
                loop = emitter.loop(name, strips.steps(member.name), at, member.name in strips.unrolled)
                inside = inner.enter_context(loop)
                wide = strips.vector if member.name == strips.run[-1] else 1
                variables[member.name] = variables[member.name] * strips.owned[member.name] + inside * wide
        if lanes == 1 and strips.vector > 1:
            along = strips.run[-1]
            variables[along] = variables[along] + Index.of(LANE_OF_VECTOR)
        yield variables


def _locate(emitter: Emitter, strips: Strips, element: Index, members: tuple[Member, ...]) -> dict[str, Index]:
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
    point = emitter.bind("_".join(strips.run), outer[-1], Line((), strips.run)) + lane
    inner = delinearize_nested(point, sizes[before:], emitter.extents)
    return variables | dict(zip(strips.run, inner, strict=True))


def _bind(emitter: Emitter, member: Member, index: Index, strips: Strips) -> Index:
    """The variable of a dimension, or of its strips."""
    name = f"{member.name}_strip" if member.name in strips.owned else member.name
    return emitter.bind(name, index, Line((), (member.name,)))


def _finish(emitter: Emitter, group: FusionGroup, nest: Nest, config: ElementwiseConfig) -> TileProgram:
    total, each = math.prod(m.extent for m in nest.outer), config.strips.elements
    constants = {"ELEMENTS": total, "BLOCK_ELEMENTS": config.elements, "STEPS": config.steps}
    constants["VECTOR"] = config.strips.vector
    portion = "OWNED" if config.strips.owned else "VECTOR"
    constants[portion] = each
    per_thread = f"{each} element{'s' if each > 1 else ''} of a thread"
    return emitter.finish(
        group,
        constants=constants,
        assertions=(
            ("BLOCKS * BLOCK_ELEMENTS >= ELEMENTS", "every element has a block"),
            (f"STEPS * THREADS * {portion} >= BLOCK_ELEMENTS", "every element of a block has a thread"),
        ),
        placements={s.name: f"register: {per_thread}, made and used by the same thread" for s in nest.statements},
    )


def bind_members(emitter: Emitter, members: tuple[Member, ...], flat: Index) -> dict[str, Index]:
    """Named variables for the dimensions of a flattened position."""
    indices = delinearize(flat, tuple(m.extent for m in members), emitter.extents)
    return {m.name: emitter.bind(m.name, index, Line((), (m.name,))) for m, index in zip(members, indices, strict=True)}


def place(statement: Statement, members: tuple[Member, ...], variables: Mapping[str, Index]) -> dict[str, Index]:
    """Iterator of the statement -> the variable of the dimension that moves it."""
    rows = ((m, m.rows[statement.name]) for m in members if statement.name in m.rows)
    return {name: variables[m.name] for m, row in rows if (name := plain_iterator(row)) is not None}
