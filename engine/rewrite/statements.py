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
    return replace(
        program, statements=tuple(statement if s.name == statement.name else s for s in program.statements)
    )


def without_unread(program: TensorProgram, candidates: Collection[str]) -> TensorProgram:
    """The program without those of some statements whose results nothing reads any more, nor their arrays."""
    while True:
        needed = {access.array for s in program.statements for access in s.reads()}
        needed |= {*program.inputs, *program.outputs}
        idle = {s.name: s.write.array for s in program.statements if s.name in candidates}
        gone = {name for name, array in idle.items() if array not in needed}
        if not gone:
            return program
        arrays = {idle[name] for name in gone}
        program = replace(
            program,
            statements=tuple(s for s in program.statements if s.name not in gone),
            arrays={name: array for name, array in program.arrays.items() if name not in arrays},
        )
