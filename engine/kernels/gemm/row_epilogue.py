"""Row reductions of a product's results, on the sums while they are in registers.

    pass 0    every sum becomes what follows it, up to the first reductions: a thread collects its part of each row
              neighbouring lanes combine their parts by shuffles, warps beside each other in shared memory
    pass 1    what is made of a row's result, then of every element, up to the next reductions; and so on

A block has whole rows, so no value leaves it on the way.  What a later pass reads again stays in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from engine.fusion.row_epilogue import SPREAD
from engine.kernels.elementwise.lower import place
from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.nodes import PARTS_AT_ONCE
from engine.kernels.loop_nest import Nest
from engine.kernels.reduction.block_reduce import Accumulator, parts_buffer
from engine.kernels.statement_block import BlockOptions, Keep, Place, evaluate_block, total_statement
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement, TensorProgram
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import Barrier, Comment, Load, Slot, Store, WarpReduce
from engine.tile.source import Line


class ProductRows(Protocol):
    """A product of whose results a block has whole rows, and what follows it."""

    @property
    def emitter(self) -> Emitter:
        """Of the kernel."""

    @property
    def program(self) -> TensorProgram:
        """Of the group."""

    @property
    def nest(self) -> Nest:
        """Whose outer dimensions are batches, rows and columns."""

    @property
    def statement(self) -> Statement:
        """The product."""

    @property
    def after(self) -> tuple[Statement, ...]:
        """What follows it, in order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the outer dimensions."""

    @property
    def results_link(self) -> Line:
        """Where what follows comes from."""

    @property
    def combined(self) -> dict[str, str]:
        """Reductions -> how threads that hold parts of a row combine them, to be filled."""

    @property
    def size(self) -> tuple[int, ...]:
        """Rows and columns."""

    def widest_result(self) -> int:
        """Neighbouring results that can be read and written at once."""

    def variables_at(self, where: tuple[Index, ...], vector: int) -> Mapping[str, Index]:
        """Every outer dimension at a row, or at a row and the first of `vector` neighbouring columns."""


@dataclass(frozen=True, slots=True)
class RowThreads:
    """The threads that hold parts of the same rows: `lanes` neighbours in each of `groups` warps."""

    lanes: int
    lane: Index
    """Which of the neighbours a thread is."""
    groups: int
    group: Index
    rows: int
    """Of the block."""
    first: Index
    """The first of them."""
    is_ours: tuple[Index, ...] = ()
    """Conditions (>= 0) under which a thread's rows are its own to store: others have computed them, too."""

    def __str__(self) -> str:
        warps = f", then shared memory over {self.groups} warps" if self.groups > 1 else ""
        return f"shuffle over {self.lanes} lanes{warps}" if self.lanes > 1 else f"a thread has all{warps}"


@dataclass(frozen=True, slots=True)
class Pass:
    """What is done between two combinations, in order: for each row, then for each element."""

    of_rows: tuple[Statement, ...]
    """Results of the reductions of the pass before, and what is made of them."""
    of_elements: tuple[Statement, ...]
    """Reductions among them collect their terms here."""

    @property
    def reductions(self) -> tuple[Statement, ...]:
        """What threads combine at the end."""
        return tuple(s for s in self.of_elements if s.reduction is not None)


def passes(anchor: Statement, after: Sequence[Statement]) -> tuple[Pass, ...]:
    """What follows a product, in passes over the elements of its rows.

    after: in an order that is legal to run, which stays theirs.
    """
    found: list[tuple[list[Statement], list[Statement]]] = [([], [])]
    for statement in after:
        reduced = _reductions(found[-1][1])
        if {s.write.array for s in reduced} & {access.array for access in statement.reads()}:
            found.append((reduced, []))
        is_of_row = statement.reduction is None and len(statement.parallel) < len(anchor.parallel)
        found[-1][0 if is_of_row else 1].append(statement)
    if _reductions(found[-1][1]):
        found.append((_reductions(found[-1][1]), []))
    return tuple(Pass(tuple(rows), tuple(elements)) for rows, elements in found)


def _reductions(statements: Sequence[Statement]) -> list[Statement]:
    return [s for s in statements if s.reduction is not None]


def store_rows(
    gemm: ProductRows, owned: Owned, sharers: RowThreads, wanted: Collection[str] = ()
) -> tuple[int, Mapping[str, Access]]:
    """Everything after the sums of a block that has whole rows, and the stores.

    wanted: arrays that the kernel goes on with.  Returns the elements of a vector and the registers of these arrays,
    over loops of the vectors of a row (s), rows (r) and the lanes of a vector.
    """
    rows = _Rows(gemm, owned, sharers)
    rows.emit(frozenset(wanted))
    return rows.vector, {array: rows.values[array] for array in wanted}


class _Rows:
    def __init__(self, gemm: ProductRows, owned: Owned, sharers: RowThreads) -> None:
        self.gemm, self.owned, self.sharers = gemm, owned, sharers
        self.emitter, self.link = gemm.emitter, gemm.results_link
        self.outputs = frozenset(gemm.program.outputs)
        self.rows, columns = owned.shape
        self.vector = min(owned.vector, gemm.widest_result())
        self.vectors = columns // self.vector
        """Of one row of a thread."""
        self.values: dict[str, Access] = {}
        """Arrays that later passes read, and their registers."""
        self.totals: dict[str, Accumulator] = {}
        """Reduction -> the registers in which a thread collects its part of each row."""
        self.full: dict[str, int] = {}
        """Variables that masks narrowed -> their extents past the edges."""
        self.emitter.masked = frozenset(i.name for s in (gemm.statement, *gemm.after) for i in s.iterators)

    def emit(self, wanted: frozenset[str]) -> None:
        """All passes.  wanted: arrays that stay in registers to the end."""
        anchor = self.gemm.statement
        todo = passes(anchor, self.gemm.after)
        for number, one in enumerate(todo):
            later = {access.array for other in todo[number + 1 :] for s in other.of_elements for access in s.reads()}
            later |= wanted
            if one.of_rows:
                self._of_rows(one.of_rows)
            elements = one.of_elements if number else (anchor, *one.of_elements)
            if elements:
                self._of_elements(elements, one.reductions, later)
            for statement in one.reductions:
                self._combine(statement)

    def _of_rows(self, statements: Sequence[Statement]) -> None:
        """Values of a row: every thread that has a part of it computes them, one stores what is an output."""
        emitter, sharers, link = self.emitter, self.sharers, self._link(statements)
        emitter.add(Comment(f"of each row: {' '.join(link.statements)}", link))
        emitter.vector = 1
        with self._full_extents(), emitter.loop("r", self.rows, link) as r:
            row, inside = self._row(r)
            one = [sharers.lane * -1, sharers.group * -1, *sharers.is_ours]
            stores = any(s.write.array in self.outputs for s in statements)
            totals = (self.totals[s.name].total for s in statements if s.name in self.totals)
            values = {**self.values, **{total.array: total for total in totals}}
            options = BlockOptions(
                mask=inside,
                store_mask=emitter.mask("first_of_row", one, link, (inside,)) if stores else inside,
                stored=self.outputs,
                keep=Keep(frozenset(s.write.array for s in statements), r, self.rows),
                lanes=False,
                dimensions=self.gemm.names,
            )
            evaluate_block(
                emitter, [self._result_statement(s) for s in statements], self._place((row,)), values, options
            )
            self.values |= {s.write.array: values[s.write.array] for s in statements}

    def _result_statement(self, statement: Statement) -> Statement:
        """A reduction as what its combined parts are in the type of its array."""
        if statement.reduction is None:
            return statement
        return total_statement(self.emitter, statement, self.totals[statement.name].total)

    def _of_elements(
        self, statements: Sequence[Statement], reductions: Sequence[Statement], later: Collection[str]
    ) -> None:
        """What is made of every element of the rows, and the terms of reductions.  later: arrays needed once more."""
        emitter, gemm, vector, link = self.emitter, self.gemm, self.vector, self._link(statements)
        for statement in reductions:
            self._declare_total(statement)
        kept = frozenset(s.write.array for s in statements if s.write.array in later and s not in reductions)
        emitter.add(Comment(f"of each element: {' '.join(link.statements)}", link))
        emitter.vector = vector
        emitter.extents[LANE_OF_VECTOR] = vector
        lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
        with self._full_extents(), emitter.loop("s", self.vectors, link) as s:
            column, there = self._column(s)
            with emitter.loop("r", self.rows, link) as r:
                row, inside = self._row(r, there)
                total = self.owned.sums(r, s * vector + lane)
                values = {**self.values, total.array: total}
                options = BlockOptions(
                    mask=inside,
                    store_mask=emitter.mask("ours", self.sharers.is_ours, link, (inside,)),
                    stored=self.outputs,
                    keep=Keep(kept, r * self.vectors + s, self.rows * self.vectors),
                    dimensions=gemm.names,
                    accumulators=self.totals,
                )
                evaluate_block(
                    emitter,
                    [total_statement(emitter, st, total) if st is gemm.statement else st for st in statements],
                    self._place((row, column)),
                    values,
                    options,
                )
                self.values |= {array: values[array] for array in kept}

    def _declare_total(self, statement: Statement) -> None:
        reduction = statement.reduction
        assert reduction is not None
        if reduction.operation not in SPREAD:
            reason = f"its rows come together by {', '.join(sorted(SPREAD))}, not by {reduction.operation}"
            raise Unsupported("codegen", statement.name, reason, "leave the reduction as it was written")
        name = self.emitter.register(f"{statement.write.array}_acc", reduction.accumulate, (self.rows,))
        self.emitter.declare(name, Literal(reduction.identity, reduction.accumulate))
        self.totals[statement.name] = Accumulator(Access(name, (Index.of("r") if self.rows > 1 else Index(),)))

    def _combine(self, statement: Statement) -> None:
        """The parts of each row that its threads hold become one value that all of them have."""
        reduction = statement.reduction
        assert reduction is not None
        emitter, link, sharers = self.emitter, self._link([statement]), self.sharers
        self.gemm.combined[statement.name] = str(sharers)
        total = self.totals[statement.name].total
        into = Slot(total.array, total.indices)
        emitter.add(Comment(f"{statement.name}, parts of a row: {sharers}", link))
        if sharers.lanes > 1:
            with emitter.loop("r", self.rows, link):
                emitter.add(WarpReduce(into, reduction.operation, sharers.lanes, link))
        if sharers.groups == 1:
            return
        parts = parts_buffer(emitter, f"{statement.write.array}_parts", reduction, sharers.rows * sharers.groups)
        width = min(sharers.groups, PARTS_AT_ONCE)
        first = emitter.mask("first_lane", [sharers.lane * -1, *sharers.is_ours], link)
        with emitter.loop("r", self.rows, link) as r:
            emitter.add(Store(parts, self._slots(r) + sharers.group, into, 1, first, link))
        emitter.add(Barrier(link))
        with emitter.loop("r", self.rows, link) as r:
            emitter.assign(into, Literal(reduction.identity, reduction.accumulate), link)
            with emitter.loop("q", sharers.groups // width, link) as q:
                part = emitter.register(f"{total.array}_part", emitter.buffers[parts].dtype, (width,))
                emitter.declare(part)
                emitter.add(Load(Slot(part), parts, self._slots(r) + q * width, width, None, None, link))
                with emitter.loop(LANE_OF_VECTOR, width, link) as v:
                    emitter.assign(into, Access(part, (v,)), link, reduction.operation)

    def _slots(self, r: Index) -> Index:
        """Where the parts of a thread's row begin in shared memory."""
        return (self.owned.row(r) - self.sharers.first) * self.sharers.groups

    # Where a thread is

    def _row(self, r: Index, there: str | None = None) -> tuple[Index, str | None]:
        """The row of the product that is a thread's row number `r`, and the mask where there is one."""
        row, size = self.emitter.bind("row", self.owned.row(r), self.link), self.gemm.size[0]
        inside = "row_inside" if there is None else "inside"
        return row, self._inside(inside, "row", Index((), size - 1) - row, size, there)

    def _column(self, s: Index) -> tuple[Index, str | None]:
        """The first column of a thread's vector number `s`, and the mask where it is one."""
        column = self.emitter.bind("column", self.owned.column(s * self.vector), self.link)
        size = self.gemm.size[1]
        return column, self._inside("column_inside", "column", Index((), size - self.vector) - column, size, None)

    def _inside(self, name: str, variable: str, edge: Index, size: int, within: str | None) -> str | None:
        mask = self.emitter.mask(name, [edge], self.link, (within,))
        if mask is not None and variable in self.emitter.extents:
            self.full.setdefault(variable, self.emitter.extents[variable])
            self.emitter.extents[variable] = size
        return mask

    @contextmanager
    def _full_extents(self) -> Iterator[None]:
        """Afterwards, rows and columns that masks narrowed may be past the edges again."""
        yield
        self.emitter.extents |= self.full
        self.full = {}

    def _place(self, at: tuple[Index, ...]) -> Place:
        """Where the iterators of a statement stand at a row, or at a row and a column."""
        variables = self.gemm.variables_at(at, self.vector)
        reached = tuple(m for m in self.gemm.nest.outer if m.name in variables)
        return lambda statement: place(statement, reached, variables)

    def _link(self, statements: Sequence[Statement]) -> Line:
        return Line(tuple(s.name for s in statements), self.gemm.names)
