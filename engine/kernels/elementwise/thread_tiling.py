"""What one thread of an element-wise kernel owns: strips of dimensions, and the vectors that they are moved in.

    split 8 @ j, vector 4 @ j    a thread owns 8 neighbours along j and moves them as two vectors
    vector 4 @ i, i not last     a thread owns 4 neighbours along i; threads are neighbours along the last dimension
    vector 4 @ j, j of 7         vectors go over the ends of rows, where whole rows hold a multiple of 4
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, divisor_of
from engine.scheduling.nodes import Member
from engine.tensor.access import vector_limit
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

UNROLLED = 8
"""Steps of a thread that are written out; more stay a loop."""


@dataclass(frozen=True, slots=True)
class Strips:
    """How a thread walks its part of the loop space."""

    owned: Mapping[str, int]
    """Dimension -> neighbours along it that one thread owns and walks in a loop; dimensions without have none."""
    run: tuple[Member, ...]
    """Dimensions that vectors run along, outermost first."""
    vector: int
    unrolled: Mapping[str, bool]
    """Dimension with a strip -> whether its loop is written out."""

    @property
    def lanes(self) -> int:
        """Points next to each other in the loop space that are lanes of one vector, not threads."""
        return 1 if self.run and self.run[-1].name in self.owned else self.vector

    @property
    def each(self) -> int:
        """Elements that one thread owns at a time."""
        return self.lanes * math.prod(self.owned.values())

    def steps(self, member: Member) -> int:
        """Vectors, or elements, in the strip of a dimension."""
        return self.owned[member.name] // (self.vector if member in self.run else 1)


def read_strips(program: TensorProgram, nest: Nest, marks: Marks) -> Strips:
    """What `split`, `vector` and `unroll` marks ask for, as far as extents and accesses allow."""
    owned: dict[str, int] = {}
    for member in nest.outer:
        needs = f"a divisor of {member.extent}"
        factor = marks.number("split", 1, divisor_of(member.extent), needs, (member,))
        if factor > 1:
            owned[member.name] = factor
    run, vector = _vectors(program, nest, marks, owned)
    if vector > 1 and run[-1] is not nest.outer[-1]:
        owned.setdefault(run[-1].name, vector)
    strips = Strips(owned, run, vector, {})
    unrolled = {}
    for member in nest.outer:
        if member.name in owned:
            steps = strips.steps(member)
            unrolled[member.name] = marks.unrolled(steps, steps <= UNROLLED, (member,))
    return Strips(owned, run, vector, unrolled)


def _vectors(
    program: TensorProgram, nest: Nest, marks: Marks, owned: Mapping[str, int]
) -> tuple[tuple[Member, ...], int]:
    """(dimensions that vectors run along, width): the mark's, halved until the accesses allow it."""
    if not nest.outer:
        return (), 1
    along = marks.member("vector")
    along = along if along in nest.outer else nest.outer[-1]
    runs: list[tuple[Member, ...]] = [(along,)]
    if along is nest.outer[-1] and not owned:
        runs += [nest.outer[k:] for k in range(len(nest.outer) - 2, -1, -1)]
    limits = [_limit(program, nest, run) for run in runs]
    strip = owned.get(along.name, VECTORS)

    def fit(asked: int) -> int:
        width = 1
        while width * 2 <= min(asked, max(limits)) and strip % (width * 2) == 0:
            width *= 2
        return width

    needs = f"at most {max(limits)} here: extent, alignment, guards and element type allow no more"
    if along.name in owned:
        needs = f"a power of two that divides the strip of {strip}"
    width = marks.number("vector", 1, fit, needs, (along,))
    others = [m for m in nest.outer if m is not along]
    marks.refuse({"vector": f"another entry asks for vectors along {along.name}"}, others)
    return next(run for run, limit in zip(runs, limits, strict=True) if limit >= width), width


VECTORS = 16
"""A multiple of every vector width."""


def _limit(program: TensorProgram, nest: Nest, run: Sequence[Member]) -> int:
    """The widest vector along a run of dimensions; 1 where a statement has only some of them."""
    outside = {a: program.arrays[a] for a in (*program.inputs, *program.outputs)}
    runs: dict[str, tuple[str, ...]] = {}
    for statement in nest.statements:
        names = tuple(n for m in run if (n := plain_iterator(m.rows[statement.name])) is not None)
        if names and len(names) < len(run):
            return 1
        runs[statement.name] = names
    return vector_limit(nest.statements, outside, runs)
