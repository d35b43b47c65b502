"""What an element-wise kernel gives to its blocks and threads, as the marks ask for, as far as it can be had.

    block 1 @ i of [i < 4096, j < 768]    a block takes the 768 elements of one row
    block 4096 @ j                        a block takes 4096 neighbouring elements, over the ends of rows
    split 8 @ j, vector 4 @ j             a thread owns 8 neighbours along j and moves them as two vectors
    vector 4 @ i, i not last              a thread owns 4 neighbours along i; threads are neighbours along the last one
    vector 4 @ j, j of 7                  vectors go over the ends of rows, where whole rows hold a multiple of 4
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.kernels.access_patterns import run_limit
from engine.kernels.loop_nest import Nest, without_loops
from engine.kernels.marks import DEFAULT_THREADS, WRITTEN_OUT, Marks, divisor_of, power_up_to, up_to
from engine.scheduling.nodes import Member
from engine.target.hardware import MAX_THREADS
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator
from engine.tile.nodes import KernelConfig

REFUSED = {
    "tile": "no read runs across the direction of the write, so a tile would turn nothing",
    "stages": "an element-wise kernel has no tiles to copy ahead",
    "lane": "no value is shared along a row, so threads need no lanes: ask for threads",
    "warp": "no value is shared down a column, so threads need no warps: ask for threads",
}
"""Marks that no element-wise kernel has a use for, and why."""


@dataclass(frozen=True, slots=True)
class Strips:
    """The part of the loop space that a thread owns at a time: strips of dimensions, and the vectors that move them."""

    owned: Mapping[str, int]
    """Dimension -> neighbours along it that one thread owns and walks in a loop; dimensions without have none."""
    run: tuple[str, ...]
    """Dimensions that vectors run along, outermost first."""
    vector: int
    unrolled: frozenset[str] = frozenset()
    """Dimensions whose strips are written out."""

    @property
    def lanes(self) -> int:
        """Points next to each other in the loop space that are lanes of one vector, not threads."""
        return 1 if self.run and self.run[-1] in self.owned else self.vector

    @property
    def elements(self) -> int:
        """Elements that one thread owns at a time."""
        return self.lanes * math.prod(self.owned.values())

    def steps(self, dimension: str) -> int:
        """Vectors, or elements, in the strip of a dimension."""
        return self.owned[dimension] // (self.vector if dimension in self.run else 1)


@dataclass(frozen=True, slots=True)
class ElementwiseConfig(KernelConfig):
    """What one block does: `steps` times `threads` strips, `elements` in all."""

    threads: int
    elements: int
    steps: int
    strips: Strips
    is_unrolled: bool
    """Whether the steps are written out."""


def read_config(program: TensorProgram, nest: Nest, marks: Marks) -> ElementwiseConfig:
    """What the marks ask for; without them 256 threads with one vector each."""
    without_loops(nest, nest.statements)
    marks.refuse(REFUSED)
    strips = _read_strips(program, nest, marks)
    total, each = math.prod(m.extent for m in nest.outer), strips.elements
    threads = marks.number("thread", DEFAULT_THREADS, up_to(MAX_THREADS), f"at most {MAX_THREADS}")
    together = threads * each
    most = -(-total // together) * together

    def inside(member: Member) -> int:
        position = next(k for k, m in enumerate(nest.outer) if m is member)
        return math.prod(m.extent for m in nest.outer[position + 1 :])

    def whole_portions(asked: int) -> int:
        return -(-min(asked, most) // each) * each

    needs = f"whole portions of {each}, at most {most} elements"
    elements = marks.number("block", together, whole_portions, needs, elements=inside)
    steps = -(-elements // together)
    whole = [m for m in nest.outer if m.name not in strips.owned]
    return ElementwiseConfig(threads, elements, steps, strips, marks.is_written_out(steps, steps <= WRITTEN_OUT, whole))


def _read_strips(program: TensorProgram, nest: Nest, marks: Marks) -> Strips:
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
    strips = Strips(owned, tuple(m.name for m in run), vector)
    unrolled = set()
    for member in nest.outer:
        if member.name in owned:
            steps = strips.steps(member.name)
            if marks.is_written_out(steps, steps <= WRITTEN_OUT, (member,)):
                unrolled.add(member.name)
    return replace(strips, unrolled=frozenset(unrolled))


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
    limits = [run_limit(program, [m.name for m in run], _iterators_along(nest, run)) for run in runs]
    strip = owned.get(along.name, VECTORS)

    # The largest power of two that divides the strip is its lowest bit.
    fit = power_up_to(min(max(limits), strip & -strip))
    needs = f"at most {max(limits)} here: extent, alignment, guards and element type allow no more"
    if along.name in owned:
        needs = f"a power of two that divides the strip of {strip}"
    width = marks.number("vector", 1, fit, needs, (along,))
    others = [m for m in nest.outer if m is not along]
    marks.refuse({"vector": f"another entry asks for vectors along {along.name}"}, others)
    return next(run for run, limit in zip(runs, limits, strict=True) if limit >= width), width


VECTORS = 16
"""A multiple of every vector width."""


def _iterators_along(nest: Nest, run: Sequence[Member]) -> Mapping[str, Sequence[str]]:
    """Statement -> its iterators along a run of dimensions."""
    names = {s.name: [plain_iterator(m.rows[s.name]) for m in run] for s in nest.statements}
    return {statement: [n for n in found if n is not None] for statement, found in names.items()}
