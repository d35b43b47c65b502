"""Arrays of two values on either side of a diagonal become functions of position: a causal mask needs no memory.

    m[i,j] = 0 for j <= i + 3, else -inf;  x[i,j] = s[i,j] + m[i,j]
    ->  x[i,j] = s[i,j] + select(j <= i + 3, 0, -inf)

The values decide: of constants of the graph, and of what element-wise statements make from constants alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.graph.nodes import Constant
from engine.tensor.evaluate import temporaries
from engine.tensor.nodes import Access, Apply, Array, Literal, Position, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import looked_up, rewrite_reads

MOST_ELEMENTS = 1 << 24
"""Of an array that is looked at."""
KINDS = ("bool", "float16", "bfloat16", "float32")
"""Element types of masks."""


@dataclass(frozen=True, slots=True)
class Triangle:
    """A value for columns up to row + shift, another for those behind, the same in every matrix of the array."""

    inside: Literal
    outside: Literal
    shift: int

    def read(self, access: Access) -> Scalar:
        """What stands in the place of reading an element."""
        row, column = access.indices[-2:]
        condition = Apply("less_equal", (Position(column, "int32"), Position(row + self.shift, "int32")), "bool")
        return Apply("select", (condition, self.inside, self.outside), self.inside.dtype)


class Triangles:
    """The arrays of one program that are triangles, found when somebody asks."""

    def __init__(self, program: TensorProgram, constants: Mapping[str, Constant]) -> None:
        self._program = program
        self._values = values_of(program, constants)
        self._makers: dict[str, Statement] = {}
        self._known = set(self._values)
        """Arrays that constants alone decide."""
        for statement in program.statements:
            if self._known.issuperset(statement.sources) and _is_element_wise(statement):
                self._makers[statement.write.array] = statement
                self._known.add(statement.write.array)
        self._found: dict[str, Triangle | None] = {}

    def of(self, array: str) -> Triangle | None:
        """The triangle that an array is; None for every other array."""
        if array not in self._found:
            self._found[array] = self._look(self._program.arrays[array])
        return self._found[array]

    def through(self, statement: Statement) -> Statement:
        """The statement with functions of position in the place of triangles; itself where it reads none."""
        if statement.reduction is not None or statement.write.array in self._makers:
            return statement
        if self._known.isdisjoint(statement.sources) or not any(map(self.of, statement.sources)):
            return statement
        return rewrite_reads(statement, self._read)

    def makers(self, arrays: Sequence[str]) -> list[Statement]:
        """The statements behind arrays that constants alone make, the nearest first."""
        pending = [self._makers[name] for name in arrays if name in self._makers]
        for statement in pending:
            pending += [m for array in statement.sources if (m := self._makers.get(array)) and m not in pending]
        return pending

    def _read(self, access: Access) -> Scalar:
        triangle = None if access.guards else self.of(access.array)
        return triangle.read(access) if triangle else access

    def _look(self, array: Array) -> Triangle | None:
        is_matrix = len(array.shape) > 1 and min(array.shape[-2:]) > 1
        if not is_matrix or array.dtype not in KINDS or array.elements > MOST_ELEMENTS:
            return None
        value = self._values.get(array.name)
        if value is None and array.name in self._makers:
            value = temporaries(self._program, self._values, [array.name])[array.name]
        return None if value is None else triangle_of(value, array.dtype)


def values_of(program: TensorProgram, constants: Mapping[str, Constant]) -> dict[str, np.ndarray]:
    """The values of a program's constants, without those that a light model leaves out."""
    found = ((name, constants[name].value) for name in program.constants if name in constants)
    return {name: value for name, value in found if value is not None}


def triangle_of(values: np.ndarray, dtype: str) -> Triangle | None:
    """The triangle that the matrices of an array of two and more axes are; None where they are not, or not alike."""
    matrices = values.reshape(-1, *values.shape[-2:])
    matrix = matrices[0]
    inside, outside = matrix[-1, 0], matrix[0, -1]
    first = int((matrix[:, 0] == inside).argmax())
    shift = int((matrix[first] == inside).sum()) - 1 - first
    if inside == outside or np.isnan(inside) or np.isnan(outside):
        return None
    rows, columns = (np.arange(size) for size in matrix.shape)
    if not (matrices == np.where(columns <= rows[:, None] + shift, inside, outside)).all():
        return None
    return Triangle(Literal(inside.item(), dtype), Literal(outside.item(), dtype), shift)


def _is_element_wise(statement: Statement) -> bool:
    """Whether a statement makes its whole array, each element from others without looking them up."""
    is_whole = statement.covers and not statement.guards and statement.reduction is None
    return is_whole and not looked_up(statement)
