"""Statements over one vector of elements: loads first, then one loop over the lanes, then stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.kernels.reduction.block_reduce import Accumulator, accumulate
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Scalar, Statement
from engine.tensor.rewrite import looked_up
from engine.tile.emit import Emitter, Where, at, merge_lines
from engine.tile.nodes import Barrier, Declare, Slot
from engine.tile.scope import LANE_OF_VECTOR
from engine.tile.source import Line

Place = Callable[[Statement], Where]
"""Where the iterators of a statement stand in kernel variables."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Results and loads that later loops use: held for every chunk."""

    arrays: frozenset[str]
    chunk: Index
    chunks: int

    def of(self, array: str) -> tuple[Index, int] | None:
        return (self.chunk, self.chunks) if array in self.arrays and self.chunks > 1 else None


NOTHING = Keep(frozenset(), Index(), 1)


def result_statement(statement: Statement, value: Scalar) -> Statement:
    """A reduction as an element-wise statement over its result."""
    return Statement(
        statement.name, statement.operator, statement.parallel, statement.write, value, None, statement.guards
    )


def evaluate_block(
    emitter: Emitter,
    statements: Sequence[Statement],
    place: Place,
    values: dict[str, Access],
    *,
    mask: str | None = None,
    store_mask: str | None = None,
    stored: frozenset[str] = frozenset(),
    keep: Keep = NOTHING,
    lanes: bool = True,
    dimensions: tuple[str, ...] = (),
    accumulators: Mapping[str, Accumulator] | None = None,
    fence: bool = False,
) -> None:
    """Evaluate `statements` in order for one vector (`lanes`) or one element, adding their results to `values`.

    mask: where it fails, masked iterators are out of range: loads give a neutral value and reductions skip.
    stored: arrays to write to global memory, where `store_mask` holds.  accumulators: reduction statement -> register.
    fence: all threads of the block meet before the stores, which overwrite what they read.
    """
    for part in _by_lookups(statements):
        _evaluate(
            emitter, part, place, values, mask=mask, stored=stored, keep=keep, width=emitter.vector if lanes else 1,
            dimensions=dimensions, accumulators=accumulators or {},
        )  # fmt: skip
    if fence:
        emitter.add(Barrier(merge_lines([at(s) for s in statements])))
    for statement in statements:
        if statement.write.array in stored and statement.reduction is None:
            emitter.store(statement, place(statement), values[statement.write.array], store_mask, at(statement))


def _by_lookups(statements: Sequence[Statement]) -> list[list[Statement]]:
    """The statements in parts, so that an index made in one part is looked up in a later one: loads come first."""
    parts: list[list[Statement]] = []
    for statement in statements:
        wanted = looked_up(statement)
        if not parts or any(s.write.array in wanted for s in parts[-1]):
            parts.append([])
        parts[-1].append(statement)
    return parts


def _evaluate(
    emitter: Emitter,
    statements: Sequence[Statement],
    place: Place,
    values: dict[str, Access],
    *,
    mask: str | None,
    stored: frozenset[str],
    keep: Keep,
    width: int,
    dimensions: tuple[str, ...],
    accumulators: Mapping[str, Accumulator],
) -> None:
    """All loads of some statements, then one loop over the lanes."""
    prepared = _prepare(emitter, statements, place, values, mask, stored, keep, width, dimensions)
    links = [at(s, *dimensions) for s in statements]
    with emitter.loop(LANE_OF_VECTOR, width, merge_lines(links)):
        for statement, expression, slot, link in prepared:
            if statement.reduction is None:
                if slot is None:
                    local = values[statement.write.array].array
                    emitter.add(Declare(local, expression, link))
                else:
                    emitter.assign(slot, expression, link)
                continue
            accumulate(emitter, statement, accumulators[statement.name], expression, mask, link)


def _prepare(
    emitter: Emitter,
    statements: Sequence[Statement],
    place: Place,
    values: dict[str, Access],
    mask: str | None,
    stored: frozenset[str],
    keep: Keep,
    width: int,
    dimensions: tuple[str, ...],
) -> list[tuple[Statement, Scalar, Slot | None, Line]]:
    """Expressions over registers, every load emitted; a register for each result (no slot: local to the lane loop)."""
    prepared: list[tuple[Statement, Scalar, Slot | None, Line]] = []
    for statement in statements:
        link = at(statement, *dimensions)
        kept = {a.array: k for a in statement.reads() if (k := keep.of(a.array))}
        expression = emitter.expression(statement.expression, values, place(statement), link, mask, kept)
        slot: Slot | None = None
        if statement.reduction is None:
            slot = _result(emitter, statement, values, stored, keep, width)
        prepared.append((statement, expression, slot, link))
    return prepared


def _result(
    emitter: Emitter, statement: Statement, values: dict[str, Access], stored: frozenset[str], keep: Keep, width: int
) -> Slot | None:
    """A register for the statement's result: an array where a store or a later loop needs every lane."""
    array = statement.write.array
    dtype = emitter.program.arrays[array].dtype
    kept = keep.of(array)
    lanes = (width,) if width > 1 else ()
    lane = (Index.of(LANE_OF_VECTOR),) if width > 1 else ()
    wide = width > 1 and (array in stored or array in keep.arrays)
    if kept is None and not wide:
        values[array] = Access(emitter.register(array, dtype), ())
        return None
    name = emitter.register(array, dtype, ((kept[1],) if kept else ()) + lanes)
    indices = ((kept[0],) if kept else ()) + lane
    emitter.declare(name, outermost=kept is not None)
    values[array] = Access(name, indices)
    return Slot(name, indices)
