"""Two-stage reductions: a long row is reduced in parts by many blocks, and the parts by each kernel that reads it.

    s = sum(r) x[r]                   ->   p[c] = sum(k) x[n * c + k];   s = sum(c) p[c]
    v = sum(r) (x[r] - s / N)^2       ->   q[c] = sum(k) (x[n * c + k] - p[c] / n)^2
                                           v = sum(c) (q[c] + n * (p[c] / n - s / N)^2)

The second form (Chan, Golub and LeVeque, 1979) is as stable as the first, and no part waits for the mean of all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.fusion.anchors import is_product
from engine.fusion.axis_splitting import outer_of, split
from engine.fusion.shape import ONE_BLOCK
from engine.tensor.index import Index, Quotient
from engine.tensor.nodes import Access, Apply, Array, Iterator, Literal, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import is_plain, plain_iterator

PARTS = ".parts"
"""Behind the names of a reduction and of its array: those of its parts."""
FEW_ROWS = 32
"""Rows that leave most of a GPU idle, each walked by a block."""
KEPT = 64 * 1024
"""Elements of a row that a block keeps, 64 for each of 1024 threads: it reads the row once, whoever needs it again."""
LEAST_PARTS, MOST_PARTS = 4, 1024
"""Parts of a row: as few are worth it, and as many everyone sums up in no time."""
SHORTEST = 32
"""Terms of a part: a warp's."""


def in_parts(program: TensorProgram) -> TensorProgram:
    """The program with every long reduction of few rows made of parts, in arrays called after the whole.

    Those that nothing as long waits for stay whole: blocks of one launch share their terms (`Layout.parts`).
    One operator's reductions that wait for each other, as those of a softmax, stay whole: each would be a kernel more.
    """
    sums = [s for s in program.statements if s.reduction is not None]
    long = {s.write.array: p for s in sums if (p := _parts(s, program.arrays)) and _is_awaited(s, program)}
    if not long:
        return program
    makers = {s.write.array: s for s in program.statements if s.covers and not s.guards}
    unrounded = {a: p for a, p in long.items() if _is_exact(p.whole, program.arrays)}
    means = {a: _mean_of(p.whole, makers, unrounded) if a in unrounded else None for a, p in long.items()}
    waiting = Counter(long[array].whole.operator for array, mean in means.items() if mean is None)
    found = {array: parts for array, parts in long.items() if waiting[parts.whole.operator] <= 1}
    means = {array: mean if mean and mean[0].whole.write.array in found else None for array, mean in means.items()}
    arrays = dict(program.arrays)
    made: list[Statement] = []
    for statement in program.statements:
        array = statement.write.array
        if array not in found:
            made.append(statement)
            continue
        one, mean = found[array], means[array]
        assert statement.reduction is not None
        shape = (*arrays[array].shape, one.count)
        arrays[one.name] = replace(arrays[array], name=one.name, shape=shape, dtype=statement.reduction.accumulate)
        made += one.squares_of_parts(*mean) if mean else one.sum_of_parts()
    return replace(program, arrays=arrays, statements=tuple(made))


@dataclass(frozen=True, slots=True)
class _PartialReduction:
    """A reduction split into a first stage over parts of its terms and a second one over their results."""

    whole: Statement
    cut: Statement
    """With a loop over the parts."""
    over: str
    """That loop."""
    count: int
    terms: int
    """Of a part."""

    @property
    def name(self) -> str:
        """The array of the parts' results."""
        return f"{self.whole.write.array}{PARTS}"

    @property
    def result(self) -> Access:
        """A part's result."""
        return Access(self.name, (*self.cut.write.indices, Index.of(self.over)))

    @property
    def mean(self) -> Scalar:
        """The mean of a part's terms, where the result is their sum."""
        dtype = self.whole.reduction.accumulate if self.whole.reduction else ""
        return Apply("div", (self.result, Literal(self.terms, dtype)), dtype)

    def sum_of_parts(self) -> tuple[Statement, Statement]:
        """The parts, and the whole from their results."""
        return self._part(self.cut.expression), self._from_parts(self.result)

    def squares_of_parts(self, sums: _PartialReduction, mean: Access) -> tuple[Statement, Statement]:
        """The same of squares about a mean: the parts' are about their own means, and corrected together."""
        assert isinstance(self.cut.expression, Apply)
        (distance, _) = self.cut.expression.operands
        assert isinstance(distance, Apply)
        dtype = distance.dtype
        own = Apply("sub", (distance.operands[0], sums.mean), dtype)
        off = Apply("sub", (sums.mean, mean), dtype)
        correction = Apply("mul", (Literal(self.terms, dtype), Apply("mul", (off, off), dtype)), dtype)
        whole = self._from_parts(Apply("add", (self.result, correction), dtype))
        return self._part(Apply("mul", (own, own), dtype)), whole

    def _part(self, expression: Scalar) -> Statement:
        reduction = self.cut.reduction
        assert reduction is not None
        rest = tuple(name for name in reduction.iterators if name != self.over)
        return replace(
            self.cut,
            name=f"{self.whole.name}{PARTS}",
            write=self.result,
            expression=expression,
            reduction=replace(reduction, iterators=rest),
            because=f"{self.count} parts of {self.whole.because or 'a long reduction'}",
        )

    def _from_parts(self, expression: Scalar) -> Statement:
        reduction = self.whole.reduction
        assert reduction is not None
        iterators = (*self.whole.parallel, Iterator(self.over, self.count))
        reduction = replace(reduction, iterators=(self.over,))
        return replace(self.whole, iterators=iterators, expression=expression, reduction=reduction)


def _parts(statement: Statement, arrays: Mapping[str, Array]) -> _PartialReduction | None:
    """How a reduction is split; None where it is short, has rows enough, or no number of parts divides it."""
    reduction = statement.reduction
    if reduction is None or not reduction.associative or not statement.covers or statement.guards:
        return None
    rows, terms = (math.prod(i.extent for i in its) for its in (statement.parallel, statement.reduced))
    # A row that a block keeps is read once; splitting it in two kernels would read it twice.
    few = FEW_ROWS if terms > KEPT else 1 if terms > ONE_BLOCK else 0
    if rows > few or is_product(statement) or not is_plain(statement.write):
        return None
    first, *others = statement.reduced
    if others and first.extent <= MOST_PARTS:
        parts = _PartialReduction(statement, statement, first.name, first.extent, terms // first.extent)
    else:
        own = first.extent // _most_parts(first.extent) if others else _inner(statement, first)
        cut, count = split(statement, {(statement.name, first.name): own}), first.extent // own
        parts = _PartialReduction(statement, cut, outer_of(first.name), count, terms // count)
    return parts if LEAST_PARTS <= parts.count <= MOST_PARTS and parts.terms >= SHORTEST else None


def _is_awaited(statement: Statement, program: TensorProgram) -> bool:
    """Whether a statement that a result leads to walks at least as many elements as a row has."""
    terms, led = math.prod(i.extent for i in statement.reduced), {statement.write.array}
    for other in program.statements:
        if led & {access.array for access in other.reads()} and other is not statement:
            led.add(other.write.array)
            if math.prod(other.extents.values()) >= terms:
                return True
    return False


def _is_exact(statement: Statement, arrays: Mapping[str, Array]) -> bool:
    """Whether a reduction's result has the type that it is collected in: parts have, whatever the result is."""
    return statement.reduction is not None and arrays[statement.write.array].dtype == statement.reduction.accumulate


def _most_parts(extent: int) -> int:
    """The most parts that a loop falls into evenly."""
    return next(n for n in range(MOST_PARTS, 0, -1) if extent % n == 0)


def _inner(statement: Statement, iterator: Iterator) -> int:
    """Terms of a part of one long loop: as the array read lies in rows of its own, else about as many as parts."""
    rows = [
        atom.by
        for access in statement.reads()
        for index in access.indices
        for atom, _ in index.terms
        if isinstance(atom, Quotient) and plain_iterator(atom.of) == iterator.name and iterator.extent % atom.by == 0
    ]
    if rows:
        return max(rows)
    near = math.isqrt(iterator.extent)
    return next(n for n in range(near, iterator.extent + 1) if iterator.extent % n == 0)


def _mean_of(
    squares: Statement, makers: Mapping[str, Statement], found: Mapping[str, _PartialReduction]
) -> tuple[_PartialReduction, Access] | None:
    """(the sum, the mean) about which a statement adds up squares, where both are over the same terms."""
    match squares.expression:
        case Apply("mul", (Apply("sub", (value, Access() as mean)) as left, right)) if left == right:
            maker = makers.get(mean.array)
        case _:
            return None
    match maker.expression if maker else None:
        case Apply("div", (Access() as total, Literal(count))):
            sums = found.get(total.array)
        case _:
            return None
    if sums is None or any(s.reduction is None or s.reduction.operation != "sum" for s in (squares, sums.whole)):
        return None
    same_terms = sums.whole.iterators == squares.iterators and sums.whole.expression == value
    same_row = mean.indices == squares.write.indices == sums.whole.write.indices
    is_mean = count == math.prod(i.extent for i in squares.reduced)
    return (sums, mean) if same_terms and same_row and is_mean else None
