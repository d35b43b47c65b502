"""Sums of a general kernel: in a register of each thread, or in memory where loops over terms go around several sums.

    for i: for k: S[i] += x[i, k]     ->   acc = 0;  for k: acc += x[i, k];  y[i] = acc
    for k: for i: S[i] += x[i, k]     ->   sums[i] = (k == 0 ? 0 : sums[i]) + x[i, k];  if (k == last) y[i] = sums[i]

A mean of values weighted by exponentials (tensor/shifted_exponentials.py) is two sums, of the weighted values and of
the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.kernels.reduction.block_reduce import (
    Accumulator,
    ReductionThreads,
    accumulate,
    accumulator,
    combine,
    parts_dtype,
    round_result,
)
from engine.support.errors import Unsupported
from engine.target.hardware import WARP
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Apply, Literal, Reduction, Scalar, Statement
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, SHIFTED_SUM, Weighted, is_shifted, match_weighted
from engine.tile.emit import Emitter, Where
from engine.tile.nodes import THREAD, Buffer, Declare, Load, Slot, Store
from engine.tile.scope import LANE_OF_VECTOR
from engine.tile.source import Line

ALONE = ReductionThreads(1, Index())


def whole_block(threads: int) -> ReductionThreads:
    """All threads of a block; they shuffle where their warps are full, as all lanes take part in a shuffle."""
    return ReductionThreads(threads, Index.of(THREAD), by_row=threads % WARP == 0)


@dataclass(frozen=True, slots=True)
class Sums:
    """The registers of one sum; of a mean, those of its weights, too."""

    emitter: Emitter
    statement: Statement
    parts: tuple[Accumulator, ...]

    @staticmethod
    def begin(emitter: Emitter, statement: Statement, lanes: int) -> Sums:
        """Registers with the neutral value, one for each of the lanes of a vector."""
        summed = _summands(statement)
        if lanes > 1 and len(summed) > 1:
            raise Unsupported("codegen", statement.name, "is a mean, whose sums are not vectors")
        return Sums(emitter, statement, tuple(accumulator(emitter, s, lanes) for s in summed))

    def add(self, term: Scalar, link: Line) -> None:
        """Add one term."""
        terms = _terms(self.statement, term)
        for part, statement, own in zip(self.parts, _summands(self.statement), terms, strict=True):
            with self.emitter.loop(LANE_OF_VECTOR, self.emitter.vector if part.total.indices else 1, link):
                accumulate(self.emitter, statement, part, own, None, link)

    def finish(self, threads: ReductionThreads, link: Line) -> Access:
        """The result of what some threads added, in all of them, rounded as the statement's array is."""
        emitter, statement = self.emitter, self.statement
        for part, summed in zip(self.parts, _summands(statement), strict=True):
            combine(emitter, summed, part, threads, link)
        total = self.parts[0].total
        if len(self.parts) > 1:
            dtype = _reduction(statement).accumulate
            name = emitter.register(f"{statement.write.array}_mean", dtype)
            emitter.add(Declare(name, Apply("div", (total, self.parts[1].total), dtype), link))
            total = Access(name, ())
        return round_result(emitter, statement, total, link)


def add_in_memory(
    emitter: Emitter, statement: Statement, rows: Sequence[Index], where: Where, term: Scalar, link: Line
) -> Sums:
    """Add a term to sums in a workspace of the shape of the statement's array; the registers that they went through.

    rows: of the statement, in the order of the loops.
    """
    again = emitter.mask("again", [_distance(statement, rows, where, from_first=True) - 1], link)
    # In global memory, also where the complete sums lie in shared memory: threads do not meet between two terms.
    indices = [index.substitute(where, emitter.extents) for index in statement.write.indices]
    position = linear(indices, emitter.program.arrays[statement.write.array].shape)
    places: list[tuple[str, Access]] = []

    def load(name: str, neutral: float | int | bool) -> Access:
        dtype, array = parts_dtype(_reduction(statement)), emitter.program.arrays[statement.write.array]
        buffer = f"{array.name}_{name}"
        emitter.buffers.setdefault(buffer, Buffer(buffer, dtype, array.shape, "workspace"))
        register = emitter.register(f"{array.name}_acc", dtype)
        emitter.declare(register)
        emitter.add(Load(Slot(register), buffer, position, 1, again, Literal(neutral, dtype), link))
        places.append((buffer, Access(register, ())))
        return places[-1][1]

    parts = [
        Accumulator(
            load(f"{kind}s", _reduction(summed).identity),
            load(f"{kind}_largest", -math.inf) if is_shifted(summed) else None,
        )
        for summed, kind in zip(_summands(statement), ("sum", "weight"), strict=False)
    ]
    sums = Sums(emitter, statement, tuple(parts))
    sums.add(term, link)
    for buffer, register in places:
        emitter.add(Store(buffer, position, Slot(register.array), 1, None, link))
    return sums


def last_term(emitter: Emitter, statement: Statement, rows: Sequence[Index], where: Where, link: Line) -> str | None:
    """The mask of the last term of a sum."""
    return emitter.mask("complete", [_distance(statement, rows, where, from_first=False) * -1], link)


def _distance(statement: Statement, rows: Sequence[Index], where: Where, from_first: bool) -> Index:
    """0 at the first (last) term of a sum in the order of the loops, more at all others.

    The loops meet an iterator's values in the direction of the first row that moves it.
    """
    total = Index()
    for iterator in statement.reduced:
        value = where.get(iterator.name, Index())
        ascends = next((c for row in rows if (c := row.coefficient(iterator.name))), 1) > 0
        total = total + (value if ascends == from_first else Index((), iterator.extent - 1) - value)
    return total


def _summands(statement: Statement) -> tuple[Statement, ...]:
    """The sums that make a statement's result, as statements."""
    if _reduction(statement).operation != SHIFTED_MEAN:
        return (statement,)
    summed = replace(statement, reduction=replace(_reduction(statement), operation=SHIFTED_SUM))
    return summed, summed


def _terms(statement: Statement, term: Scalar) -> tuple[Scalar, ...]:
    """A term of each of these sums.  The weights that a mean divides by are not rounded."""
    if _reduction(statement).operation != SHIFTED_MEAN:
        return (term,)
    weighted = match_weighted(term)
    assert weighted is not None, term
    return term, Weighted(weighted.exponent, "", None).expression(_reduction(statement).accumulate)


def _reduction(statement: Statement) -> Reduction:
    assert statement.reduction is not None
    return statement.reduction
