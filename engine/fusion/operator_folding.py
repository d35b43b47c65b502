"""Layout operators, scalar constants and masks of a triangle become part of the expressions that read them.

    t[i,j] = x[j,i]            (Transpose)
    y[i,j] = exp(t[i,j])   ->  y[i,j] = exp(x[j,i])
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from engine.fusion.causal_masks import Triangles, values_of
from engine.graph.nodes import Constant
from engine.tensor.index import Extents
from engine.tensor.nodes import Access, Literal, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import index_values, is_plain, rename_statement, rewrite_access, rewrite_reads

MOST_DIVISIONS = 64
"""Divisions of the indices that an element is read at; those of real models have a handful."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A program without layout statements, and which operators each remaining statement absorbed."""

    program: TensorProgram
    absorbed: Mapping[str, tuple[str, ...]]
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Array -> the order of its tensor's axes in which it is stored, where that is another."""


def fold_layouts(program: TensorProgram, constants: Mapping[str, Constant]) -> Folded:
    """Fold layout statements and constants of one element into their readers.

    A layout statement stays when its result leaves the program; its readers still read through it.  One whose indices
    would take more than `MOST_DIVISIONS` stays, too, and its readers read what it writes: where every one of a chain
    doubles the divisions, indices would soon be longer than any memory.
    """
    seen = _Seen({}, _scalar_constants(program, constants))
    absorbed: dict[str, tuple[str, ...]] = {}
    kept: list[Statement] = []
    for statement in program.statements:
        rewritten = seen.through(statement)
        views = [seen.views[array] for array in statement.sources if array in seen.views]
        if views:
            taken = (op for view in views for op in (*absorbed.get(view.name, ()), view.operator))
            absorbed[statement.name] = tuple(dict.fromkeys(taken))
        if is_layout(rewritten) and _divisions(rewritten) <= MOST_DIVISIONS:
            seen.views[rewritten.write.array] = rewritten
            if rewritten.write.array not in program.outputs:
                continue
        kept.append(rewritten)
    kept = _without_triangles(replace(program, statements=tuple(kept)), constants, absorbed)
    kept = _alive(kept, program.outputs)
    return Folded(program.restrict(kept, program.outputs), absorbed)


def _without_triangles(
    program: TensorProgram, constants: Mapping[str, Constant], absorbed: dict[str, tuple[str, ...]]
) -> list[Statement]:
    """The statements with triangles read as functions of position; `absorbed` gains the operators that made them."""
    triangles = Triangles(program, constants)
    statements: list[Statement] = []
    for statement in program.statements:
        rewritten = triangles.through(statement)
        statements.append(rewritten)
        if rewritten is statement:
            continue
        gone = set(statement.sources).difference(rewritten.sources)
        taken = [op for made in triangles.makers(sorted(gone)) for op in (*absorbed.get(made.name, ()), made.operator)]
        if taken:
            absorbed[statement.name] = tuple(dict.fromkeys((*absorbed.get(statement.name, ()), *taken)))
    return statements


def _alive(statements: list[Statement], outputs: tuple[str, ...]) -> list[Statement]:
    """The statements that an output needs: reading through a view may leave nobody to read what it was looked up by."""
    needed = set(outputs)
    alive: list[Statement] = []
    for statement in reversed(statements):
        if statement.write.array in needed:
            alive.append(statement)
            needed.update(statement.sources)
    return alive[::-1]


def is_layout(statement: Statement) -> bool:
    """Whether the statement only moves elements: one bare access, written whole."""
    form = statement.form
    if form.is_layout is None:
        form.is_layout = _moves_elements(statement)
    return form.is_layout


def _divisions(statement: Statement) -> int:
    return sum(index.divisions for access in statement.reads() for index in access.indices)


def _moves_elements(statement: Statement) -> bool:
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
    return {
        name: Literal(value.item(), program.arrays[name].dtype)
        for name, value in values_of(program, constants).items()
        if name not in program.outputs and program.arrays[name].elements == 1 == value.size
    }


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is read through: layout statements and numbers."""

    views: dict[str, Statement]
    """Array -> the layout statement that makes it; grows as statements are walked."""
    literals: Mapping[str, Literal]
    _made: dict[Hashable, tuple[tuple[str, ...], Statement]] = field(default_factory=dict)
    """Statements alike that read through views alike -> the arrays and the outcome of the first one."""

    def through(self, statement: Statement) -> Statement:
        """The statement over what its operands are views of; once for statements that differ in names alone."""
        own = statement.arrays
        if self.views.keys().isdisjoint(own) and self.literals.keys().isdisjoint(own):
            return statement
        behind = [self._behind(name) for name in own]
        arrays = (*own, *(source for source, _ in behind))
        place = {name: at for at, name in enumerate(dict.fromkeys(arrays))}
        alike = statement.form, tuple(map(place.get, arrays)), tuple(what for _, what in behind)
        if alike not in self._made:
            made = rewrite_reads(statement, lambda access: self._read(access, statement.extents))
            self._made[alike] = arrays, made
            return made
        first, made = self._made[alike]
        return rename_statement(made, statement.name, statement.operator, dict(zip(first, arrays, strict=True)))

    def _behind(self, array: str) -> tuple[str, Hashable]:
        """The array that one is a view of (itself where it is none), and how, whatever they are called."""
        if array in self.literals:
            return array, repr(self.literals[array])
        view = self.views.get(array)
        if view is None:
            return array, None
        assert isinstance(view.expression, Access)
        return view.expression.array, view.form

    def _read(self, access: Access, extents: Extents) -> Scalar:
        """An access through views and literals; `extents` are those of the reader."""
        if access.array in self.literals and not access.guards:
            return self.literals[access.array]
        view = self.views.get(access.array)
        if view is None:
            return access
        assert isinstance(view.expression, Access)
        base = rewrite_access(view.expression, index_values(view.write, access), lambda inner: inner, extents)
        return replace(base, guards=access.guards, otherwise=access.otherwise)
