"""How the threads of a block would walk the parts of a stitched kernel, before there is one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from engine.kernels.loop_nest import Nest, block_nest
from engine.kernels.marks import WRITTEN_OUT, Marks
from engine.kernels.stitched.layout import read_parts
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
    _found: dict[tuple[int, int], WalkedParts] = field(default_factory=dict, compare=False, repr=False)

    @property
    def points(self) -> int:
        """Points of the common dimensions."""
        return math.prod(m.extent for m in self.nest.outer)

    def under(self, threads: int, points: int) -> WalkedParts:
        """With so many threads and points of a block, and as many sharers of each reduction as the compiler chooses."""
        if (threads, points) not in self._found:
            nest = _with_launch(self.nest, threads, points)
            parts = read_parts(self.program, nest, Names(nest), Marks(nest))[1]
            self._found[threads, points] = WalkedParts(parts)
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


@dataclass(frozen=True, slots=True)
class WalkedParts:
    """The parts of a stitched program with the walks of one launch."""

    parts: tuple[Part, ...]

    @property
    def points_visited(self) -> int:
        """Points that a block visits in all parts, those past the ends of its loops included."""
        walks = [part.walk for part in self.parts]
        return sum(w.steps * w.beside * w.width * w.chunks * w.sharers * w.length for w in walks)

    @property
    def elements_held(self) -> int:
        """Elements that a thread holds at once."""
        walks = [part.walk for part in self.parts]
        return max(min(walk.steps * walk.chunks, WRITTEN_OUT) * walk.vector for walk in walks)

    @property
    def scratch_bytes(self) -> int:
        """Bytes in which threads that share a reduction meet, in the part that takes most."""
        walks = [(_sums_bytes(part), part.walk) for part in self.parts]
        return max(sums * (w.threads // WARP if w.by_row else w.threads * w.vector) for sums, w in walks)

    @property
    def met_bytes(self) -> int:
        """Bytes that a block moves where threads that share a reduction meet: each of them reads the parts of all."""
        walks = [(_sums_bytes(part), part.walk) for part in self.parts]
        sharing = [(sums * w.steps * w.threads * w.width, w) for sums, w in walks]
        return sum(stored * (1 + (w.sharers // WARP if w.by_row else w.sharers)) for stored, w in sharing)


def _sums_bytes(part: Part) -> int:
    """Bytes of one sum of each reduction whose sharers meet in shared memory."""
    sums = sum(s.reduction is not None for s in part.statements)
    return SUM_BYTES * sums if part.walk.is_shared_in_memory else 0
