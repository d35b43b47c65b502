"""Stitched kernels: several reductions and element-wise parts of different shapes, one after the other in each block.

    block = a point i of the common dimensions
      part 0, walk (j | k):   m[j] = max(k) x[i,j,k]                    shuffle over the lanes of a row
      part 1, walk (j | k):   e = exp(x - m);  s[j] = sum(k) e          e and m in registers
      part 2, walk (j | k):   y[i,j,k] = e / s                          y in shared memory, too
      barrier
      part 3, walk (k | j):   c[k] = sum(j) y[i,j,k]                    other threads: y from shared memory
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.fusion.nodes import REGISTER, SHARED, SHUFFLE, FusionGroup
from engine.kernels.elementwise.lower import bind_members
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.kernels.reduction.block_reduce import Accumulator, ReductionThreads, accumulator, combine, round_result
from engine.kernels.statement_block import BlockOptions, Keep, evaluate_block
from engine.kernels.stitched.layout import POINT, read_config
from engine.kernels.stitched.parts import Names, Part
from engine.kernels.stitched.placement import PlacementPlan, plan_parts
from engine.kernels.stitched.walk import Axis, BlockWalk
from engine.target import Target
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Statement
from engine.tile.arena import assign_offsets
from engine.tile.emit import Emitter, Staged, at
from engine.tile.nodes import BLOCK, THREAD, Barrier, Buffer, Note, Slot, TileProgram
from engine.tile.scope import LANE_OF_VECTOR, Loaded
from engine.tile.source import Line

MANY = 12
"""Elements of an array in the registers of a thread, above which blocks must not be fitted at the cost of spills."""


def lower_stitched(
    group: FusionGroup, nest: Nest, marks: Marks, machine: Target, taken: Mapping[str, Buffer] | None = None
) -> TileProgram:
    """One kernel for statements that share outer parallel dimensions and hand values over inside a block.

    taken: buffers of other parts of a packed kernel.
    """
    names = Names(nest)
    config = read_config(group.program, nest, names, marks)
    plan = plan_parts(group.program, config.parts, names, config.points, config.places, machine)
    tile = _StitchedEmitter(group, nest, names, plan, taken).emit()
    for statement in nest.statements:
        mark = marks.first_mark("scope", statement.name)
        scheme, because = tile.schemes.get(statement.name, ("", "no other part of the kernel uses its result"))
        if mark is not None and scheme != mark.value and {scheme, mark.value} != {REGISTER, SHUFFLE}:
            marks.notes[mark.path] = Note(because, "scope" if scheme else "", scheme)
    return marks.describe(tile, config)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Where a thread stands in a part: its kept points of this step."""

    step: Index
    lane: Index
    """Which of the threads that share a kept point it is."""
    exists: str | None
    """The mask of threads whose kept points there are."""


class _StitchedEmitter:
    def __init__(
        self, group: FusionGroup, nest: Nest, names: Names, plan: PlacementPlan, taken: Mapping[str, Buffer] | None
    ) -> None:
        self.group, self.nest, self.names, self.plan = group, nest, names, plan
        self.program = group.program
        self.total = math.prod(m.extent for m in nest.outer)
        self.emitter = Emitter(self.program, self.total // plan.points, plan.parts[0].walk.threads, taken)
        self.variables: dict[str, Index] = {}
        self.values: dict[str, Access] = {}
        """Arrays that stay in registers from one part to another."""
        self.unmet: set[str] = set()
        """Staged arrays that were stored since the threads of the block last met."""
        self.kept_loads: dict[BlockWalk, dict[Loaded, Slot]] = {}
        self.outputs = frozenset(self.program.outputs)
        self.emitter.place_of_block = self.variables
        for array, spans in plan.staged.items():
            dtype = self.program.arrays[array].dtype
            shape = tuple(span.size for span in spans)
            buffer = self.emitter.register(f"{array}_block", dtype)
            self.emitter.buffers[buffer] = Buffer(buffer, dtype, (plan.points, *shape), "shared")
            self.emitter.staged[array] = Staged(buffer, spans)

    def emit(self) -> TileProgram:
        """The tile program, part by part."""
        plan, emitter = self.plan, self.emitter
        if plan.points == 1:
            self._bind_outer(Index.of(BLOCK))
        for number, part in enumerate(plan.parts):
            if plan.arrays_arriving(number, SHARED) & self.unmet:
                emitter.add(Barrier(_link(part)))
                self.unmet.clear()
            self._part(number, part)
        program = emitter.finish(
            self.group,
            constants={"POINTS": self.total, "BLOCK_POINTS": plan.points, "PARTS": len(plan.parts)},
            assertions=(("BLOCKS * BLOCK_POINTS == POINTS", "every point of the common dimensions has one block"),),
            placements=self._placements(),
        )
        # Left to itself, the compiler spills some of what a thread holds, for one more block on its SM.
        together = 1 if any(b.scope == "register" and b.elements > MANY for b in program.buffers.values()) else 0
        return assign_offsets(replace(program, schemes=plan.schemes(), together=together))

    def _bind_outer(self, flat: Index) -> None:
        self.variables |= bind_members(self.emitter, self.nest.outer, flat)

    # One part

    def _part(self, number: int, part: Part) -> None:
        emitter, walk = self.emitter, part.walk
        emitter.vector = walk.vector
        emitter.extents[LANE_OF_VECTOR] = walk.vector
        emitter.loads[0].update(self.kept_loads.pop(walk, {}))
        before, met = set(self.unmet), False
        link = _link(part)
        outer, inner = self.plan.written_out(number, self.program.inputs)
        with emitter.loop("step", walk.steps, link, outer) as step:
            turn = self._turn(part, step, link)
            partials = {s.name: accumulator(emitter, s, walk.width) for s in part.statements if s.reduction}
            if part.is_whole and walk.reduced:
                self._walk_reduced(number, part, turn, partials, link, inner)
            else:
                self._evaluate(number, turn, step, {}, None, link)
            for statement in part.statements:
                if statement.reduction is not None:
                    met |= self._combine(part, statement, partials[statement.name], turn)
        if met:
            # What this part itself stored came after the meeting, and waits for the next one.
            self.unmet -= before
        kept = {key: slot for key, slot in emitter.loads[0].items() if slot.indices}
        for key in kept:
            del emitter.loads[0][key]
        self.kept_loads[walk] = kept

    def _turn(self, part: Part, step: Index, link: Line) -> _Turn:
        """Bind the kept points of this thread; past the last one it repeats that, and stores nothing."""
        emitter, walk = self.emitter, part.walk
        thread = Index.of(THREAD)
        if walk.by_row:
            lane, row = thread.mod(walk.sharers, emitter.extents), thread.floordiv(walk.sharers, emitter.extents)
        else:
            lane, row = thread.floordiv(walk.beside, emitter.extents), thread.mod(walk.beside, emitter.extents)
        first = (step * walk.beside + row) * walk.width
        start = emitter.bind("kept_start", first, link) if walk.width == 1 else first
        self._bind(walk.kept, start, walk.rows - walk.width, link)
        if walk.width > 1:
            self._add_lane(walk.kept)
        if self.plan.points > 1:
            emitter.point = self.variables[POINT]
            self._bind_outer(Index.of(BLOCK) * self.plan.points + emitter.point)
        exists = emitter.mask("exists", [Index((), walk.rows - walk.width) - start], link)
        return _Turn(step, emitter.bind("sharer", lane, link) if walk.sharers > 1 else Index(), exists)

    def _bind(self, axes: tuple[Axis, ...], start: Index, limit: int, link: Line) -> None:
        """Variables for the dimensions of a flattened position, which is cut to `limit`."""
        if not axes:
            return
        emitter = self.emitter
        one = axes[0][0] if len(axes) == 1 else "_".join(name for name, _ in axes)
        exact = emitter.expand(start)
        is_cut = exact.bounds(emitter.extents)[1] > limit
        flat = emitter.bind(one, start, link, limit=limit) if is_cut or len(axes) == 1 else exact
        for (name, _), index in zip(axes, delinearize(flat, tuple(e for _, e in axes), emitter.extents), strict=True):
            self.variables[name] = emitter.bind(name, index, link)

    def _add_lane(self, axes: tuple[Axis, ...]) -> None:
        name = axes[-1][0]
        self.variables[name] = self.variables[name] + Index.of(LANE_OF_VECTOR)

    def _walk_reduced(
        self, number: int, part: Part, turn: _Turn, partials: dict[str, Accumulator], link: Line,
        unroll: bool | int,
    ) -> None:
        """One pass over the reduced points of this thread."""
        emitter, walk = self.emitter, part.walk
        with emitter.loop("chunk", walk.chunks, link, unroll) as chunk:
            start = (chunk * walk.sharers + turn.lane) * walk.length
            inside = emitter.mask("inside", [Index((), walk.columns - walk.length) - start], link)
            self._bind(walk.reduced, start, walk.columns - walk.length, link)
            if walk.length > 1:
                self._add_lane(walk.reduced)
            slot = emitter.bind("slot", turn.step * walk.chunks + chunk, link)
            self._evaluate(number, turn, slot, partials, inside, link)

    def _evaluate(
        self, number: int, turn: _Turn, slot: Index, partials: dict[str, Accumulator], inside: str | None, link: Line
    ) -> None:
        """The statements of a part at the points of one vector."""
        emitter, plan, part = self.emitter, self.plan, self.plan.parts[number]
        walk = part.walk
        again = plan.again.get(number, ())
        values = {a: self.values[a] for a in plan.arrays_arriving(number, REGISTER, SHUFFLE)}
        mask = emitter.mask("writes", (), link, (turn.exists, inside))
        if not part.is_whole and walk.sharers > 1:
            mask = emitter.mask("first_sharer", [turn.lane * -1], link, (mask,))
        stored = (self.outputs | plan.staged.keys()) - {s.write.array for s in again}
        kept, slots = plan.kept_arrays(number, self.program.inputs), walk.steps * (walk.chunks if part.is_whole else 1)
        options = BlockOptions(
            mask=inside,
            store_mask=mask,
            stored=stored,
            keep=Keep(kept, slot, slots),
            lanes=part.is_whole or not walk.by_row,
            dimensions=link.dimensions,
            accumulators=partials,
        )
        evaluate_block(emitter, [*again, *part.statements], self._place, values, options)
        for statement in part.statements:
            if statement.reduction is None:
                array = statement.write.array
                self.values[array] = values[array]
                self.unmet |= {array} & plan.staged.keys()

    def _place(self, statement: Statement) -> dict[str, Index]:
        return {i: self.variables[name] for i, name in self.names.of(statement).items() if name in self.variables}

    def _combine(self, part: Part, statement: Statement, parts: Accumulator, turn: _Turn) -> bool:
        """One value for each kept point, in all threads that share it; whether the threads of the block met for it."""
        emitter, walk = self.emitter, part.walk
        link = at(statement, *_link(part).dimensions)
        turns = 2 if walk.steps > 1 else 1
        turn_of_two = turn.step.mod(2, emitter.extents) if walk.steps > 1 else Index()
        sharers = ReductionThreads(
            walk.sharers, turn.lane, walk.beside, turn_of_two, turns, by_row=walk.by_row, vector=walk.vector
        )
        combine(emitter, statement, parts, sharers, link)
        value = round_result(emitter, statement, parts.total, link)
        array = statement.write.array
        if array in self.plan.held and walk.steps > 1:
            value = self._keep(walk, statement, value, turn, link)
        self.values[array] = value
        if array in self.outputs or array in self.plan.staged:
            mask = turn.exists
            if walk.sharers > 1:
                mask = emitter.mask(emitter.fresh("first_sharer"), [turn.lane * -1], link, (mask,))
            emitter.store(statement, self._place(statement), value, mask, link)
            self.unmet |= {array} & self.plan.staged.keys()
        return walk.is_shared_in_memory

    def _keep(self, walk: BlockWalk, statement: Statement, value: Access, turn: _Turn, link: Line) -> Access:
        """A reduction's result in a register that later parts reach, one for each step."""
        emitter, array = self.emitter, self.program.arrays[statement.write.array]
        lanes = emitter.buffers[value.array].shape
        name = emitter.register(array.name, array.dtype, (walk.steps, *lanes))
        emitter.declare(name, outermost=True)
        kept = Access(name, (turn.step, *value.indices))
        emitter.assign_lanes(kept, value, link)
        return kept

    def _placements(self) -> dict[str, str]:
        """Where each statement's result lives, and why."""
        ways: dict[str, dict[str, None]] = {s.write.array: {} for s in self.nest.statements}
        for hand_over in self.plan.hand_overs:
            ways[hand_over.array][f"{hand_over.scheme}: {hand_over.because}"] = None
        used_here = "register: used where it is made"
        return {s.name: "; ".join(ways[s.write.array]) or used_here for s in self.nest.statements}


def _link(part: Part) -> Line:
    return Line(tuple(s.name for s in part.statements), tuple(m.name for m in part.box.members))
