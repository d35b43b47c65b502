"""Find, replace and drop statements of a program by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from engine.support.errors import BadInput
from engine.tensor.nodes import Statement, TensorProgram


def statement_of(program: TensorProgram, name: str) -> Statement:
    """The statement called `name`; BadInput if it does not exist, for example because an earlier rewrite inlined it
    everywhere."""
    try:
        return program.statement(name)
    except KeyError:
        there = ", ".join(s.name for s in program.statements)
        raise BadInput("rewrite", name, f"there is no statement {name} any more", f"there are {there}") from None


def with_statement(program: TensorProgram, statement: Statement) -> TensorProgram:
    """The program with the statement of that name replaced."""
    statements = tuple(statement if s.name == statement.name else s for s in program.statements)
    return replace(program, statements=statements)


def without_unread(program: TensorProgram, candidates: Collection[str]) -> TensorProgram:
    """The program without those of some statements whose results nothing reads any more, nor their arrays."""
    needed, gone = {*program.inputs, *program.outputs}, set()
    kept: list[Statement] = []
    for statement in reversed(program.statements):  # readers come first, so that what only idle ones read goes too
        if statement.name in candidates and statement.write.array not in needed:
            gone.add(statement.write.array)
        else:
            needed.update(statement.sources)
            kept.append(statement)
    arrays = {name: array for name, array in program.arrays.items() if name not in gone}
    return replace(program, statements=tuple(reversed(kept)), arrays=arrays) if gone else program
