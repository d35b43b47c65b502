"""Statements that compute each element from what others have at the same point."""

from __future__ import annotations

from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram


def is_element_wise(statement: Statement) -> bool:
    """Whether an element's indices are the kept iterators in order."""
    return tuple(statement.write.indices) == tuple(Index.of(i.name) for i in statement.parallel)


def follows(program: TensorProgram, first: Statement, statement: Statement) -> bool:
    """Whether a statement is element-wise over the points of the first one, and reads others at its own point."""
    made = {s.write.array for s in program.statements}
    return (
        statement.reduction is None and not statement.guards and is_element_wise(statement)
        and [i.extent for i in statement.parallel] == [i.extent for i in first.parallel]
        and all(not i.is_indirect for a in statement.reads() for i in a.indices)
        and all(a.indices == statement.write.indices and not a.guards for a in statement.reads() if a.array in made)
    )  # fmt: skip
