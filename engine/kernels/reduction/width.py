"""The vector width that a reduction can really use."""

from __future__ import annotations

from engine.graph.nodes import DTYPES
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.scheduling.nodes import Member
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import vector_limit
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator


def widest_vector(program: TensorProgram, nest: Nest, along_rows: bool) -> int:
    """The widest vector that the accesses allow.

    along_rows: vectors run along the innermost loop of each phase; else along the last outer dimension.
    """
    runs: dict[str, tuple[str, ...]] = {}
    for phase in nest.phases:
        members = phase.members if along_rows else nest.outer
        for statement in phase.statements:
            name = _iterator(statement, members)
            if name is not None:
                runs[statement.name] = (name,)
    outside = {a: program.arrays[a] for a in (*program.inputs, *program.outputs)}
    limit = vector_limit(nest.statements, outside, runs)
    if not along_rows:
        # A lane of the vector is an accumulator of its own, and they are handed over together.
        held = [DTYPES[s.reduction.accumulate] for s in nest.statements if s.reduction]
        limit = min(limit, VECTOR_BYTES // max(held, default=1))
    return limit


def vector_width(program: TensorProgram, nest: Nest, marks: Marks, along_rows: bool) -> int:
    """The width asked for by the `vector` mark, halved until the accesses allow it.

    along_rows: see `widest_vector`.
    """
    limit = widest_vector(program, nest, along_rows)

    def fit(asked: int) -> int:
        width = 1
        while width * 2 <= min(asked, limit):
            width *= 2
        return width

    needs = f"at most {limit} here: extent, alignment, guards and element type allow no more"
    along = [m for phase in nest.phases for m in phase.members] if along_rows else nest.outer
    return marks.number("vector", 1, fit, needs, along)


def _iterator(statement: Statement, members: tuple[Member, ...]) -> str | None:
    return plain_iterator(members[-1].rows[statement.name]) if members else None
