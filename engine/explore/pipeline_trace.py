"""What one block of a tile program does in order: copies issued, waits, barriers, uses and stores, with their buffers.

Loops that copy or wait are walked iteration by iteration; whatever else stands in the main loop happens once a step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cost.alcop_work import copied_buffers, main_loop
from engine.tensor.index import Index
from engine.tile.nodes import Commit, For, Let, Region, TileOp, TileProgram, Wait, operations
from engine.tile.nodes.operation import Body

MOST_STEPS = 512
"""Iterations of the main loop that are walked, at most."""
BEFORE = -1


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a block does."""

    kind: str
    """"issue", "fetch", "commit", "wait", "barrier", "read", "use" or "store"."""
    step: int
    """Iteration of the main loop, `BEFORE` it, or its extent after it."""
    buffer: str = ""
    stage: int = -1
    """Of the buffer that is written or read."""
    pending: int = 0
    """Of a wait: groups that may still be on their way."""
    amount: float = 0.0
    """Of an issue or a fetch: copies of one thread; of a use: its part of a step's arithmetic."""
    is_blocking: bool = False
    """Of an issue: a plain store of what the thread has in registers, by a fetch or by its own arithmetic."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The actions of one block in order."""

    actions: tuple[Action, ...]
    steps: int
    """Iterations of the main loop in the program."""
    walked: int
    """Those of them that are among the actions."""


def trace(tile: TileProgram) -> Trace | None:
    """One block's actions; None for a program without a main loop that reads what it copied."""
    loop = main_loop(tile.body)
    if loop is None or not any(_is_copy(op, tile) for op in operations(loop.body)):
        return None
    actions = tuple(_Walker(tile, loop).walk(tile.body, {}, BEFORE))
    return Trace(_with_stages(actions), loop.extent, min(loop.extent, MOST_STEPS))


def tiles_of(played: Trace, looped: Collection[str]) -> tuple[int | None, ...]:
    """Of each action that copies, the tile: the step of the main loop that is the last to read what it brings.

    looped: buffers that the main loop copies to.  None for what is copied to others, once for all steps, and for what
    no step that was walked reads.  Not the first to read it: with two stages of registers that is the step before.
    Groups of copies are no measure: a tile may come in several, and one may hold parts of two.
    """
    found: list[int | None] = []
    read: dict[tuple[str, int], int] = {}
    overwritten: set[tuple[str, int]] = set()
    stored: int | None = None
    for action in reversed(played.actions):
        tile, place = None, (action.buffer, action.stage)
        if action.kind == "read":
            if place in overwritten or place not in read:
                read[place] = action.step
            overwritten.discard(place)
        elif action.kind == "fetch":
            tile = stored
        elif action.kind == "issue" and action.buffer in looped:
            step = read.get(place, BEFORE)
            overwritten.add(place)
            tile = step if 0 <= step < played.steps else None
            stored = tile if action.is_blocking else stored
        found.append(tile)
    return tuple(reversed(found))


def _with_stages(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The actions, those that fetch with the stage that what they bring is stored to next."""
    found: list[Action] = []
    stage = -1
    for action in reversed(actions):
        stage = action.stage if action.kind == "issue" and action.is_blocking else stage
        found.append(replace(action, stage=stage) if action.kind == "fetch" else action)
    return tuple(reversed(found))


def _is_copy(op: TileOp, tile: TileProgram) -> bool:
    """Whether an operation brings global memory into a buffer that the block shares."""
    return any(tile.buffers[region.buffer].scope == "shared" for region in op.regions_written)


class _Walker:
    """Walks the operations of one tile program."""

    def __init__(self, tile: TileProgram, loop: For) -> None:
        self.tile, self.loop = tile, loop
        self.copied = copied_buffers(tile)
        """What the main loop brings to shared memory; results that leave through it are no part of the pipeline."""
        fills = (op for op in operations(loop.body) if self.copied.intersection(op.buffers_written))
        self.held = {register for op in fills if not op.is_asynchronous for register in op.buffers_read}
        """Registers that hold it on the way."""
        self.weight = _products(loop.body) or 1
        self.is_over = False

    def walk(self, body: tuple[TileOp, ...], values: Mapping[str, Index], step: int) -> Iterator[Action]:
        """The actions of a body under the values of its variables."""
        known = dict(values)
        for op in body:
            if isinstance(op, Let):
                known[op.name] = self._value(op.index, known)
            yield from self._single(op, known, step)
            for inner in op.bodies:
                if inner.condition is None or self._value(inner.condition, known).constant >= 0:
                    yield from self._loop(inner, known, step)

    def _loop(self, inner: Body, known: Mapping[str, Index], step: int) -> Iterator[Action]:
        """The actions of a body, in each of its iterations where it has several."""
        if inner.operations is self.loop.body:
            for number in range(min(inner.extent, MOST_STEPS)):
                yield from self.walk(inner.operations, {**known, inner.counter: Index((), number)}, number)
            self.is_over = True
        # Loops without synchronisation are played as one action of as many copies or products.
        elif any(isinstance(op, Commit | Wait) or op.meets == "block" for op in operations(inner.operations)):
            for number in range(inner.extent):
                yield from self.walk(inner.operations, {**known, inner.counter: Index((), number)}, step)
        else:
            for action in self.walk(inner.operations, {**known, inner.counter: Index()}, step):
                yield replace(action, amount=action.amount * inner.extent)

    def _single(self, op: TileOp, known: Mapping[str, Index], step: int) -> Iterator[Action]:
        here = self.loop.extent if self.is_over else step
        for region in op.regions_read:
            if region.buffer in self.copied:
                yield Action("read", here, region.buffer, self._stage(region, known))
            else:
                held = (name for name in op.buffers_written if name in self.held)
                yield from (Action("fetch", here, name, amount=1) for name in held)
        if op.products is not None and 0 <= here < self.loop.extent:
            yield Action("use", here, amount=op.products / self.weight)
        for region in op.regions_written:
            if self.tile.buffers[region.buffer].scope != "shared":
                yield Action("store", here)
            elif op.is_asynchronous or region.buffer in self.copied:
                stage = self._stage(region, known)
                yield Action("issue", here, region.buffer, stage, amount=1, is_blocking=not op.is_asynchronous)
        if isinstance(op, Commit):
            yield Action("commit", here)
        elif isinstance(op, Wait):
            yield Action("wait", here, pending=op.pending)
        elif op.meets == "block":
            yield Action("barrier", here)

    def _stage(self, region: Region, known: Mapping[str, Index]) -> int:
        """Which of a buffer's stages a region lies in."""
        stages = self.tile.stages if region.buffer in self.copied else 1
        return self._value(region.position, known).constant // (self.tile.buffers[region.buffer].elements // stages)

    def _value(self, index: Index, known: Mapping[str, Index]) -> Index:
        """An index at thread 0 of block 0, every loop that is not walked at its first iteration."""
        names = {name: known.get(name, Index()) for name in index.iterators()}
        return index.substitute(names, {})


def _products(body: tuple[TileOp, ...]) -> int:
    """Multiply-adds of a body, in all its iterations."""
    own = sum(op.products or 0 for op in body)
    return own + sum(inner.extent * _products(inner.operations) for op in body for inner in op.bodies)
