"""A schedule tree cut at its outermost sequence into launches that run one after the other.

    sequence [band i: S0[i, k]] [band j: S1[j]]    ->    launch 1: S0 on a grid over i;   launch 2: S1 on a grid over j

Each launch has a grid and a mapping of its own.  What one makes and a later one reads is kept in global memory: in the
group's output, or in a workspace of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.general.mapping import map_threads
from engine.kernels.general.paths import Nest, NestSequence, paths
from engine.poly.nodes import Dependence
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import Buffer, KernelConfig, TileProgram


@dataclass(frozen=True, slots=True)
class LaunchesConfig(KernelConfig):
    """What several launches leave open, in order."""

    launches: tuple[KernelConfig | None, ...]


@dataclass(frozen=True, slots=True)
class LaunchPart:
    """What one launch may run."""

    group: FusionGroup
    """With the statements of these parts alone."""
    nest: Nest
    dependences: tuple[Dependence, ...]
    first: int
    end: int
    """It runs the parts [first, end) of the outermost sequence."""


def launch_parts(group: FusionGroup, nest: Nest, dependences: Sequence[Dependence]) -> Iterator[LaunchPart]:
    """The whole schedule; of a sequence also each part and each run of neighbours that loses no threads together."""
    if not isinstance(nest, NestSequence):
        yield LaunchPart(group, nest, tuple(dependences), 0, 1)
        return
    count = len(nest.parts)
    yield LaunchPart(group, nest, tuple(dependences), 0, count)
    alone = [_part(group, nest, dependences, n, n + 1) for n in range(count)]
    yield from alone
    points = [_points(part) for part in alone]
    first = 0
    while first < count:
        run = alone[first]
        while run.end < count:
            longer = _part(group, nest, dependences, first, run.end + 1)
            if _points(longer) < max(points[first : longer.end]):
                break
            run = longer
        if 1 < run.end - first < count:
            yield run
        first = run.end


def _part(
    group: FusionGroup, nest: NestSequence, dependences: Sequence[Dependence], first: int, end: int
) -> LaunchPart:
    program, parts = group.program, nest.parts[first:end]
    own = NestSequence(parts) if len(parts) > 1 else parts[0]
    names = set(paths(own))
    statements = [s for s in program.statements if s.name in names]
    made = replace(program.cut_out(statements, program.needed_outside(statements)), name=program.name)
    inside = tuple(d for d in dependences if d.source in names and d.sink in names)
    return LaunchPart(replace(group, program=made), own, inside, first, end)


def _points(part: LaunchPart) -> int:
    return map_threads(part.group.program, paths(part.nest), part.dependences).points


def fastest(tiles: Mapping[tuple[int, int], tuple[float, TileProgram]]) -> tuple[TileProgram, ...]:
    """The launches that take least time together.  tiles: [first, end) of the parts -> (microseconds, a program)."""
    best: dict[int, tuple[float, tuple[TileProgram, ...]]] = {0: (0.0, ())}
    for (first, end), (time, tile) in sorted(tiles.items(), key=lambda item: item[0]):
        if first in best:
            total = best[first][0] + time
            if end not in best or total < best[end][0]:
                best[end] = total, (*best[first][1], tile)
    return best[max(best)][1]


def join(group: FusionGroup, parts: Sequence[TileProgram]) -> TileProgram:
    """Programs of parts as the launches of one kernel."""
    if len(parts) == 1:
        return parts[0]
    program = group.program
    first, *later = (_as_launch(program, tile, number) for number, tile in enumerate(parts, 1))
    placements = {name: place for tile in parts for name, place in tile.placements.items()}
    config = LaunchesConfig(tuple(tile.config for tile in parts))
    return replace(first, later=tuple(later), placements=placements, config=config)


def with_workspaces(program: TensorProgram, buffers: Mapping[str, Buffer]) -> dict[str, Buffer]:
    """Buffers of which what nobody gives to the kernel or takes from it is its own memory."""
    known = {*program.inputs, *program.outputs}
    passed = {n for n, b in buffers.items() if b.scope == "global"} - known
    return {n: replace(b, scope="workspace") if n in passed else b for n, b in buffers.items()}


def _as_launch(program: TensorProgram, tile: TileProgram, number: int) -> TileProgram:
    """A program of a part, with what passes between launches in workspaces."""
    buffers = with_workspaces(program, tile.buffers)
    passed = {n for n, b in buffers.items() if b.scope != tile.buffers[n].scope}
    own = tile.read & {*program.inputs}
    return replace(
        tile,
        name=f"{tile.name}_{number}",
        buffers=buffers,
        read=own,
        # An output that an earlier launch made is no operand: to whoever launches the kernel it is written.
        written=(tile.written | (tile.read - own)) - passed,
        footprints=tuple(f for f in tile.footprints if f.array not in passed),
        statements=tuple(tile.placements),
    )
