"""Tensor programs: what each operator computes per element, without any execution order.

A `TensorProgram` is a list of statements over arrays.  One statement writes one array over a box of iterators.
Extent-1 axes carry no iterator (their index is 0).  Layout operators are statements whose expression is one bare
`Access`; fusion folds them into the indices of their readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Iterator as Iterator_
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.graph.nodes import Tensor
from engine.support.grouping import group_by
from engine.support.values import cached_property, value
from engine.tensor.index import Index

Value = TypeVar("Value")


class Array(Tensor):
    """An array of a program: name, row-major shape, element type."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.dtype} {self.name}[{', '.join(map(str, self.shape))}]"


@value(frozen=True, slots=True)
class Iterator:
    """One axis of a statement's box: 0 <= name < extent."""

    name: str
    extent: int


@value(frozen=True, slots=True)
class Guard:
    """A condition `index >= 0`."""

    index: Index

    def __str__(self) -> str:
        return f"{self.index} >= 0"


@value(frozen=True, slots=True)
class Literal:
    """A number (bool, int, float; infinities allowed) of element type `dtype`."""

    value: float | int | bool
    dtype: str

    def __str__(self) -> str:
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@value(frozen=True, slots=True)
class Access:
    """One element of an array.  Outside its `guards` nothing is read and the value is `otherwise`."""

    array: str
    indices: tuple[Index, ...]
    guards: tuple[Guard, ...] = ()
    otherwise: Literal | None = None

    def __str__(self) -> str:
        inner = f"{self.array}[{', '.join(map(str, self.indices))}]"
        if not self.guards:
            return inner
        return f"({inner} if {' and '.join(map(str, self.guards))} else {self.otherwise})"


@value(frozen=True, slots=True)
class Position:
    """The value of an index itself, as a number of `dtype` (for Range, OneHot, masks)."""

    index: Index
    dtype: str

    def __str__(self) -> str:
        return f"({self.index})"


@value(frozen=True, slots=True)
class Apply:
    """A scalar function of `functions.FUNCTION_OF` applied to operands; the result is rounded to `dtype`.

    float16 operands are computed in float32 and rounded.
    """

    function: str
    operands: tuple[Scalar, ...]
    dtype: str

    def __str__(self) -> str:
        symbol = _INFIX.get(self.function)
        if symbol and len(self.operands) == 2:
            return f"({self.operands[0]} {symbol} {self.operands[1]})"
        name = f"{self.dtype}" if self.function == "cast" else self.function
        return f"{name}({', '.join(map(str, self.operands))})"


Scalar = Literal | Access | Position | Apply

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "and": "&", "or": "|", "xor": "^", "mod": "%",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reduction:
    """How the values of the reduction iterators become one element."""

    operation: str
    """"sum", "max", "min", "prod", "any" or "all"; after a rewrite also those of exponentials (tensor/shifted.py)."""
    iterators: tuple[str, ...]
    """The iterators of the statement that do not index the written element."""
    identity: float | int | bool
    accumulate: str
    """Element type of the accumulator; the result is rounded to the written array's type once."""
    associative: bool = True
    """True lets the schedule reorder the terms (floating point sums are declared so by default)."""


@dataclass(slots=True, eq=False)
class StatementForm:
    """Cached properties shared by statements that differ in names alone; each is computed on first use."""

    is_direct: bool | None = None
    """Whether no index is looked up in an array."""
    is_contraction: bool | None = None
    is_layout: bool | None = None
    extents: Mapping[str, int] | None = None
    points: int | None = None


@value(frozen=True)  # without slots, so that properties can be cached
class Statement:
    """`write = expression` (or `write = reduce(expression)`) for every point of the box where the guards hold."""

    name: str
    operator: str
    """Name of the graph operator it was lowered from."""
    iterators: tuple[Iterator, ...]
    write: Access
    expression: Scalar
    reduction: Reduction | None = None
    guards: tuple[Guard, ...] = ()
    covers: bool = True
    """Whether the statement writes every element of its array (False: a part, as concat and scatter do)."""
    because: str = ""
    """Purpose of the statement if an operator needs several ("row maximum")."""

    @cached_property
    def form(self) -> StatementForm:
        """The shared form of statements that `rewrite.rename_statement` derived from one another."""
        return StatementForm()

    def share(self, form: StatementForm, reads: tuple[Access, ...], sources: tuple[str, ...]) -> None:
        """Copy the cached properties of a statement that differs in names alone."""
        self.__dict__.update(form=form, _reads=reads, sources=sources)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The arrays that it reads, each once, in order of appearance."""
        return tuple(dict.fromkeys([access.array for access in self.reads()]))

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that it reads, then the one that it writes, each once: with the form, all that it is."""
        return self.sources if self.write.array in self.sources else (*self.sources, self.write.array)

    @property
    def extents(self) -> Mapping[str, int]:
        form = self.form
        if form.extents is None:
            form.extents = {i.name: i.extent for i in self.iterators}
        return form.extents

    @property
    def points(self) -> int:
        """Number of points of the domain, reduction iterators included."""
        form = self.form
        if form.points is None:
            form.points = math.prod(self.extents.values())
        return form.points

    @property
    def parallel(self) -> tuple[Iterator, ...]:
        """The iterators that index the written element."""
        reduced = self.reduction.iterators if self.reduction else ()
        return tuple(i for i in self.iterators if i.name not in reduced)

    @property
    def reduced(self) -> tuple[Iterator, ...]:
        reduced = self.reduction.iterators if self.reduction else ()
        return tuple(i for i in self.iterators if i.name in reduced)

    def reads(self) -> tuple[Access, ...]:
        """Every access of the expression, left to right, those inside indirect indices included."""
        return self._reads

    @cached_property
    def _reads(self) -> tuple[Access, ...]:
        return tuple(accesses(self.expression))

    def __str__(self) -> str:
        box = ", ".join(f"{i.name} < {i.extent}" for i in self.iterators)
        guard = "".join(f" if {g}" for g in self.guards)
        if self.reduction:
            names = ", ".join(self.reduction.iterators)
            return f"{self.name}[{box}]: {self.write} = {self.reduction.operation}({names}) {self.expression}{guard}"
        return f"{self.name}[{box}]: {self.write} = {self.expression}{guard}"


@dataclass(frozen=True)  # without slots, so that `readers` can be cached
class TensorProgram:
    """Statements in an order that is legal to run, over named arrays."""

    name: str
    arrays: Mapping[str, Array]
    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]
    """Arrays that hold a value before the first statement (graph inputs and constants)."""
    outputs: tuple[str, ...]
    """Arrays read afterwards.  An array in both `inputs` and `outputs` is updated in place."""
    constants: tuple[str, ...] = ()
    """Those of `inputs` whose value the graph fixes (weights)."""
    approximates: bool = False
    """Whether its kernel approximates functions of floats (`tile/opmath.py`)."""

    @cached_property
    def readers(self) -> Mapping[str, Sequence[Statement]]:
        """Array -> the statements that read it, in order; computed on first use."""
        found: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for array in statement.sources:
                found.setdefault(array, []).append(statement)
        return found

    @cached_property
    def _given_out(self) -> frozenset[str]:
        """`outputs`, of which a program that calls parts of arrays by names of their own has thousands."""
        return frozenset(self.outputs)

    def over(self, arrays: Mapping[str, Array], outputs: tuple[str, ...]) -> TensorProgram:
        """The same statements over more arrays, with other outputs."""
        made = replace(self, arrays=arrays, outputs=outputs)
        made.__dict__["readers"] = self.readers
        return made

    def restrict(self, statements: Sequence[Statement], outputs: tuple[str, ...]) -> TensorProgram:
        """Some statements as a program of the arrays that they touch, which keep their roles and order."""
        used = set(outputs).union(*[s.arrays for s in statements])
        arrays = {name: array for name, array in self.arrays.items() if name in used}
        inputs, constants = (tuple(n for n in names if n in used) for names in (self.inputs, self.constants))
        return TensorProgram(self.name, arrays, tuple(statements), inputs, outputs, constants, self.approximates)

    def cut_out(self, statements: Sequence[Statement], outputs: Collection[str]) -> TensorProgram:
        """Some statements as a program whose inputs are what others make.  outputs: what they make for others."""
        made = dict.fromkeys(s.write.array for s in statements)
        read = dict.fromkeys(array for s in statements for array in s.sources)
        inputs = tuple(a for a in read if a not in made or a in self.inputs)
        written = tuple(a for a in made if a in outputs)
        return TensorProgram("", self.arrays, tuple(statements), inputs, written, approximates=self.approximates)

    def needed_outside(self, statements: Sequence[Statement]) -> frozenset[str]:
        """The arrays of some statements that others read, or that are outputs."""
        inside = {s.name for s in statements}
        made = {s.write.array for s in statements}
        readers = self.readers
        return frozenset([
            a for a in made if a in self._given_out or not inside.issuperset([s.name for s in readers.get(a, ())])
        ])

    def statement(self, name: str) -> Statement:
        """The statement called `name`; KeyError where there is none."""
        for statement in self.statements:
            if statement.name == name:
                return statement
        raise KeyError(name)

    def __str__(self) -> str:
        lines = [f"program {self.name}"]
        for array in self.arrays.values():
            role = "in" * (array.name in self.inputs) + "out" * (array.name in self.outputs) or "temporary"
            lines.append(f"  {role:9} {array}")
        return "\n".join(lines + [f"  {s}" for s in self.statements]) + "\n"


def of_form(known: dict[StatementForm, Value], statement: Statement, find: Callable[[Statement], Value]) -> Value:
    """`find(statement)`, once for statements that differ in names alone.  known: what was found."""
    form = statement.form
    if form not in known:
        known[form] = find(statement)
    return known[form]


def writers_of(statements: Iterable[Statement]) -> dict[str, list[Statement]]:
    """Array -> the statements that write it or a part of it, in order."""
    return group_by(statements, lambda s: s.write.array)


def several_writers(statements: Sequence[Statement]) -> dict[str, list[Statement]]:
    """Array -> the statements that write parts of it, of arrays with several; few graphs have any."""
    if len({s.write.array for s in statements}) == len(statements):
        return {}
    return {array: writing for array, writing in writers_of(statements).items() if len(writing) > 1}


def leaves(expression: Scalar) -> Iterator_[Literal | Access | Position]:
    """What an expression is computed from, left to right."""
    if isinstance(expression, Apply):
        for operand in expression.operands:
            yield from leaves(operand)
    else:
        yield expression


def map_leaves(expression: Scalar, change: Callable[[Literal | Access | Position], Scalar]) -> Scalar:
    """The expression with `change(leaf)` for every literal, access and position."""
    if not isinstance(expression, Apply):
        return change(expression)
    operands = tuple([map_leaves(operand, change) for operand in expression.operands])
    return Apply(expression.function, operands, expression.dtype)


def indices_in(leaf: Literal | Access | Position) -> tuple[Index, ...]:
    """The indices of a leaf, those of its guards last."""
    match leaf:
        case Access(_, indices, guards, _):
            return (*indices, *(guard.index for guard in guards)) if guards else indices
        case Position(index, _):
            return (index,)
        case Literal():
            return ()


def accesses(expression: Scalar) -> list[Access]:
    """Every access inside an expression, left to right; the reads of indirect indices come before their access."""
    found: list[Access] = []
    for leaf in leaves(expression):
        indices = leaf.indices if isinstance(leaf, Access) else indices_in(leaf)
        found += [Access(element.array, element.indices) for index in indices for element in index.elements()]
        found += [leaf] if isinstance(leaf, Access) else []
    return found


def iterators_of(value: Scalar) -> set[str]:
    """The iterators that an expression's reads move with."""
    return {name for access in accesses(value) for index in access.indices for name in index.iterators()}


def without_cast(value: Scalar) -> Scalar:
    """The operand of a conversion; any other value itself."""
    return value.operands[0] if isinstance(value, Apply) and value.function == "cast" else value


def without_casts(value: Scalar) -> Scalar:
    """The value before all conversions, which half-precision operators make to compute in float32."""
    inner = without_cast(value)
    return value if inner is value else without_casts(inner)
