"""Where the value of each statement lives until its readers have it, and where sums are collected.

A value stays in a register where every reader runs in the same iterations of all loops around it, further on in the
text; otherwise it goes through memory: the group's own output, or a workspace of the launch.  Either way the thread
that made it reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.kernels.general.instances import solve_rows
from engine.kernels.general.mapping import ThreadMapping
from engine.kernels.general.paths import Dimension, Paths, is_kept, moves, whole_rows
from engine.poly.nodes import Dependence
from engine.scheduling.algebra import rank
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram
from engine.tile.emit import Span


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Where one statement's value is made and kept."""

    loops: tuple[Dimension, ...]
    """The loops around the statement in its thread, outermost first."""
    ready: int
    """Of them, how many are around the place at which the value is complete; fewer than all for a sum."""
    collects: bool
    """Whether a register collects the terms of its sum from there on; memory does otherwise."""
    readers: frozenset[str]
    """Statements that read the value from its register."""
    in_memory: bool
    """Whether others read it from memory."""


def places(
    program: TensorProgram, paths: Paths, mapping: ThreadMapping, dependences: Sequence[Dependence]
) -> Mapping[str, ValuePlace]:
    """The place of every statement's value."""
    loops = {
        name: tuple(d for d in path if d.extent > 1 and d not in mapping.dimensions_of(name))
        for name, path in paths.items()
    }
    found: dict[str, ValuePlace] = {}
    for statement in program.statements:
        own = loops[statement.name]
        single = [d for d in paths[statement.name] if d.extent == 1]
        ready = _ready(statement, own, (*mapping.dimensions_of(statement.name), *single))
        flows = [d for d in dependences if d.kind == "flow" and d.source == statement.name]
        readers = {d.sink for d in flows} | {
            s.name for s in program.statements if statement.write.array in s.sources and s is not statement
        }
        if ready is not None and any(set(own[ready:]) & set(loops[reader]) for reader in readers - {statement.name}):
            ready = None if statement.reduction else ready  # later iterations of the loop over the terms read the sum
        collects = ready is not None
        depth = len(own) if ready is None else ready
        alone = sum(s.write.array == statement.write.array for s in program.statements) == 1
        in_place = statement.write.array in program.inputs
        near = {
            reader
            for reader in readers
            if alone and not in_place and collects
            and loops[reader][:depth] == own[:depth]
            and all(
                is_kept(d, program, loop.row(statement), loop.row(program.statement(reader)))
                for d in flows if d.sink == reader for loop in own[:depth]
            )
        }  # fmt: skip
        found[statement.name] = ValuePlace(own, depth, collects, frozenset(near), bool(readers - near))
    return found


def spans_of(program: TensorProgram, paths: Paths, mapping: ThreadMapping, array: str) -> tuple[Span, ...]:
    """The axes of an array that are not settled by the point of the mapping at which its elements are made.

    Who reads an element does so at the same point, as no dependence leaves it.
    """
    statement = next(s for s in program.statements if s.write.array == array)
    taken = mapping.dimensions_of(statement.name)
    rows, _ = whole_rows(statement, ((d, Index.of(f"point{n}")) for n, d in enumerate(taken)))
    extents = {f"point{n}": d.low + d.extent for n, d in enumerate(taken)}
    settled = solve_rows(rows, statement.iterators, extents).values
    free = {i.name for i in statement.iterators if i.extent > 1 and i.name not in settled}
    shape = program.arrays[array].shape
    return tuple(
        Span(axis, Index(), shape[axis])
        for axis, index in enumerate(statement.write.indices) if not free.isdisjoint(index.iterators())
    )  # fmt: skip


def _ready(statement: Statement, loops: Sequence[Dimension], taken: Sequence[Dimension]) -> int | None:
    """How many loops are around the whole of each sum; None where loops over terms go around several sums."""
    if statement.reduction is None:
        return len(loops)
    reduced = statement.reduction.iterators
    outer = 0
    while outer < len(loops) and not moves(loops[outer].row(statement), reduced):
        outer += 1
    kept = [i.name for i in statement.parallel if i.extent > 1]
    rows = [row for row, _ in whole_rows(statement, ((d, Index()) for d in (*taken, *loops[:outer])))[0]]
    settled = rank([[row.coefficient(name) for name in kept] for row in rows]) if rows and kept else 0
    return outer if settled == len(kept) else None
