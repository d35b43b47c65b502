"""Layout operators and scalar constants become part of the expressions that read them.

    t[i,j] = x[j,i]            (Transpose)
    y[i,j] = exp(t[i,j])   ->  y[i,j] = exp(x[j,i])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.graph.nodes import Constant
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import Reader, is_plain, plain_iterator, rewrite_access, rewrite_reads


@dataclass(frozen=True, slots=True)
class Folded:
    """A program without layout statements, and which operators each remaining statement absorbed."""

    program: TensorProgram
    absorbed: Mapping[str, tuple[str, ...]]


def fold_layouts(program: TensorProgram, constants: Mapping[str, Constant]) -> Folded:
    """Fold layout statements and constants of one element into their readers.

    A layout statement stays when its result leaves the program; its readers still read through it.
    """
    views: dict[str, Statement] = {}
    literals = _scalar_constants(program, constants)
    absorbed: dict[str, tuple[str, ...]] = {}
    kept: list[Statement] = []
    for statement in program.statements:
        taken: dict[str, None] = {}
        rewritten = statement
        if any(a.array in views or a.array in literals for a in statement.reads()):
            rewritten = rewrite_reads(statement, _reader(views, literals, statement, taken, absorbed))
        if taken:
            absorbed[statement.name] = tuple(taken)
        if is_layout(rewritten):
            views[rewritten.write.array] = rewritten
            if rewritten.write.array not in program.outputs:
                continue
        kept.append(rewritten)
    kept = _alive(kept, program.outputs)
    used = {a.array for s in kept for a in (*s.reads(), s.write)} | set(program.outputs)
    return Folded(
        replace(
            program,
            statements=tuple(kept),
            arrays={name: array for name, array in program.arrays.items() if name in used},
            inputs=tuple(n for n in program.inputs if n in used),
            constants=tuple(n for n in program.constants if n in used),
        ),
        absorbed,
    )


def _alive(statements: list[Statement], outputs: tuple[str, ...]) -> list[Statement]:
    """The statements that an output needs: reading through a view may leave nobody to read what it was looked up by."""
    needed = set(outputs)
    alive: list[Statement] = []
    for statement in reversed(statements):
        if statement.write.array in needed:
            alive.append(statement)
            needed |= {a.array for a in statement.reads()}
    return alive[::-1]


def is_layout(statement: Statement) -> bool:
    """Whether the statement only moves elements: one bare access, written whole."""
    expression = statement.expression
    return (
        isinstance(expression, Access)
        and not expression.guards
        and not statement.guards
        and statement.reduction is None
        and statement.covers
        and is_plain(statement.write)
        and not any(i.is_indirect for i in expression.indices)
    )


def _scalar_constants(program: TensorProgram, constants: Mapping[str, Constant]) -> dict[str, Literal]:
    found: dict[str, Literal] = {}
    for name in program.constants:
        array, constant = program.arrays[name], constants.get(name)
        if array.elements == 1 and constant is not None and constant.value is not None and name not in program.outputs:
            found[name] = Literal(constant.value.reshape(()).item(), array.dtype)
    return found


def _reader(
    views: Mapping[str, Statement],
    literals: Mapping[str, Literal],
    reader: Statement,
    taken: dict[str, None],
    absorbed: Mapping[str, tuple[str, ...]],
) -> Reader:
    """Reads through views and literals; notes the operators read through in `taken`."""

    def read(access: Access) -> Scalar:
        if access.array in literals and not access.guards:
            return literals[access.array]
        view = views.get(access.array)
        if view is None:
            return access
        taken.update(dict.fromkeys((*absorbed.get(view.name, ()), view.operator)))
        assert isinstance(view.expression, Access)
        values: dict[str, Index] = {}
        for written, index in zip(view.write.indices, access.indices, strict=True):
            name = plain_iterator(written)
            if name is not None:
                values[name] = index
        base = rewrite_access(view.expression, values, lambda inner: inner, reader.extents)
        return replace(base, guards=access.guards, otherwise=access.otherwise)

    return read
