"""Reference semantics of tensor programs: evaluates each statement over its whole domain with NumPy.

The meaning that schedules and kernels must keep.  It shares nothing with the operators' NumPy meanings, which start
from the graph; tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.support.errors import BadInput
from engine.tensor.functions import FUNCTION_OF, reduce_axes
from engine.tensor.index import Element, Index
from engine.tensor.nodes import (
    Access,
    Apply,
    Guard,
    Iterator,
    Literal,
    Position,
    Scalar,
    Statement,
    TensorProgram,
    without_cast,
)
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, is_shifted, match_weighted
from engine.tensor.terms import NARROW

CHUNK = 1 << 23
"""Largest number of points evaluated at once; larger domains are cut along their first iterator."""

Arrays = dict[str, np.ndarray]


def evaluate(program: TensorProgram, inputs: Mapping[str, np.ndarray], exact: bool = False) -> Arrays:
    """The value of every array that the program writes, updated inputs included.

    inputs: one array for each of `program.inputs`, of its shape.  Half precision is computed in float32 and rounded
    after every scalar function; with `exact` all floating point is float64 and never rounded.  Raises BadInput for a
    missing input or one of another shape.
    """
    arrays: Arrays = {}
    for name in program.inputs:
        if name not in inputs:
            raise BadInput("tensor", f"input {name}", "has no value", "give an array for every input and constant")
        value, shape = np.asarray(inputs[name]), program.arrays[name].shape
        if value.shape != shape:
            raise BadInput("tensor", f"input {name}", f"has shape {list(value.shape)}, {list(shape)} is declared")
        arrays[name] = value.astype(_numpy(program.arrays[name].dtype, exact), copy=False)
    written: dict[str, None] = {}
    for statement in program.statements:
        _run(statement, program, arrays, exact, fresh=statement.write.array not in written)
        written[statement.write.array] = None
    return {name: arrays[name] for name in written}


def temporaries(program: TensorProgram, known: Mapping[str, np.ndarray], wanted: Collection[str]) -> Arrays:
    """Arrays that a lowering made between the graph's tensors, from tensors whose values are `known`."""
    part = behind(program, known.keys(), wanted)
    return evaluate(part, {name: known[name] for name in part.inputs})


def behind(program: TensorProgram, known: Collection[str], wanted: Collection[str]) -> TensorProgram:
    """The slice of a program that computes the `wanted` arrays from the `known` ones."""
    needed = set(wanted)
    chosen: list[Statement] = []
    for statement in reversed(program.statements):
        if statement.write.array in needed:
            chosen.append(statement)
            needed.update(array for array in statement.sources if array not in known)
    made = {s.write.array for s in chosen}
    reads = {array for s in chosen for array in s.sources} - made
    return replace(program, statements=tuple(chosen[::-1]), inputs=tuple(reads), outputs=tuple(made))


def _numpy(dtype: str, exact: bool) -> np.dtype:
    return np.dtype("float64" if exact and "float" in dtype else dtype)


def _run(statement: Statement, program: TensorProgram, arrays: Arrays, exact: bool, fresh: bool) -> None:
    """Execute one statement; the written array is allocated (or, for an update, copied) at its first write."""
    target = program.arrays[statement.write.array]
    if fresh:
        old = arrays.get(target.name)
        result = np.zeros(target.shape, _numpy(target.dtype, exact)) if old is None else old.copy()
    else:
        result = arrays[target.name]
    with np.errstate(all="ignore"):
        for start, stop in chunks_of(statement):
            space = EvaluatedBox(statement, arrays, exact, start, stop)
            values = space.sum_shifted() if is_shifted(statement) else space.product_sum()
            if values is None:
                values = space.reduce(space.value(statement.expression))
            space.store(result, values)
    arrays[target.name] = result


def chunks_of(statement: Statement) -> list[tuple[int, int]]:
    """Ranges of the first iterator that keep a piece of the box below `CHUNK` points."""
    points = statement.points
    first = statement.parallel[0].extent if statement.parallel else 1
    if points <= CHUNK or not statement.parallel or is_product(statement):
        return [(0, first)]
    step = max(1, first * CHUNK // points)
    return [(start, min(start + step, first)) for start in range(0, first, step)]


def is_product(statement: Statement) -> bool:
    """Whether the statement is a sum of products of two accesses, possibly cast."""
    e, r = statement.expression, statement.reduction
    if r is None or r.operation != "sum" or statement.guards or not isinstance(e, Apply) or e.function != "mul":
        return False
    return all(isinstance(factor, Access) for factor in map(without_cast, e.operands))


@dataclass(frozen=True, slots=True)
class EvaluatedBox:
    """A statement's box with its first iterator cut to start .. stop; values have one axis for each iterator."""

    statement: Statement
    arrays: Mapping[str, np.ndarray]
    exact: bool
    start: int
    stop: int

    @property
    def iterators(self) -> tuple[Iterator, ...]:
        return self.statement.iterators

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(high - low for low, high in map(self.range, self.iterators))

    def range(self, iterator: Iterator) -> tuple[int, int]:
        return (self.start, self.stop) if iterator == self.iterators[0] and self.cut else (0, iterator.extent)

    @property
    def cut(self) -> bool:
        return bool(self.statement.parallel) and self.statement.parallel[0] == self.iterators[0]

    def value(self, scalar: Scalar) -> np.ndarray:
        """The value of an expression, broadcastable to `shape`."""
        match scalar:
            case Literal(value, dtype):
                return np.asarray(value, _numpy(dtype, self.exact))
            case Position(index, dtype):
                return self.index(index).astype(dtype)
            case Access():
                return self.access(scalar)
            case Apply(function, operands, dtype):
                return self.apply(function, [self.value(operand) for operand in operands], dtype)

    def apply(self, function: str, operands: Sequence[np.ndarray], dtype: str) -> np.ndarray:
        """A function of values, rounded to a type."""
        made = np.asarray(FUNCTION_OF[function](*map(_widen, operands)))
        return made.astype(_numpy(dtype, self.exact), copy=False)

    def index(self, index: Index) -> np.ndarray:
        """The value of an index at every point."""

        def leaf(atom: str | Element) -> np.ndarray:
            if isinstance(atom, str):
                return self.grid(atom)
            found = self.access(Access(atom.array, atom.indices))
            return np.where(found < 0, found + atom.wraps, found) if atom.wraps else found

        return np.asarray(index.evaluate(leaf))

    def grid(self, name: str) -> np.ndarray:
        """The values of an iterator along its own axis."""
        axis = next(at for at, iterator in enumerate(self.iterators) if iterator.name == name)
        low, high = self.range(self.iterators[axis])
        return np.arange(low, high).reshape([-1 if at == axis else 1 for at in range(len(self.iterators))])

    def access(self, access: Access) -> np.ndarray:
        array = self.arrays[access.array]
        if not access.guards:
            view = self.view(array, access.indices)
            return array[tuple(self.index(i) for i in access.indices)] if view is None else view
        inside = self.holds(access.guards)
        # Guarded reads may lie outside; NumPy evaluates both sides of `where`.
        places = [np.clip(self.index(i), 0, size - 1) for i, size in zip(access.indices, array.shape, strict=True)]
        assert access.otherwise is not None
        return np.where(inside, array[tuple(places)], np.asarray(access.otherwise.value, array.dtype))

    def holds(self, guards: tuple[Guard, ...]) -> np.ndarray:
        inside = np.asarray(True)
        for guard in guards:
            inside = inside & (self.index(guard.index) >= 0)
        return inside

    def view(self, array: np.ndarray, indices: tuple[Index, ...]) -> np.ndarray | None:
        """The accessed elements as a NumPy view, if every index is one iterator or a constant; else None."""
        order, cut = [], []
        axis_of = {iterator.name: at for at, iterator in enumerate(self.iterators)}
        for index in indices:
            match index.terms:
                case ():
                    cut.append(slice(index.constant, index.constant + 1))
                    order.append(-1)
                case ((str() as name, 1),) if axis_of[name] not in order:
                    low, high = self.range(self.iterators[axis_of[name]])
                    cut.append(slice(low + index.constant, high + index.constant))
                    order.append(axis_of[name])
                case _:
                    return None
        fixed = tuple(at for at, axis in enumerate(order) if axis < 0)
        keys: tuple[Any, ...] = (*cut, ...)  # the dots keep a scalar a view
        picked = np.squeeze(array[keys], fixed)
        running = [axis for axis in order if axis >= 0]
        moved = picked.transpose(np.argsort(running)) if running else picked
        missing = [axis for axis in range(len(self.iterators)) if axis not in running]
        return np.expand_dims(moved, missing)

    def product_sum(self) -> np.ndarray | None:
        """A sum of products as one matrix product; None for every other statement."""
        expression, reduction = self.statement.expression, self.statement.reduction
        if not is_product(self.statement) or not isinstance(expression, Apply) or reduction is None:
            return None
        kind = _numpy(reduction.accumulate, self.exact)
        a, b = (self.value(without_cast(operand)).astype(kind, copy=False) for operand in expression.operands)
        inner = [at for at, i in enumerate(self.iterators) if i.name in reduction.iterators]
        outer = [at for at in range(len(self.iterators)) if at not in inner]
        if any(a.shape[at] == 1 or b.shape[at] == 1 for at in inner):
            return None
        batch = [at for at in outer if a.shape[at] > 1 and b.shape[at] > 1]
        rows = [at for at in outer if a.shape[at] > 1 and b.shape[at] == 1]
        columns = [at for at in outer if b.shape[at] > 1 and a.shape[at] == 1]
        if len(batch) + len(rows) + len(columns) != len(outer):
            return None
        size = [[self.shape[at] for at in axes] for axes in (batch, rows, columns, inner)]
        m, n, k = (int(np.prod(sizes, dtype=np.int64)) for sizes in size[1:])
        left = a.transpose(batch + rows + inner + columns).reshape(*size[0], m, k)
        right = b.transpose(batch + inner + columns + rows).reshape(*size[0], k, n)
        product = np.matmul(left, right).reshape((*size[0], *size[1], *size[2]))
        return np.asarray(product.transpose(np.argsort(batch + rows + columns).tolist()))

    def sum_shifted(self) -> np.ndarray:
        """A reduction of shifted exponentials: subtract the row maximum, sum, then divide."""
        reduction, term = self.statement.reduction, match_weighted(self.statement.expression)
        assert reduction is not None and term is not None
        kind = _numpy(reduction.accumulate, self.exact)
        axes = tuple(at for at, i in enumerate(self.iterators) if i.name in reduction.iterators)
        whole_rows = np.zeros([n if at in axes else 1 for at, n in enumerate(self.shape)], kind)
        exponent = _widen(self.value(term.exponent)) + whole_rows
        weight = np.exp(exponent - exponent.max(axes, keepdims=True)).astype(kind, copy=False)
        factor = np.asarray(1, kind) if term.factor is None else self.value(term.factor)
        rounded = _widen(weight.astype(_numpy(term.rounded, self.exact))) if term.rounded else weight
        total = (rounded * factor).sum(axes, kind, keepdims=True)
        if reduction.operation == SHIFTED_MEAN:
            total = total / weight.sum(axes, kind, keepdims=True)
        parallel = [1 if at in axes else n for at, n in enumerate(self.shape)]
        return np.broadcast_to(total, parallel).squeeze(axes)

    def reduce(self, values: np.ndarray) -> np.ndarray:
        """The values reduced over the reduction's axes."""
        reduction = self.statement.reduction
        values = np.broadcast_to(values, self.shape)
        if reduction is None:
            return values
        if self.statement.guards:
            values = np.where(self.holds(self.statement.guards), values, reduction.identity)
        axes = tuple(at for at, i in enumerate(self.iterators) if i.name in reduction.iterators)
        return reduce_axes(reduction.operation, values, axes, _numpy(reduction.accumulate, self.exact))

    def store(self, result: np.ndarray, values: np.ndarray) -> None:
        """Write the values, which have an axis for each parallel iterator."""
        kept = self.statement.parallel
        values = np.expand_dims(values, [at for at, i in enumerate(self.iterators) if i not in kept])
        view = None if self.statement.guards else self.view(result, self.statement.write.indices)
        if view is not None and view.shape == values.shape:
            view[...] = values
            return
        shape = values.shape
        places = [np.broadcast_to(self.index(index), shape) for index in self.statement.write.indices]
        if self.statement.guards and self.statement.reduction is None:
            inside = np.broadcast_to(self.holds(self.statement.guards), shape)
            result[tuple(place[inside] for place in places)] = values[inside]
        else:
            result[tuple(places)] = values


def _widen(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32) if value.dtype.name in NARROW else value
