"""Rows in turns: a block takes several groups of rows one after the other, and copies the next ones ahead.

    turns 4 @ i, 8 rows to a block    ->    a block takes 32 rows, 8 at a time

What a thread loads of its rows it first copies to a place of its own in shared memory, as wide as it loads.  Other
threads have no use for it, so that neighbours lie in neighbouring banks; the copies of the next turns then run under
the use of this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from engine.graph.nodes import DTYPES
from engine.pipeline.stage_indices import Known, StageRewrite
from engine.target.copies import COPY_BYTES
from engine.tensor.index import Index
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    AsyncCopy,
    Barrier,
    Buffer,
    Commit,
    For,
    Let,
    Load,
    Mask,
    TileOp,
    TileProgram,
    Wait,
    names_in,
    operations,
)
from engine.tile.source import Footprint

TURN = "turn"


def in_turns(program: TileProgram) -> TileProgram:
    """The program with a loop over turns around it, which copies what its threads load of their rows."""
    turns, blocks = program.turns, program.grid // program.turns
    known = Known({BLOCK: blocks, TURN: turns, THREAD: program.threads})
    moved = Index.of(BLOCK) * turns + Index.of(TURN)
    body = StageRewrite({BLOCK: moved}, {}, {}, known).body(program.body)
    known.note(body)
    staging = _Staging(replace(program, body=body), known)
    used = staging.body(body, ())
    requests = tuple(replace(request, buffers=tuple(staging.buffers)) for request in program.requests)
    first = _after_names(used, staging.copies)
    copied = (*staging.copies, Commit(), Wait(0), Barrier()) if staging.copies else ()
    # The last barrier keeps the next turn's copies from what threads of this one still read.
    turn = (*used[:first], *copied, *used[first:], Barrier())
    return replace(
        program,
        grid=blocks,
        body=(For(TURN, turns, turn),),
        buffers={**program.buffers, **staging.buffers},
        footprints=tuple(_footprint(f, moved, turns, blocks) for f in program.footprints),
        constants={**program.constants, "TURNS": turns},
        assertions=tuple((claim.replace("BLOCKS", "BLOCKS * TURNS"), why) for claim, why in program.assertions),
        requests=requests,
        turns=1,
    )


def _footprint(footprint: Footprint, moved: Index, turns: int, blocks: int) -> Footprint:
    """The elements that the blocks write in all their turns."""
    extents = {**footprint.counters, BLOCK: blocks, TURN: turns}
    guards = tuple(guard.substitute({BLOCK: moved}, extents) for guard in footprint.guards)
    position = footprint.position.substitute({BLOCK: moved}, extents)
    used = {name for index in (position, *guards) for name in index.iterators()}
    counters = {n: extents[n] for n in extents if n in used | set(footprint.counters)}
    return Footprint(footprint.array, position, counters, guards)


def _after_names(body: Sequence[TileOp], copies: Sequence[TileOp]) -> int:
    """The first place in a body where every name that the copies need is known."""
    names = {id(op) for op in _definitions(body, names_in(copies))}
    return max((number + 1 for number, op in enumerate(body) if id(op) in names), default=0)


class _Staging:
    """The loads of one program that become copies; `buffers` and `copies` grow as its body is walked."""

    def __init__(self, program: TileProgram, known: Known) -> None:
        self.program, self.known = program, known
        self.varying = _varying(program.body, {BLOCK, TURN})
        self.buffers: dict[str, Buffer] = {}
        self.copies: list[TileOp] = []
        """Each inside the loops that its load stands in, with the names that it needs there."""

    def body(self, ops: Sequence[TileOp], around: tuple[tuple[For, Sequence[TileOp]], ...]) -> tuple[TileOp, ...]:
        """A body whose loads of rows read what was copied.  around: loops outside it, with what stands in them."""
        result: list[TileOp] = []
        for op in ops:
            if isinstance(op, For):
                op = replace(op, body=self.body(op.body, (*around, (op, op.body))))
            elif isinstance(op, Load) and self._is_of_rows(op):
                op = self._stage_load(op, around)
            result.append(op)
        return tuple(result)

    def _is_of_rows(self, load: Load) -> bool:
        """Whether a load is of what changes from turn to turn, and as wide as an asynchronous copy can be."""
        buffer = self.program.buffers[load.source]
        return (
            buffer.scope == "global"
            and load.source not in self.program.written  # a copy ahead would miss what a turn before stores
            and load.width * DTYPES[buffer.dtype] in COPY_BYTES
            and bool(set(load.position.iterators()) & self.varying)
            and set(load.position.iterators()) <= set(self.known)  # not where an index was itself loaded
        )

    def _stage_load(self, load: Load, around: tuple[tuple[For, Sequence[TileOp]], ...]) -> Load:
        """The load of what a new copy brings."""
        loops = [loop for loop, _ in around]
        steps, number = math.prod(loop.extent for loop in loops), Index()
        for loop in loops:
            number = number * loop.extent + Index.of(loop.name)
        # Thread beside thread: neighbours copy to neighbouring banks.
        place = (number * self.program.threads + Index.of(THREAD)) * load.width
        name = self._buffer_of(load.source)
        elements = steps * self.program.threads * load.width
        self.buffers[name] = Buffer(name, self.program.buffers[load.source].dtype, (elements,), "shared")
        op: TileOp = AsyncCopy(name, place, load.source, load.position, load.width, load.mask, load.at)
        for loop, ops in reversed(around):
            op = replace(loop, body=(*_definitions(ops, names_in((op,))), op))
        self.copies.append(op)
        return replace(load, source=name, position=place)

    def _buffer_of(self, source: str) -> str:
        """A name for the rows of an array."""
        number = sum(name.startswith(f"{source}_rows") for name in self.buffers) + 1
        return f"{source}_rows" if number == 1 else f"{source}_rows_{number}"


def _definitions(body: Sequence[TileOp], needed: set[str]) -> list[TileOp]:
    """The `Let` and `Mask` operations of a body behind some names, in order."""
    found: list[TileOp] = []
    for op in reversed(body):
        if isinstance(op, Let | Mask) and op.name in needed:
            found.append(op)
            needed |= op.names
    return found[::-1]


def _varying(body: Sequence[TileOp], names: set[str]) -> frozenset[str]:
    """Names that depend on some others."""
    found = set(names)
    for op in operations(body):
        if isinstance(op, Let) and set(op.index.iterators()) & found:
            found.add(op.name)
    return frozenset(found)
