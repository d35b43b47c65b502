"""Structural hashing of groups: equal ones are found before they are built, whatever their arrays are called.

Layers of a model repeat.  A group whose pattern was met before takes its program from the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from engine.fusion.shape import Shape
from engine.tensor.nodes import Array, Statement, StatementForm
from engine.tensor.rewrite import indices_of, rename_statement


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
        looked_up = (element.array for index in indices_of(statement) for element in index.elements())
        names = dict.fromkeys((*statement.arrays, *looked_up))
        places = {name: f"#{at}" for at, name in enumerate(names)}
        alike = replace(rename_statement(statement, "", "", places), because="")
        # As text, because 1, 1.0 and True are equal, and so are 0.0 and -0.0.
        number = self._numbers.setdefault(repr(alike), len(self._numbers))
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
        first, shape = self.first(key, statements, find)
        return shape if isinstance(shape, str) else in_names_of(statements, first, shape)

    def first(
        self, key: Hashable, statements: Sequence[Statement], find: Callable[[], Shape | str]
    ) -> tuple[tuple[str, ...], Shape | str]:
        """As `find`, in the names of the first statements alike, and these names."""
        found = self._found.get(key)
        return found or self._found.setdefault(key, (tuple(s.name for s in statements), find()))


def in_names_of(statements: Sequence[Statement], first: Sequence[str], shape: Shape) -> Shape:
    """The loop space of statements.  first: the names that `shape` has for them."""
    return shape.with_names({name: s.name for name, s in zip(first, statements, strict=True)})


def likeness(statements: Sequence[Statement], kept: Collection[str]) -> Hashable:
    """Equal for statements in a row that differ in names alone; `kept` are some of the arrays that they write."""
    arrays = [array for s in statements for array in s.arrays]
    place = {array: at for at, array in enumerate(dict.fromkeys(arrays))}
    forms = tuple([s.form for s in statements])
    return forms, tuple([place[array] for array in arrays]), frozenset([place[array] for array in kept])
