"""Finding and replacing one statement of a program by its name."""

from __future__ import annotations

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
