"""How the threads of a block would walk the parts of a stitched kernel, before there is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.kernels.loop_nest import Nest, block_nest
from engine.kernels.marks import Marks
from engine.kernels.stitched.layout import read_parts
from engine.kernels.stitched.lower import WRITTEN_OUT
from engine.kernels.stitched.parts import Names, Part
from engine.scheduling.nodes import Mark, ScheduleTree
from engine.target.hardware import SUM_BYTES, WARP
from engine.tensor.nodes import TensorProgram


@dataclass(frozen=True, slots=True)
class BlockWalks:
    """The parts of a stitched program under any launch."""

    program: TensorProgram
    nest: Nest
    """Without marks."""
    names: Names
    _found: dict[tuple[int, int], tuple[Part, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def points(self) -> int:
        """Points of the common dimensions."""
        return math.prod(m.extent for m in self.nest.outer)

    def parts(self, threads: int, points: int) -> tuple[Part, ...]:
        """With so many threads and points of a block, and as many sharers of each reduction as the compiler chooses."""
        if (threads, points) not in self._found:
            nest = _with_launch(self.nest, threads, points)
            self._found[threads, points] = read_parts(self.program, nest, Names(nest), Marks(nest))[1]
        return self._found[threads, points]


def block_walks(program: TensorProgram, schedule: ScheduleTree) -> BlockWalks:
    """Those of a program under a schedule, whatever its marks say."""
    nest = block_nest(program, schedule)
    outer = tuple(replace(m, marks=()) for m in nest.outer)
    phases = (replace(p, members=tuple(replace(m, marks=()) for m in p.members)) for p in nest.phases)
    bare = replace(nest, outer=outer, phases=tuple(phases))
    return BlockWalks(program, bare, Names(bare))


def _with_launch(nest: Nest, threads: int, points: int) -> Nest:
    """The nest with the marks of a launch."""
    marks = (Mark("thread", threads, "tune"), Mark("block", points, "tune"))
    if nest.outer:
        return replace(nest, outer=(replace(nest.outer[0], marks=marks), *nest.outer[1:]))
    first = next(n for n, phase in enumerate(nest.phases) if phase.members)
    phase = nest.phases[first]
    own = replace(phase, members=(replace(phase.members[0], marks=marks[:1]), *phase.members[1:]))
    return replace(nest, phases=(*nest.phases[:first], own, *nest.phases[first + 1 :]))


def points_visited(parts: Sequence[Part]) -> int:
    """Points that a block visits in all parts, those past the ends of its loops included."""
    walks = [part.walk for part in parts]
    return sum(w.steps * w.beside * w.width * w.chunks * w.sharers * w.length for w in walks)


def longest_loop(parts: Sequence[Part]) -> int:
    """Iterations of the longest loop that is not written out."""
    loops = [part.walk.steps * part.walk.chunks for part in parts]
    return max((loop for loop in loops if loop > WRITTEN_OUT), default=1)


def elements_held(parts: Sequence[Part]) -> int:
    """Elements that a thread holds at once."""
    return max(min(part.walk.steps * part.walk.chunks, WRITTEN_OUT) * part.walk.vector for part in parts)


def scratch_bytes(part: Part) -> int:
    """Bytes in which threads that share a reduction meet."""
    walk = part.walk
    sums = sum(s.reduction is not None for s in part.statements)
    if walk.sharers <= (WARP if walk.by_row else 1):
        return 0
    return SUM_BYTES * sums * (walk.threads // WARP if walk.by_row else walk.threads * walk.vector)


def met_bytes(part: Part) -> int:
    """Bytes that a block moves where threads that share a reduction meet: each of them reads the parts of all."""
    walk = part.walk
    sums = sum(s.reduction is not None for s in part.statements)
    if walk.sharers <= (WARP if walk.by_row else 1):
        return 0
    parts = walk.sharers // WARP if walk.by_row else walk.sharers
    return SUM_BYTES * sums * walk.steps * walk.threads * walk.width * (1 + parts)
