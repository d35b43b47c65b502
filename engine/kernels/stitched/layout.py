"""The walk of every part of a stitched kernel, as the marks ask for, as far as it can be had.

Reductions choose first.  An element-wise part over the same dimensions follows the reduction that it hands values to or
takes them from, so that they stay in registers; one over the kept dimensions alone has one value for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.graph.nodes import DTYPES
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import DEFAULT_THREADS, Marks, divisor_of, power_up_to
from engine.kernels.stitched.parts import Box, Names, Part, boxes
from engine.kernels.stitched.walk import Axis, BlockWalk, along_rows, shared_out
from engine.target.hardware import MAX_THREADS, VECTOR_BYTES, WARP
from engine.tensor.access import reads_beside, uniform_along, vector_limit
from engine.tensor.nodes import Statement, TensorProgram
from engine.tile.nodes import KernelConfig

REFUSED = {
    "tile": "a stitched kernel keeps what other threads use in shared memory, whole",
    "stages": "a stitched kernel has no tiles to copy ahead",
    "split": "the loops of a stitched kernel are shared out to threads whole",
    "unroll": "loops are written out where registers go from one part to another",
}
"""Marks that no stitched kernel has a use for, and why."""
POINT = "point"
"""The dimension over the points of a block, where it has several."""

Space = tuple[tuple[Axis, ...], tuple[Axis, ...]]
"""Kept and reduced dimensions."""


@dataclass(frozen=True, slots=True)
class StitchedConfig(KernelConfig):
    """What a block does of its points, part by part."""

    points: int
    """Points of the common dimensions that a block owns."""
    parts: tuple[Part, ...]
    """With the threads of a block and those that share each reduction, in their walks."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Array -> how it is asked to be handed over; of the others the mappings decide."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.parts[0].walk.threads


def read_config(program: TensorProgram, nest: Nest, names: Names, marks: Marks) -> StitchedConfig:
    """What the marks ask for."""
    marks.refuse(REFUSED)
    points, parts = read_parts(program, nest, names, marks)
    asked = {s.write.array: marks.first_mark("scope", s.name) for s in nest.statements}
    return StitchedConfig(points, parts, {array: str(mark.value) for array, mark in asked.items() if mark is not None})


def read_parts(program: TensorProgram, nest: Nest, names: Names, marks: Marks) -> tuple[int, tuple[Part, ...]]:
    """The points of a block, and the parts with their walks."""
    total = math.prod(m.extent for m in nest.outer)
    needs = f"a divisor of the {total} points of the common dimensions"
    points = marks.number("block", 1, divisor_of(total), needs, nest.outer)
    needs = f"a power of two from {WARP} to {MAX_THREADS}"
    threads = marks.number("thread", DEFAULT_THREADS, lambda n: power_up_to(MAX_THREADS)(max(WARP, n)), needs)
    found = boxes(nest)
    spaces = _spaces(found, points)
    walks: dict[Space, BlockWalk] = {}
    for space in dict.fromkeys(spaces):
        mine = [box for box, its in zip(found, spaces, strict=True) if its == space]
        walks[space] = _walk(program, space, mine, names, marks, threads)
    parts = [
        Part(box, walks[space], not space[1] or {m.name for m in box.members} >= {name for name, _ in space[1]})
        for box, space in zip(found, spaces, strict=True)
    ]
    return points, tuple(parts)


def _spaces(found: Sequence[Box], points: int) -> list[Space]:
    """What each box walks: reductions their own dimensions, the others those of a reduction where they match one."""
    before = ((POINT, points),) if points > 1 else ()
    own = [((*before, *kept), reduced) for kept, reduced in (box.axes for box in found)]
    reductions: dict[Space, list[Box]] = {}
    for box, space in zip(found, own, strict=True):
        if space[1]:
            reductions.setdefault(space, []).append(box)
    return [s if s[1] else _space_to_follow(b, s[0], reductions) or s for b, s in zip(found, own, strict=True)]


def _space_to_follow(box: Box, axes: tuple[Axis, ...], reductions: dict[Space, list[Box]]) -> Space | None:
    """The space of the reductions whose points a box visits: the one that it shares most values with."""
    candidates = [s for s in reductions if set(axes) in ({*s[0], *s[1]}, set(s[0]))]
    made = {s.write.array for s in box.statements}
    read = {a.array for s in box.statements for a in s.reads()}

    def shared_extent(space: Space) -> int:
        others = [s for other in reductions[space] for s in other.statements]
        return sum((s.write.array in read) + any(a.array in made for a in s.reads()) for s in others)

    return max(candidates, key=shared_extent, default=None)


def _walk(
    program: TensorProgram, space: Space, mine: Sequence[Box], names: Names, marks: Marks, threads: int
) -> BlockWalk:
    """The walk of one space: how many threads share a reduction, and how wide their vectors are."""
    kept, reduced = space
    members = [m for box in mine for m in box.members]
    reducing = [s for box in mine for s in box.statements if s.reduction is not None]
    by_row = bool(reducing) and along_rows(reducing[0]) and not reads_beside(reducing[0], program.arrays)
    along = reduced[-1] if by_row else (kept or (("", 1),))[-1]
    vector = _vector(program, along, [b for b in mine if any(m.name == along[0] for m in b.members)], names, marks)
    walk = shared_out(kept, reduced, threads, by_row, vector)
    if not reduced:
        return walk
    name = "lane" if by_row else "warp"
    inner = [m for m in members if m.name in {axis for axis, _ in reduced}]
    most = threads if not by_row or walk.rows <= 1 else max(WARP, threads // walk.rows)
    return replace(walk, sharers=marks.power(name, walk.sharers, power_up_to(most)(most), inner))


def _vector(program: TensorProgram, along: Axis, mine: Sequence[Box], names: Names, marks: Marks) -> int:
    """The widest vector along a dimension that accesses and accumulators allow, or what a mark asks for below it."""
    statements = [s for box in mine for s in box.statements]
    runs = {s.name: tuple(i for i, name in names.of(s).items() if name == along[0]) for s in statements}
    widest = max([_size(program, s) for s in statements], default=1)
    limit = min(vector_limit(statements, program, runs), VECTOR_BYTES // widest)
    while limit > 1 and not _guards_hold(statements, runs, limit):
        limit //= 2
    members = [m for box in mine for m in box.members if m.name == along[0]]
    needs = f"at most {limit} here: extent, alignment, guards and element type allow no more"
    return marks.number("vector", limit, power_up_to(limit), needs, members)


def _guards_hold(statements: Sequence[Statement], runs: Mapping[str, tuple[str, ...]], width: int) -> bool:
    """Whether no guard changes inside a vector, of reads that other parts hand over too."""
    return all(
        uniform_along(guard.index, runs[statement.name], width, statement.extents)
        for statement in statements
        for guards in (statement.guards, *(access.guards for access in statement.reads()))
        for guard in guards
    )


def _size(program: TensorProgram, statement: Statement) -> int:
    """Bytes of an element that is handed over with the others of its vector: made, read from another part, summed."""
    made = {s.write.array for s in program.statements}
    arrays = {statement.write.array, *(a.array for a in statement.reads() if a.array in made)}
    accumulated = DTYPES[statement.reduction.accumulate] if statement.reduction is not None else 1
    return max(accumulated, *(DTYPES[program.arrays[array].dtype] for array in arrays))
