"""Building a tile program operation by operation: variables, registers, loads that are shared and hoisted.

All lowerings use one `Emitter`.  It keeps what every variable stands for in terms of the hardware, so that alignment,
contiguity and the footprint of each store are decided exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Element, Index, linear
from engine.tensor.nodes import Access, Apply, Guard, Literal, Position, Scalar, Statement, TensorProgram
from engine.tensor.rewrite import only_moves
from engine.tensor.terms import Term, wrap
from engine.tile.dead_code import without_unused
from engine.tile.nodes import BLOCK, THREAD, Buffer, Declare, For, Load, PipelineRequest, Slot, Store, TileProgram
from engine.tile.scope import LANE_OF_VECTOR as LANE_OF_VECTOR
from engine.tile.scope import Scope
from engine.tile.source import Footprint, Line

Where = Mapping[str, Index]
"""Iterator of a statement -> its value in kernel variables."""


@dataclass(frozen=True, slots=True)
class Span:
    """The elements along one axis of an array that a block makes."""

    axis: int
    base: Index
    """The first one, over the dimensions of blocks."""
    size: int
    step: int = 1
    """From one to the next."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A block's part of an intermediate, in shared memory."""

    buffer: str
    spans: tuple[Span, ...]
    """Axes of the array that the part spans; at the others it has the block's place alone."""


class Emitter(Scope):
    """Loads, values and stores of statements.  One instance makes one kernel."""

    def __init__(
        self, program: TensorProgram, grid: int, threads: int, taken: Mapping[str, Buffer] | None = None
    ) -> None:
        """taken: buffers of other parts of the kernel, whose names are no longer free."""
        outside = dict.fromkeys((*program.inputs, *program.outputs))
        buffers = {
            n: Buffer(n, array.dtype, array.shape, "global") for n, array in program.arrays.items() if n in outside
        }
        super().__init__(buffers | dict(taken or {}), grid, threads)
        self.program = program
        self.values: Mapping[str, Access] = {}
        """Arrays made so far and the registers that hold them."""
        self.wrapped: dict[tuple[str, int], str] = {}
        """(register of a loaded index, size of the axis it wraps around) -> the register that holds it wrapped."""
        self.footprints: list[Footprint] = []
        self.written: set[str] = set()
        self.read_from: set[str] = set()
        self.vector = 1
        """Elements of one vector: lanes of `v`."""
        self.is_raw = only_moves(program)
        """Whether registers hold elements as they lie in memory, for nothing is computed with them."""
        self.masked: frozenset[str] = frozenset()
        """Statement iterators that can leave their range where the current mask does not hold."""
        self.staged: dict[str, Staged] = {}
        """Arrays that are read from shared memory, and stored there when they are made."""
        self.reached: tuple[Index, ...] = ()
        """Conditions (>= 0) over the block under which the index maps say that it gets to what is added now."""
        self.point = Index()
        """Which of the block's points is worked on, where it has several: each has a part of its own."""
        self.place_of_block: Mapping[str, Index] = {}
        """The dimensions of blocks -> their values at that point."""

    # Reading

    def contiguous(self, position: Index, width: int) -> bool:
        """Whether lanes v = 0 .. width-1 are consecutive elements from an aligned one on."""
        expanded = self.expand(position)
        if expanded.coefficient(LANE_OF_VECTOR) != 1 or expanded.constant % width:
            return False
        rest = [(a, c) for a, c in expanded.terms if a != LANE_OF_VECTOR]
        return all(c % width == 0 and LANE_OF_VECTOR not in Index.of(a).iterators() for a, c in rest)

    def read(
        self, access: Access, where: Where, at: Line, mask: str | None = None, keep: tuple[Index, int] | None = None,
        guard: str | None = None,
    ) -> Access:  # fmt: skip
        """The register that holds an element of a global array, loaded once where its variables are known.

        mask: where it fails, the `masked` iterators are out of range.  keep: (chunk variable, chunks): hold the
        element of every chunk for later loops.  guard: of the read that looks this element up.
        """
        array = self.program.arrays[access.array]
        used = {n for i in (*access.indices, *(g.index for g in access.guards)) for n in i.iterators()}
        if not used & self.masked:
            mask = None
        mask = self.mask("inside", self._conditions(access.guards, where, at, mask), at, (mask, guard))
        position = self.position(access, where, at, mask)
        varies = LANE_OF_VECTOR in position.iterators()
        width = self.vector if varies else 1
        depth = self._depth_of(position, mask)
        otherwise = access.otherwise or Literal(0, array.dtype)
        conditions = self.masks[mask] if mask else ()
        key = (array.name, str(position), width, str(otherwise), conditions)
        for cache in self.loads:
            if key in cache:
                return self._element(cache[key], varies)
        kept = keep if keep and depth >= self.depth.get(str(keep[0]), 1) else None
        shape = ((kept[1],) if kept else ()) + ((width,) if width > 1 else ())
        name = self.register(array.name, array.dtype, shape, self.is_raw)
        slot = Slot(name, (kept[0],) if kept else ())
        if shape:
            self.bodies[0 if kept else depth].append(Declare(name))
        source = array.name
        if source in self.staged:
            source = self.staged[source].buffer
        else:
            self.read_from.add(source)
        self.depth[name] = depth
        self._load(Load(slot, source, position, width, mask, otherwise, at), depth)
        self.loads[0 if kept else depth][key] = slot
        return self._element(slot, varies)

    def _load(self, load: Load, depth: int) -> None:
        """One vector load where lanes are consecutive, else one load a lane."""
        position, width = load.position, load.width
        if width > 1 and self._fits(load.source, width) and self.contiguous(position, width):
            load = replace(load, position=position.substitute({LANE_OF_VECTOR: Index()}, self.extents))
        elif width > 1:
            slot = Slot(load.slot.buffer, (*load.slot.indices, Index.of(LANE_OF_VECTOR)))
            one = replace(load, slot=slot, width=1)
            self.bodies[depth].append(For(LANE_OF_VECTOR, width, (one,), True, load.at))
            return
        self.bodies[depth].append(load)

    def _fits(self, buffer: str, width: int) -> bool:
        """Whether one access moves that many elements."""
        return width * DTYPES[self.buffers[buffer].dtype] <= VECTOR_BYTES

    def position(self, access: Access, where: Where, at: Line, mask: str | None = None) -> Index:
        """Row-major position of an access in its array, in kernel variables.  mask: where it is a position at all."""
        indices = [self._index(i, where, at, mask) for i in access.indices]
        staged = self.staged.get(access.array)
        if staged is None:
            return linear(indices, self.program.arrays[access.array].shape)
        bases = [span.base.substitute(self.place_of_block, self.extents) for span in staged.spans]
        inside = [
            (indices[span.axis] - base).floordiv(span.step, self.extents)
            for span, base in zip(staged.spans, bases, strict=True)
        ]
        shape = tuple(span.size for span in staged.spans)
        return self.point * math.prod(shape) + linear(inside, shape)

    def _conditions(self, guards: Sequence[Guard], where: Where, at: Line, mask: str | None) -> list[Index]:
        """Guards in kernel variables, at the first lane of a vector: widths are such that none changes inside one."""
        first = {LANE_OF_VECTOR: Index()}
        return [self._index(g.index, where, at, mask).substitute(first, self.extents) for g in guards]

    def _index(self, index: Index, where: Where, at: Line, mask: str | None) -> Index:
        """An index in kernel variables; what it looks up is loaded first, where `mask` holds."""

        def leaf(atom: str | Element) -> Index:
            if isinstance(atom, str):
                return where[atom]
            made = self.values.get(atom.array)
            found = made or self.read(Access(atom.array, atom.indices), where, at, mask, guard=mask)
            # What stays as it is loaded is known where the load stands, in front of the loops inside.
            name = found.array
            if found.indices or (made and atom.wraps):
                name = self._own_register(found, atom, at, len(self.bodies) - 1)
            elif atom.wraps:
                key = name, atom.wraps
                if key not in self.wrapped:
                    self.wrapped[key] = self._own_register(found, atom, at, self.depth[name])
                name = self.wrapped[key]
            self.extents.setdefault(name, atom.high + 1)
            return Index.of(name)

        return index.rebuild(leaf, self.extents)

    def _own_register(self, found: Access, looked_up: Element, at: Line, depth: int) -> str:
        """A register of its own for an index that was loaded or made, wrapped as it is looked up."""
        assert all(LANE_OF_VECTOR not in i.iterators() for i in found.indices), f"{found}: an index for each lane"
        dtype = self.buffers[found.array].dtype
        name = self.register(f"{found.array}_at", dtype)
        self.depth[name] = depth
        value = wrap(Term(found, dtype), looked_up.wraps).scalar if looked_up.wraps else found
        self.bodies[depth].append(Declare(name, value, at))
        return name

    def _depth_of(self, position: Index, mask: str | None) -> int:
        """The outermost body in which everything the load needs is known; never outside the branch it is made in."""
        names = [n for n in position.iterators() if n != LANE_OF_VECTOR]
        branch = self.branches[-1][1] if self.branches else 0
        deepest = max((branch, *(self.depth.get(n, 0) for n in names)))
        if mask is not None:
            deepest = max(deepest, self.depth[mask])
        return min(deepest, len(self.bodies) - 1)

    def _element(self, slot: Slot, varies: bool) -> Access:
        lanes = (Index.of(LANE_OF_VECTOR),) if varies and self.vector > 1 else ()
        return Access(slot.buffer, (*slot.indices, *lanes))

    # Computing and writing

    def expression(
        self, value: Scalar, values: Mapping[str, Access], where: Where, at: Line, mask: str | None = None,
        keep: Mapping[str, tuple[Index, int]] | None = None,
    ) -> Scalar:  # fmt: skip
        """A statement's expression over registers: `values` for what the kernel made, loads for the rest."""
        self.values = values
        match value:
            case Literal():
                return value
            case Position(index, dtype):
                return Position(self._index(index, where, at, mask), dtype)
            case Apply(function, operands, dtype):
                return Apply(
                    function, tuple(self.expression(o, values, where, at, mask, keep) for o in operands), dtype
                )
            case Access():
                if value.array in values:
                    return values[value.array]
                return self.read(value, where, at, mask, (keep or {}).get(value.array))

    def store(self, statement: Statement, where: Where, value: Access, mask: str | None, at: Line) -> None:
        """Write a statement's element (or vector) to its global array, noting the footprint, and where it is staged."""
        array = statement.write.array
        mask = self.mask("inside", self._conditions(statement.guards, where, at, mask), at, (mask,))
        if array in self.staged:
            self._put(self.staged[array].buffer, self.position(statement.write, where, at), value, mask, at)
        if array in self.buffers and self.buffers[array].scope == "global":
            indices = [self._index(i, where, at, mask) for i in statement.write.indices]
            position = linear(indices, self.program.arrays[array].shape)
            self._footprint(array, position, self.masks[mask] if mask else ())
            self._put(array, position, value, mask, at)

    def _put(self, target: str, position: Index, value: Access, mask: str | None, at: Line) -> None:
        """Store an element, or the lanes of a vector: at once where they are consecutive."""
        lanes = value.indices[:-1] if LANE_OF_VECTOR in [str(i) for i in value.indices] else value.indices
        varies = LANE_OF_VECTOR in position.iterators()
        start = position.substitute({LANE_OF_VECTOR: Index()}, self.extents)
        one = Store(target, position, Slot(value.array, value.indices), 1, mask, at)
        if not varies:
            self.add(one)
        elif self._fits(target, self.vector) and self.contiguous(position, self.vector):
            self.add(Store(target, start, Slot(value.array, lanes), self.vector, mask, at))
        else:
            self.add(For(LANE_OF_VECTOR, self.vector, (one,), True, at))

    def _footprint(self, array: str, position: Index, conditions: Sequence[Index]) -> None:
        self.written.add(array)
        expanded = self.expand(position)
        around = [c for name, _ in self.branches for c in self.masks[name]]
        guards = tuple(self.expand(c) for c in (*conditions, *around, *self.reached))
        used = dict.fromkeys(n for i in (expanded, *guards) for n in i.iterators())
        counters = {n: self.vector if n == LANE_OF_VECTOR else self.extents[n] for n in used}
        self.footprints.append(Footprint(array, expanded, counters, guards))

    def finish(
        self,
        group: FusionGroup,
        constants: Mapping[str, int],
        placements: Mapping[str, str],
        assertions: tuple[tuple[str, str], ...] = (),
        requests: tuple[PipelineRequest, ...] = (),
        sequential: tuple[str, ...] = (),
    ) -> TileProgram:
        """The tile program of everything added."""
        program = self.program
        header = (f"{program.name}: {group.title}", *(str(s) for s in program.statements))
        return TileProgram(
            name=program.name,
            title=header,
            grid=self.extents[BLOCK],
            threads=self.extents[THREAD],
            constants=constants,
            buffers=self.buffers,
            written=frozenset(self.written),
            read=frozenset(self.read_from),
            body=without_unused(tuple(self.bodies[0])),
            footprints=tuple(self.footprints),
            assertions=assertions,
            requests=requests,
            sequential=sequential,
            placements=placements,
        )


def at(statement: Statement, *dimensions: str) -> Line:
    """The link of an operation to a statement and schedule dimensions."""
    return Line((statement.name,), dimensions)


def merge_lines(lines: Sequence[Line]) -> Line:
    """One link for operations that serve several statements."""
    return Line(
        tuple(dict.fromkeys(s for line in lines for s in line.statements)),
        tuple(dict.fromkeys(d for line in lines for d in line.dimensions)),
    )
