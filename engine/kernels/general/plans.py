"""Ways to run a schedule tree on a grid: which dimensions are threads, blocks, or shared by the threads of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from engine.kernels.general.lower import GeneralConfig
from engine.kernels.general.mapping import ThreadMapping, map_threads
from engine.kernels.general.paths import Dimension, Loop, Nest, Parts, Paths, is_kept, moves, paths
from engine.kernels.general.places import Place, places
from engine.poly.nodes import Dependence
from engine.target.hardware import WARP
from engine.tensor.nodes import TensorProgram

ALONE = 128
"""Threads of a block whose threads share nothing."""
TOGETHER = 256
"""Threads of a block that share loops."""

Plan = tuple[GeneralConfig, Mapping[str, Place]]
"""A configuration, and where its values live."""


def plans(program: TensorProgram, nest: Nest, dependences: Sequence[Dependence], threads: int | None) -> Iterator[Plan]:
    """Configurations of a nest.  threads: of a block, where a mark asks for some."""
    around = paths(nest)
    mapping = map_threads(program, around, dependences)
    where = places(program, around, mapping, dependences)
    private = tuple(d for d in mapping.dimensions if all(_is_private(where[s]) for s in where if s not in d.of))
    if private != mapping.dimensions:  # memory holds one copy of a value, not one for each thread that makes it
        mapping = ThreadMapping(private)
        where = places(program, around, mapping, dependences)
    yield GeneralConfig(mapping, threads or min(ALONE, -(-mapping.points // WARP) * WARP)), where
    for count in reversed(range(len(private) + 1)):
        outer = ThreadMapping(private[:count])
        where = places(program, around, outer, dependences)
        taken = {d for dimension in outer.dimensions for d in dimension.of.values()}
        shared = dict(_shared(program, nest, taken, where, dependences, around))
        if shared:
            most = max(math.prod(d.extent for d in loops) for loops in shared.values())
            together = threads or min(TOGETHER, max(WARP, 1 << (most - 1).bit_length()))
            yield GeneralConfig(outer, together, shared), where


def _is_private(place: Place) -> bool:
    return place.collects and not place.in_memory


def _shared(
    program: TensorProgram,
    nest: Nest,
    taken: set[Dimension],
    where: Mapping[str, Place],
    dependences: Sequence[Dependence],
    around: Paths,
) -> Iterator[tuple[Dimension, tuple[Dimension, ...]]]:
    """The outermost loops, not `taken`, whose iterations threads may run in any order, each with those just inside."""
    match nest:
        case Parts(parts):
            for part in parts:
                yield from _shared(program, part, taken, where, dependences, around)
        case Loop(dimension, _, body):
            if dimension in taken or dimension.extent == 1 or not _is_free(program, nest, nest, where, dependences):
                yield from _shared(program, body, taken, where, dependences, around)
                return
            loops = [dimension]
            inner = body
            while isinstance(inner, Loop):
                if inner.dimension not in taken and inner.dimension.extent > 1:
                    if not _is_free(program, inner, nest, where, dependences):
                        break
                    loops.append(inner.dimension)
                inner = inner.body
            yield dimension, tuple(loops)


def _is_free(
    program: TensorProgram, loop: Loop, first: Loop, where: Mapping[str, Place], dependences: Sequence[Dependence]
) -> bool:
    """Whether the iterations of a loop need nothing from one another but the sums that `first` begins."""
    among = set(loop.statements)
    for name in among:
        statement, place = program.statement(name), where[name]
        row = loop.dimension.row(statement)
        if not row.terms:
            return False
        if statement.reduction and moves(row, statement.reduction.iterators):
            begins = place.collects and place.loops[place.ready : place.ready + 1] == (first.dimension,)
            if not begins or not statement.reduction.associative:
                return False
    rows = {name: loop.dimension.row(program.statement(name)) for name in among}
    inside = (d for d in dependences if d.source in among and d.sink in among)
    return all(is_kept(d, program, rows[d.source], rows[d.sink]) for d in inside)
