"""The builder with which operator rules read tensors and emit statements.

Convention: the iterators of a statement are i, j, k, ... for the written axes in order, without those of extent 1,
then r, s, t, ... for the reduced ones.  Equal layers therefore have equal statements but for array names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from engine.graph.nodes import Operator, OperatorGraph
from engine.support.budgets import MAX_RECURRENT_STEPS
from engine.support.errors import BadInput, Unsupported
from engine.tensor.check import check_statement, check_writes
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Literal, Reduction, Statement
from engine.tensor.terms import NARROW, Term, cast, number

WRITTEN = "ijklmnopq"
REDUCED = "rstuvwxyz"
CONTRADICTION = "its declared shapes contradict each other"
FEW = 64
"""Largest integer constant that is part of the key of equal operators; shapes, axes and pads are shorter."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Iteration domain of a statement, with the index of every axis (0 for an axis of extent 1)."""

    written: tuple[Index, ...]
    """Indices of the written element; reduced axes of `over` stand here as 0."""
    point: tuple[Index, ...]
    """Indices of the element that is read: `written`, with the reduced axes running."""
    iterators: tuple[Iterator, ...]
    shape: tuple[int, ...]
    """Extents of the written axes, 1 for those that are reduced."""
    reduced: tuple[str, ...] = ()

    @property
    def extents(self) -> dict[str, int]:
        return {i.name: i.extent for i in self.iterators}

    def writing(self, at: Sequence[Index]) -> Domain:
        """The same points, written to the element `at`."""
        extents = self.extents
        shape = tuple(math.prod(extents[name] for name in index.iterators()) for index in at)
        return replace(self, written=tuple(at), shape=shape)

    def writing_to(self, shape: Sequence[int]) -> Domain:
        """The same points, written to an array of `shape`, which has the same axes but for those of extent 1."""
        extents, running = self.extents, [index for index in self.written if index.terms]
        sizes = [extents[name] for index in running for name in index.iterators()]
        if sizes != [size for size in shape if size > 1]:
            raise BadInput("tensor", "a result", f"has axes of {sizes} but is declared as {list(shape)}")
        rest = iter(running)
        return self.writing([next(rest) if size > 1 else Index() for size in shape])


def box(shape: Sequence[int], reduced: Sequence[int] = ()) -> Domain:
    """One iterator for each axis of `shape`, then for each extent of `reduced`; `point` has both."""
    space = over((*shape, *reduced), range(len(shape), len(shape) + len(reduced)))
    return replace(space, written=space.written[: len(shape)], shape=tuple(shape))


def over(shape: Sequence[int], axes: Collection[int]) -> Domain:
    """The domain of a reduction over `axes` of an array."""
    return _over(tuple(shape), frozenset(axes))


@lru_cache(maxsize=1024)
def _over(shape: tuple[int, ...], axes: frozenset[int]) -> Domain:
    """Cached, because a model has few shapes."""
    free, bound = iter(WRITTEN), iter(REDUCED)
    names = {axis: next(bound if axis in axes else free) for axis, size in enumerate(shape) if size > 1}
    point = tuple(Index.of(names[axis]) if axis in names else Index() for axis in range(len(shape)))
    order = sorted(names, key=lambda axis: (axis in axes, axis))
    return Domain(
        written=tuple(Index() if axis in axes else index for axis, index in enumerate(point)),
        point=point,
        iterators=tuple(Iterator(names[axis], shape[axis]) for axis in order),
        shape=tuple(1 if axis in axes else size for axis, size in enumerate(shape)),
        reduced=tuple(names[axis] for axis in order if axis in axes),
    )


class StatementBuilder:
    """Collects the statements of a graph's operators, one operator at a time."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.arrays = {t.name: Array(t.name, t.shape, t.dtype) for t in graph.tensors.values()}
        self.statements: list[Statement] = []
        self._constants = graph.constants
        self._producers = graph.producer()
        self._transposed, self._sums, self._pairs = graph.transposed, graph.sums, graph.pairs
        self._operator = ""
        self._steps = 0
        self.temporaries: list[tuple[str, str, str]] = []
        """Arrays declared by the current operator: (name, owner, suffix)."""
        self.is_particular = False
        """Whether the result depends on more than attributes, shapes, types and `constant_key`, so that it must not be
        reused for an equal operator."""

    def operator(self, op: Operator, lower: Callable[[Operator, StatementBuilder], None]) -> None:
        """Run an operator's rule; statements of a rule that raises Unsupported are removed.

        Raises BadInput where its shapes do not belong together.
        """
        self._operator = op.name
        self.temporaries, self.is_particular = [], False
        mark = len(self.statements)
        try:
            lower(op, self)
        except Unsupported:
            del self.statements[mark:]
            raise
        except BadInput as error:
            if op.name in error.subject:
                raise
            raise BadInput("tensor", f"operator {op.name}", f"{error.subject} {error.reason}", error.hint) from None
        except (LookupError, ValueError, ArithmeticError) as error:  # rules take it that ranks and attributes fit
            raise BadInput("tensor", f"operator {op.name}", self._misfit(op), CONTRADICTION) from error
        made = self.statements[mark:]
        violations = chain(*(check_statement(self.arrays, s) for s in made), check_writes(self.arrays, made))
        for violation in violations:
            raise BadInput("tensor", f"operator {op.name}", f"{self._misfit(op)}: {violation}", CONTRADICTION)

    def _misfit(self, op: Operator) -> str:
        given, made = (
            ", ".join(str(list(self.shape(name))) for name in names if name) for names in (op.inputs, op.outputs)
        )
        return f"{op.kind} of {given or 'nothing'} does not give {made}"

    def producer(self, name: str) -> Operator | None:
        """The operator that writes a tensor of the graph."""
        return self._producers.get(name)

    def transpose_of(self, weight: str) -> str | None:
        """The constant that holds a weight with its two axes swapped, where there is one."""
        self.is_particular |= weight in self._transposed  # it is no operand of the operator
        return self._transposed.get(weight)

    def sums(self, weight: str) -> str | None:
        """The constant that holds the sums of a weight along what is multiplied, where there is one."""
        self.is_particular |= weight in self._sums
        return self._sums.get(weight)

    def pairs(self, codes: str) -> str | None:
        """The constant that holds codes of 4 bits two to a byte, where there is one."""
        self.is_particular |= codes in self._pairs
        return self._pairs.get(codes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[name].shape

    def dtype(self, name: str) -> str:
        return self.arrays[name].dtype

    def value(self, name: str) -> np.ndarray | None:
        """The known value of a constant; None for everything else, opaque weights included."""
        value = self._constant_value(name)
        self.is_particular |= value is not None and not _is_in_key(value)
        return value

    def constant_key(self, name: str) -> tuple[bool, bytes]:
        """Whether a constant's value is known, and the part of it that rules may depend on: a uniform element, or a few
        integers."""
        value = self._constant_value(name)
        # Large constants are data: rules that read them mark the operator as particular instead.
        if value is None or not _is_in_key(value):
            return value is not None, b""
        return True, (value.flat[0] if _is_uniform(value) else value).tobytes()

    def _constant_value(self, name: str) -> np.ndarray | None:
        constant = self._constants.get(name)
        return constant.value if constant else None

    def take_steps(self, count: int) -> None:
        """Count the steps of an unrolled operator; Unsupported past `MAX_RECURRENT_STEPS` of the graph."""
        self.is_particular = True  # how many may be taken depends on the operators before
        if self._steps + count > MAX_RECURRENT_STEPS:
            others = f", {self._steps} were taken before" if self._steps else ""
            reason = f"takes {count} steps one after the other{others}; {MAX_RECURRENT_STEPS} of a graph are compiled"
            raise Unsupported("tensor", f"operator {self._operator}", reason, "shorter sequences are compiled")
        self._steps += count

    def temporary(self, owner: str, suffix: str, shape: Sequence[int], dtype: str) -> str:
        """Declare an array "OWNER.SUFFIX", numbered where the file uses that name itself."""
        name, count = f"{owner}.{suffix}", 1
        while name in self.arrays:
            count += 1
            name = f"{owner}.{suffix}{count}"
        self.arrays[name] = Array(name, tuple(shape), dtype)
        self.temporaries.append((name, owner, suffix))
        return name

    def read(self, name: str, indices: Sequence[Index]) -> Term:
        """Read one element of a tensor; a uniform constant becomes a literal."""
        array = self.arrays[name]
        value = self._constant_value(name)
        if value is not None and _is_uniform(value):
            return number(value.flat[0].item(), array.dtype)
        return Term(Access(name, tuple(indices)), array.dtype)

    def broadcast(self, name: str, space: Domain) -> Term:
        """Read a tensor at the written element, broadcast by NumPy's rule."""
        own, indices, shape = self.shape(name), space.written, space.shape
        lead = len(own) - len(shape)
        if lead > 0 and any(size != 1 for size in own[:lead]):
            raise self._mismatch(name, shape)
        aligned = [Index()] * max(lead, 0) + list(indices[max(-lead, 0) :])
        sizes = [1] * max(lead, 0) + list(shape[max(-lead, 0) :])
        if any(size not in (1, wanted) for size, wanted in zip(own, sizes, strict=True)):
            raise self._mismatch(name, shape)
        return self.read(name, [Index() if size == 1 else at for size, at in zip(own, aligned, strict=True)])

    def _mismatch(self, name: str, shape: Sequence[int]) -> BadInput:
        reason = f"{self.arrays[name]} does not broadcast to {list(shape)}"
        return BadInput("tensor", f"operator {self._operator}", reason, CONTRADICTION)

    def emit(
        self,
        target: str,
        space: Domain,
        expression: Term,
        *,
        reduction: str = "",
        covers: bool = True,
        because: str = "",
    ) -> None:
        """Append `target[space.written] = expression`, reduced by `reduction` where the domain has reduced iterators.

        covers: whether the statement writes the whole array; of several that write parts, none does.
        """
        array = self.arrays[target]
        accumulate = accumulator(reduction, expression.dtype)
        reduces = reduction != "" and space.reduced != ()
        value = cast(expression, accumulate if reduces else array.dtype)
        self.statements.append(
            Statement(
                name=f"S{len(self.statements)}",
                operator=self._operator,
                iterators=space.iterators,
                write=Access(target, space.written),
                expression=value.scalar,
                reduction=_reduction(reduction, space.reduced, accumulate) if reduces else None,
                covers=covers,
                because=because,
            )
        )

    def define(
        self, owner: str, suffix: str, space: Domain, value: Term, *, reduction: str = "", because: str = ""
    ) -> str:
        """Append the statement of a new temporary "OWNER.SUFFIX", which has the domain's shape; its name."""
        name = self.temporary(owner, suffix, space.shape, accumulator(reduction, value.dtype))
        self.emit(name, space, value, reduction=reduction, because=because)
        return name

    def layout(self, source: str, target: str, indices: Callable[[Domain], Sequence[Index]], because: str = "") -> None:
        """Append a copy `target[...] = source[indices]`, which changes no value."""
        space = box(self.shape(target))
        self.emit(target, space, self.read(source, indices(space)), because=because)

    def needed_statements(self, outputs: Collection[str]) -> tuple[Statement, ...]:
        """The statements that `outputs` depend on, named in order."""
        needed, kept = set(outputs), []
        for statement in reversed(self.statements):
            if statement.write.array in needed:
                needed.update(statement.sources)
                kept.append(statement)
        return tuple(_with_name(s, f"S{at}") for at, s in enumerate(reversed(kept)))


def _is_uniform(value: np.ndarray) -> bool:
    """Whether all elements are known to be equal, without reading them."""
    return value.dtype != object and (value.size == 1 or (value.size > 0 and not any(value.strides)))


def _is_in_key(value: np.ndarray) -> bool:
    """Whether a constant's value is part of `constant_key`: a uniform array, or a few integers."""
    return _is_uniform(value) or (value.dtype.kind in "iub" and value.size <= FEW)


def _with_name(statement: Statement, name: str) -> Statement:
    if statement.name == name:
        return statement
    made = replace(statement, name=name)
    made.share(statement.form, statement.reads(), statement.sources)
    return made


def accumulator(operation: str, dtype: str) -> str:
    """The type to accumulate in: sums and products of half precision are kept in float32, a maximum is exact."""
    return "float32" if dtype in NARROW and operation in ("sum", "prod") else dtype


def lowest(dtype: str) -> float:
    """The value that no element of a type is below."""
    return -np.inf if "float" in dtype else 0 if dtype == "bool" else int(np.iinfo(dtype).min)


def highest(dtype: str) -> float:
    """The value that no element of a type is above."""
    return np.inf if "float" in dtype else 1 if dtype == "bool" else int(np.iinfo(dtype).max)


def _reduction(operation: str, iterators: tuple[str, ...], accumulate: str) -> Reduction:
    zero, one = number(0, accumulate).scalar, number(1, accumulate).scalar
    assert isinstance(zero, Literal) and isinstance(one, Literal)
    identity = {
        "sum": zero.value, "prod": one.value, "max": lowest(accumulate), "min": highest(accumulate), "any": False,
        "all": True,
    }[operation]  # fmt: skip
    return Reduction(operation, iterators, identity, accumulate)
