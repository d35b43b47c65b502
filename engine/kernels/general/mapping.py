"""Dimensions that threads take instead of loops: those at equal values of which all dependent instances run.

Each point of these dimensions is a thread of its own, which runs the rest of the schedule in order.  Nothing passes
between threads, so no thread waits for another.

    band t (in order)                    threads i; each runs   for t: S[t, i]     where S[t, i] needs S[t-1, i] alone
      band i (parallel): S[t, i]
    sequence [band i: S0] [band i: S1]   threads i; each runs   S0[i]; S1[i]       where S1[i] needs S0[i] alone
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.kernels.general.paths import Dimension, Paths, is_kept, moves
from engine.poly.nodes import Dependence
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(frozen=True, slots=True)
class ThreadDimension:
    """Dimensions of the schedule, one for each statement, at whose common value one thread runs."""

    of: Mapping[str, Dimension]
    """Statement -> its dimension; a statement without is run by every thread, for itself."""
    name: str
    low: int
    extent: int
    strip: int = 1
    """Neighbouring values that one thread or block runs one after the other."""

    @property
    def strips(self) -> int:
        """How many strips of neighbours there are; the last one may be shorter."""
        return -(-self.extent // self.strip)


@dataclass(frozen=True, slots=True)
class ThreadMapping:
    """Points that run beside each other and need nothing from one another."""

    dimensions: tuple[ThreadDimension, ...]
    """Outermost first."""

    @property
    def points(self) -> int:
        """Points of the dimensions, each a strip of neighbours."""
        return math.prod(d.strips for d in self.dimensions)

    def dimensions_of(self, statement: str) -> tuple[Dimension, ...]:
        """The dimensions of a statement that are no loops."""
        return tuple(d.of[statement] for d in self.dimensions if statement in d.of)


def map_threads(program: TensorProgram, paths: Paths, dependences: Sequence[Dependence]) -> ThreadMapping:
    """The mapping with most threads that starts from one statement's dimensions."""
    leaders = sorted(program.statements, key=lambda s: -s.points)
    found = [_mapping(program, paths, dependences, leader) for leader in leaders[:_LEADERS]]
    return max(found, key=lambda mapping: mapping.points)


_REPEATED = 2
"""Times the points of the largest statement, that threads may run for themselves what one thread could run for all."""
_LEADERS = 4
"""Statements that are tried; those with most points have the dimensions that count."""


def _mapping(
    program: TensorProgram, paths: Paths, dependences: Sequence[Dependence], leader: Statement
) -> ThreadMapping:
    dimensions: list[ThreadDimension] = []
    for dimension in paths[leader.name]:
        used = [d for found in dimensions for d in found.of.values()]
        of = _match(program, paths, dependences, dimension, used)
        if of is not None:
            low = min(d.low for d in of.values())
            high = max(d.low + d.extent for d in of.values())
            if high - low > 1:
                dimensions.append(ThreadDimension(of, dimension.name, low, high - low))
    return ThreadMapping(tuple(dimensions))


def _match(
    program: TensorProgram,
    paths: Paths,
    dependences: Sequence[Dependence],
    dimension: Dimension,
    used: Sequence[Dimension],
) -> dict[str, Dimension] | None:
    """One dimension of each statement that can be, beside `dimension`; None where threads would depend on another."""
    of = {name: dimension for name, path in paths.items() if dimension in path}
    if not all(_can_be(program.statement(name), dimension) for name in of):
        return None
    for statement in program.statements:
        if statement.name in of:
            continue
        for own in paths[statement.name]:
            among = {n for n, path in paths.items() if own in path}
            if own in used or own.parts != dimension.parts or not among.isdisjoint(of):
                continue
            if not all(_can_be(program.statement(n), own) for n in among):
                continue
            tried = of | dict.fromkeys(among, own)
            if all(_is_kept(program, tried, d) for d in dependences if d.source in among or d.sink in among):
                of = tried
                break
    repeated = sum(s.points for s in program.statements if s.name not in of) * dimension.extent
    most = _REPEATED * max(s.points for s in program.statements)
    if repeated > most or not all(_is_kept(program, of, d) and not _leaves_thread(of, d) for d in dependences):
        return None
    return of


def _can_be(statement: Statement, dimension: Dimension) -> bool:
    """Whether one thread has all terms of each sum, at any value of a dimension."""
    row = dimension.row(statement)
    reduced = statement.reduction.iterators if statement.reduction else ()
    return bool(row.terms) and not moves(row, reduced)


def _is_kept(program: TensorProgram, of: Mapping[str, Dimension], dependence: Dependence) -> bool:
    """Whether a dependence between statements that both have a dimension stays at one value of it."""
    source, sink = dependence.source, dependence.sink
    if source not in of or sink not in of:
        return True
    rows = (of[name].row(program.statement(name)) for name in (source, sink))
    return is_kept(dependence, program, *rows)


def _leaves_thread(of: Mapping[str, Dimension], dependence: Dependence) -> bool:
    """Whether a dependence joins what one thread runs with what every thread runs for itself.

    What all run hands values on, as each thread has its own; it may not need another's, nor be overwritten by one.
    """
    return (dependence.source in of) != (dependence.sink in of) and (
        dependence.source in of or dependence.kind != "flow"
    )
