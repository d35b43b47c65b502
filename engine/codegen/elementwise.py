"""Element-wise kernels: every thread makes one vector of elements of the flattened loop space.

    y[i,j] = relu(x[i,j] + b[j])    ->    element = block * 1024 + thread * 4;  i, j = divmod(element, 768)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from engine.codegen.block import evaluate_block
from engine.codegen.emit import LANE_OF_VECTOR, Emitter
from engine.codegen.marks import Marks
from engine.codegen.nest import Nest, without_loops
from engine.codegen.nodes import Line
from engine.codegen.share import Share, share_elements
from engine.codegen.tile import TileProgram
from engine.codegen.width import vector_width
from engine.fuse.nodes import FusionGroup
from engine.schedule.nodes import Member
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import plain_iterator

UNROLLED = 8
"""Steps of a thread that are written out; more stay a loop."""


def lower_elementwise(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel for statements that share all their iterators."""
    without_loops(nest, nest.statements)
    vector = vector_width(group.program, nest, marks)
    share = share_elements(nest.outer, marks, vector)
    shape = tuple(m.extent for m in nest.outer)
    total = math.prod(shape)
    emitter = Emitter(group.program, share.blocks, share.threads)
    emitter.vector = vector
    names = tuple(m.name for m in nest.outer)
    link = Line((), names)
    with _element(emitter, share, total, link) as element:
        variables = bind_members(emitter, nest.outer, element, shape)
        if vector > 1:
            variables[names[-1]] = variables[names[-1]] + Index.of(LANE_OF_VECTOR)
            emitter.extents[LANE_OF_VECTOR] = vector
        values: dict[str, Access] = {}
        evaluate_block(
            emitter,
            nest.statements,
            lambda s: place(s, nest.outer, variables),
            values,
            stored=frozenset(group.program.outputs),
            dimensions=names,
        )
    per_thread = f"{vector} element{'s' if vector > 1 else ''} of a thread"
    return emitter.finish(
        group,
        constants={"ELEMENTS": total, "BLOCK_ELEMENTS": share.elements, "STEPS": share.steps, "VECTOR": vector},
        assertions=(
            ("BLOCKS * BLOCK_ELEMENTS >= ELEMENTS", "every element has a block"),
            ("STEPS * THREADS * VECTOR >= BLOCK_ELEMENTS", "every element of a block has a thread"),
        ),
        placements={s.name: f"register: {per_thread}, made and used by the same thread" for s in nest.statements},
    )


@contextmanager
def _element(emitter: Emitter, share: Share, total: int, link: Line) -> Iterator[Index]:
    """The body of a thread, for each of its vectors: the first element of the vector, where there is one.

    element = block * BLOCK_ELEMENTS + step * THREADS * VECTOR + thread * VECTOR
    """
    width = emitter.vector
    with emitter.loop("step", share.steps, link, unroll=share.steps <= UNROLLED) as step:
        own = step * (share.threads * width) + Index.of("thread") * width
        start = Index.of("block") * share.elements + own
        element = emitter.bind("element", start, link)
        outside = [Index((), share.elements - width) - own, Index((), total - 1) - element]
        inside = emitter.mask("inside", outside, link)
        with emitter.when(inside, link):
            emitter.extents["element"] = total
            emitter.definitions["element"] = start
            yield element


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
