"""Structural hashing of groups: equal ones are found before they are built, whatever their arrays are called.

Layers of a model repeat.  A group whose pattern was met before takes its program from the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from engine.fusion.shape import Shape
from engine.tensor.index import Element, Index, Quotient, Remainder
from engine.tensor.nodes import Access, Apply, Array, Literal, Position, Scalar, Statement, StatementForm


class Patterns:
    """Patterns of statements as numbers: equal statements have the same, whatever arrays they are about."""

    def __init__(self, arrays: Mapping[str, Array], roles: Sequence[Collection[str]]) -> None:
        """roles: sets of arrays (inputs, constants, arrays needed outside); those of an array belong to a pattern."""
        self._arrays, self._roles = arrays, roles
        self._numbers: dict[Hashable, int] = {}
        self._of_form: dict[StatementForm, int] = {}
        self._of_array: dict[str, int] = {}

    def group(self, statements: Sequence[Statement], shape: Shape) -> tuple[Hashable, tuple[str, ...]]:
        """The pattern of a group, and its arrays in order of appearance."""
        place: dict[str, int] = {}
        axis: dict[int, int] = {}
        parts: list[Hashable] = []
        for statement in statements:
            number, names = self.statement(statement)
            mine = tuple([place.setdefault(name, len(place)) for name in names])
            found = [shape.axes.get((statement.name, i.name), -1) for i in statement.iterators]
            axes = tuple([axis.setdefault(one, len(axis)) for one in found])
            parts.append((number, mine, axes, statement.name in shape.inlined))
        rows, columns = (tuple([axis[one] for one in these]) for these in (shape.rows, shape.columns))
        kinds = tuple([self._array(name) for name in place])
        return (shape.kind.name, tuple(parts), rows, columns, axis.get(-1), kinds), tuple(place)

    def _array(self, name: str) -> int:
        """The number of an array's shape, type and roles."""
        if name not in self._of_array:
            array = self._arrays[name]
            key = (array.shape, array.dtype, *[name in role for role in self._roles])
            self._of_array[name] = self._numbers.setdefault(key, len(self._numbers))
        return self._of_array[name]

    def statement(self, statement: Statement) -> tuple[int, tuple[str, ...]]:
        """The number of a statement's pattern, and its arrays in order of appearance."""
        known = self._of_form.get(statement.form)
        if known is not None:
            return known, statement.arrays
        names = {name: at for at, name in enumerate(statement.arrays)}
        key = (
            statement.iterators,
            _scalar(statement.expression, names),
            _scalar(statement.write, names),
            statement.reduction,
            tuple(_index(guard.index, names) for guard in statement.guards),
            statement.covers,
        )
        number = self._numbers.setdefault(key, len(self._numbers))
        if len(names) == len(statement.arrays):  # a condition that looks up another array adds its name behind
            self._of_form[statement.form] = number
        return number, tuple(names)


class ShapeCache:
    """Loop spaces, each found once for statements that differ in names alone."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[str, ...], Shape | str]] = {}
        """Key -> names of the first statements that had it, and their loop space or why they have none."""

    def find(self, key: Hashable, statements: Sequence[Statement], find: Callable[[], Shape | str]) -> Shape | str:
        """The loop space of statements, in their own names; or why they have none.  key: equal where `find` is."""
        names = tuple(s.name for s in statements)
        if key not in self._found:
            self._found[key] = names, find()
        first, shape = self._found[key]
        return shape if isinstance(shape, str) else shape.with_names(dict(zip(first, names, strict=True)))


def likeness(statements: Sequence[Statement], kept: Collection[str]) -> Hashable:
    """Equal for statements in a row that differ in names alone; `kept` are some of the arrays that they write."""
    arrays = [array for s in statements for array in s.arrays]
    place = {array: at for at, array in enumerate(dict.fromkeys(arrays))}
    forms = tuple([s.form for s in statements])
    return forms, tuple([place[array] for array in arrays]), frozenset([place[array] for array in kept])


def _scalar(value: Scalar, names: dict[str, int]) -> Hashable:
    match value:
        case Literal(number, dtype):
            return repr(number), dtype
        case Access(array, indices, guards, otherwise):
            inside = tuple(_index(index, names) for index in indices)
            limits = tuple(_index(guard.index, names) for guard in guards)
            return names.setdefault(array, len(names)), inside, limits, repr(otherwise) if otherwise else ""
        case Position(index, dtype):
            return "position", _index(index, names), dtype
        case Apply(function, operands, dtype):
            return function, tuple(_scalar(operand, names) for operand in operands), dtype


def _index(index: Index, names: dict[str, int]) -> Hashable:
    if all(isinstance(atom, str) for atom, _ in index.terms):
        return index
    return tuple((_atom(atom, names), c) for atom, c in index.terms), index.constant


def _atom(atom: str | Quotient | Remainder | Element, names: dict[str, int]) -> Hashable:
    match atom:
        case Quotient(of, by):
            return "/", _index(of, names), by
        case Remainder(of, by):
            return "%", _index(of, names), by
        case Element(array, indices, low, high):
            inside = tuple(_index(index, names) for index in indices)
            return names.setdefault(array, len(names)), inside, low, high
        case _:
            return atom
