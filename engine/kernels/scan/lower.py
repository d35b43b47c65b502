"""Prefix sums of a block's chunk of a row: in a thread, in its warp, in the block, and over the chunks before.

    launch 1   part[row, chunk] = the chunk's terms together            (left out where a block has a whole row)
    launch 2   before = part[row, 0] + ... + part[row, chunk - 1]
               each round: a thread joins its neighbours, shuffles join the lanes, shared memory joins the warps
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.reduction.block_reduce import Accumulator, ReductionThreads, combine, parts_buffer, round_result
from engine.kernels.scan.match import PrefixScan
from engine.kernels.statement_block import BlockOptions, evaluate_block
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Apply, Literal, Scalar, TensorProgram
from engine.tensor.traffic import compulsory_bytes
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    Barrier,
    Buffer,
    Declare,
    KernelConfig,
    Load,
    Needs,
    Slot,
    Store,
    TileProgram,
    WarpScan,
)


@dataclass(frozen=True, slots=True)
class ScanConfig(KernelConfig):
    """What a scan leaves open."""

    threads: int
    """Of a block: whole warps."""
    vector: int
    """Neighbours that a thread joins in one round."""
    rounds: int
    """That a block makes one after the other."""

    @property
    def chunk(self) -> int:
        """Elements of a row that a block has."""
        return self.threads * self.vector * self.rounds


def widest_vector(program: TensorProgram, scan: PrefixScan) -> int:
    """Neighbours along the axis that one access moves, with no end of the row and no guard between them."""
    statement = scan.statement
    extents = {i.name: i.extent for i in statement.iterators}
    place = statement.parallel[scan.axis].name
    point = scan.term(tuple(Index.of(i.name) for i in statement.parallel))
    guards = [g.index.substitute(point, extents) for a in statement.reads() for g in a.guards]
    is_guarded = any(g.bounds(extents)[0] < 0 and place in g.iterators() for g in guards)
    if scan.is_reversed or scan.axis != len(statement.parallel) - 1 or is_guarded:
        return 1
    arrays = [a for s in program.statements for a in (s.write.array, *s.sources)]
    return math.gcd(scan.length, VECTOR_BYTES // max(DTYPES[program.arrays[a].dtype] for a in arrays))


def lower_scan(group: FusionGroup, scan: PrefixScan, config: ScanConfig) -> TileProgram:
    """One launch where a block has a whole row, else two."""
    if config.chunk >= scan.length:
        return _ScanLowering(group, scan, config).finish()
    name, names = group.program.name, tuple(s.name for s in group.program.statements)
    parts = replace(_ScanLowering(group, scan, config).add_up(), name=f"{name}_1", statements=names[:1])
    second = replace(_ScanLowering(group, scan, config).finish(), name=f"{name}_2", statements=names)
    return replace(parts, later=(second,), placements=second.placements)


class _ScanLowering:
    """One launch in the making."""

    def __init__(self, group: FusionGroup, scan: PrefixScan, config: ScanConfig) -> None:
        self.group, self.program, self.scan, self.config = group, group.program, scan, config
        assert scan.statement.reduction is not None
        self.reduction = scan.statement.reduction
        self.dtype = self.reduction.accumulate
        self.chunks = -(-scan.length // config.chunk)
        self.kept = tuple(i for n, i in enumerate(scan.statement.parallel) if n != scan.axis)
        self.rows = math.prod(i.extent for i in self.kept)
        self.link = at(scan.statement, *(i.name for i in scan.statement.iterators))
        self.emitter = Emitter(self.program, self.rows * self.chunks, config.threads)
        self.emitter.vector = self.emitter.extents[LANE_OF_VECTOR] = config.vector
        self.emitter.masked = frozenset(i.name for i in scan.statement.iterators)
        self.whole = ReductionThreads(config.threads, Index.of(THREAD), by_row=True)
        # Neutral for what lies past the row's end and for the carry before its first element.
        self.neutral = Literal(self.reduction.identity, self.dtype)
        self.chunk = Index()
        self.point: list[Index] = []
        self._bytes_of_parts = self.rows * self.chunks * DTYPES[self.dtype] if self.chunks > 1 else 0
        if self.chunks > 1:
            shape = (self.rows, self.chunks)
            self.emitter.buffers["chunk_parts"] = Buffer("chunk_parts", self.dtype, shape, "workspace")

    def add_up(self) -> TileProgram:
        """Each block's terms together."""
        emitter, config = self.emitter, self.config
        self._place_block()
        total = self._register("part", self.neutral)
        with emitter.loop("round", config.rounds, self.link, False) as turn:
            place, mask = self._place(turn)
            term = self._term(place, mask)
            with emitter.loop(LANE_OF_VECTOR, config.vector, self.link):
                emitter.assign(Slot(total.array), term, self.link, self.reduction.operation)
        combine(emitter, self.scan.statement, Accumulator(total), self.whole, self.link)
        first = emitter.mask("first", [Index.of(THREAD) * -1], self.link)
        emitter.add(Store("chunk_parts", Index.of(BLOCK), Slot(total.array), 1, first, self.link))
        summed = self.program.cut_out(self.program.statements[:1], (self.scan.statement.write.array,))
        return self._finish(Needs(self.rows * self.scan.length, compulsory_bytes(summed)[0], self._bytes_of_parts))

    def finish(self) -> TileProgram:
        """Every element of the running sum, and what follows from it."""
        emitter, config, operation = self.emitter, self.config, self.reduction.operation
        self._place_block()
        carry = self._register("carry", self.neutral)
        if self.chunks > 1:
            self._join_chunks_before(carry)
        with emitter.loop("round", config.rounds, self.link, False) as turn:
            place, mask = self._place(turn)
            term = self._term(place, mask)
            own = self._register("own", self.neutral)
            joined = self._register("joined", None, lanes=True)
            with emitter.loop(LANE_OF_VECTOR, config.vector, self.link):
                emitter.assign(Slot(own.array), term, self.link, operation)
                emitter.assign(Slot(joined.array, joined.indices), own, self.link)
            before = self._register("before", own)
            emitter.add(WarpScan(Slot(before.array), operation, self.link))
            base = self._register("base", carry)
            self._join_warps(own, before, base, carry)
            emitter.assign(Slot(base.array), before, self.link, operation)
            with emitter.loop(LANE_OF_VECTOR, config.vector, self.link):
                emitter.assign(Slot(joined.array, joined.indices), base, self.link, operation)
            self._store(place, joined, mask)
            if config.rounds > 1:
                emitter.add(Barrier(self.link))
        read, written = compulsory_bytes(self.program)
        points = self.rows * self.scan.length
        return self._finish(Needs(points * (2 + len(self.scan.followers)), read + self._bytes_of_parts, written))

    def _place_block(self) -> None:
        """Which row and chunk the block has."""
        emitter = self.emitter
        row, self.chunk = delinearize(Index.of(BLOCK), (self.rows, self.chunks), emitter.extents)
        row, self.chunk = emitter.bind("row", row, self.link), emitter.bind("chunk", self.chunk, self.link)
        self.row = row
        places = delinearize(row, tuple(i.extent for i in self.kept), emitter.extents)
        self.point = [emitter.bind(i.name, p, self.link) for i, p in zip(self.kept, places, strict=True)]

    def _place(self, turn: Index) -> tuple[tuple[Index, ...], str | None]:
        """A thread's neighbours in a round, as a point of the array, and whether they lie in the row."""
        emitter, config, scan = self.emitter, self.config, self.scan
        own = turn * (config.threads * config.vector) + Index.of(THREAD) * config.vector
        order = emitter.bind("place", self.chunk * config.chunk + own, self.link)
        mask = emitter.mask("inside", [Index((), scan.length - 1) - order], self.link)
        if str(order) != THREAD:  # all threads of the block take part in shuffles, whether or not they have an element
            emitter.extents[str(order)] = min(scan.length, emitter.extents.get(str(order), scan.length))
        place = order * -1 + (scan.length - 1) if scan.is_reversed else order
        place = place + Index.of(LANE_OF_VECTOR) if config.vector > 1 else place
        return (*self.point[: scan.axis], place, *self.point[scan.axis :]), mask

    def _term(self, point: tuple[Index, ...], mask: str | None) -> Scalar:
        """The terms at a thread's neighbours; neutral past the row's end."""
        statement = self.scan.statement
        term = self.emitter.expression(statement.expression, {}, self.scan.term(point), self.link, mask)
        return term if mask is None else Apply("select", (Access(mask, ()), term, self.neutral), self.dtype)

    def _join_chunks_before(self, carry: Access) -> None:
        """All threads get what the chunks before have together."""
        emitter, config = self.emitter, self.config
        with emitter.loop("earlier_turn", -(-(self.chunks - 1) // config.threads), self.link, False) as turn:
            earlier = emitter.bind("earlier", turn * config.threads + Index.of(THREAD), self.link)
            is_earlier = emitter.mask("is_earlier", [self.chunk - 1 - earlier], self.link)
            part = emitter.register("part", self.dtype)
            position = self.row * self.chunks + earlier
            emitter.add(Load(Slot(part), "chunk_parts", position, 1, is_earlier, self.neutral, self.link))
            emitter.assign(Slot(carry.array), Access(part, ()), self.link, self.reduction.operation)
        combine(emitter, self.scan.statement, Accumulator(carry), self.whole, self.link)

    def _join_warps(self, own: Access, before: Access, base: Access, carry: Access) -> None:
        """`base` is joined with the warps before, and `carry` with all of the block."""
        emitter, operation, warps = self.emitter, self.reduction.operation, self.config.threads // WARP
        scratch = parts_buffer(emitter, "warp_parts", self.reduction, warps)
        warp = emitter.bind("warp_of_block", Index.of(THREAD).floordiv(WARP, emitter.extents), self.link)
        lane = emitter.bind("lane_in_warp", Index.of(THREAD).mod(WARP, emitter.extents), self.link)
        last = emitter.mask("last_lane", [lane - (WARP - 1)], self.link)
        both = self._register("of_warp", before)
        emitter.assign(Slot(both.array), own, self.link, operation)
        emitter.add(Store(scratch, warp, Slot(both.array), 1, last, self.link))
        emitter.add(Barrier(self.link))
        with emitter.loop("other_warp", warps, self.link) as other:
            part = emitter.register("warp_part", self.dtype)
            emitter.add(Load(Slot(part), scratch, other, 1, None, None, self.link))
            is_before = emitter.mask("is_before", [warp - 1 - other], self.link)
            counted: Scalar = Access(part, ())
            emitter.assign(Slot(carry.array), counted, self.link, operation)
            if is_before is not None:
                counted = Apply("select", (Access(is_before, ()), counted, self.neutral), self.dtype)
            emitter.assign(Slot(base.array), counted, self.link, operation)

    def _store(self, point: tuple[Index, ...], joined: Access, mask: str | None) -> None:
        """The running sum as its array holds it, and what follows."""
        emitter, scan, outputs = self.emitter, self.scan, frozenset(self.program.outputs)
        statement = scan.statement
        result = round_result(emitter, statement, joined, self.link)
        values = {statement.write.array: result}
        emitter.masked = frozenset(i.name for s in self.program.statements for i in s.iterators)
        if statement.write.array in outputs:
            emitter.store(statement, scan.at(statement, point), result, mask, self.link)
        options = BlockOptions(mask, mask, outputs, lanes=True)
        evaluate_block(emitter, scan.followers, lambda s: scan.at(s, point), values, options)

    def _register(self, name: str, value: Scalar | None, lanes: bool = False) -> Access:
        wide = lanes and self.config.vector > 1
        unique = self.emitter.register(name, self.dtype, (self.config.vector,) if wide else ())
        self.emitter.add(Declare(unique, value, self.link))
        return Access(unique, (Index.of(LANE_OF_VECTOR),) if wide else ())

    def _finish(self, needs: Needs) -> TileProgram:
        config = self.config
        constants: Mapping[str, int] = {
            "ROWS": self.rows, "LENGTH": self.scan.length, "CHUNKS": self.chunks, "ROUNDS": config.rounds,
            "VECTOR": config.vector,
        }  # fmt: skip
        tile = self.emitter.finish(
            self.group,
            constants=constants,
            assertions=(("CHUNKS * ROUNDS * THREADS * VECTOR >= LENGTH", "every element of a row has a thread"),),
            placements={s.name: "register: a prefix sum of the block's chunk" for s in self.program.statements},
        )
        return replace(tile, needs=needs, config=config)
