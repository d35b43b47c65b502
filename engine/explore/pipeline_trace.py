"""What one block of a tile program does in order: copies issued, waits, barriers, uses and stores, with their buffers.

Loops that copy or wait are walked iteration by iteration; whatever else stands in the main loop happens once a step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cost.alcop_work import copied_buffers, main_loop
from engine.tensor.index import Index
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    Barrier,
    Commit,
    For,
    If,
    Let,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Store,
    TileOp,
    TileProgram,
    UniformIf,
    Wait,
    operations,
)

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
    return isinstance(op, AsyncCopy) or (isinstance(op, Store) and tile.buffers[op.target].scope == "shared")


class _Walker:
    """Walks the operations of one tile program."""

    def __init__(self, tile: TileProgram, loop: For) -> None:
        self.tile, self.loop = tile, loop
        self.copied = copied_buffers(tile)
        """What the main loop brings to shared memory; results that leave through it are no part of the pipeline."""
        stores = (op for op in operations(loop.body) if isinstance(op, Store) and op.target in self.copied)
        self.held = {op.slot.buffer for op in stores}
        """Registers that hold it on the way."""
        self.weight = sum(_arithmetic(op) for op in loop.body) or 1.0
        self.is_over = False

    def walk(self, body: tuple[TileOp, ...], values: Mapping[str, Index], step: int) -> Iterator[Action]:
        """The actions of a body under the values of its variables."""
        known = dict(values)
        for op in body:
            match op:
                case Let(name, index):
                    known[name] = self._value(index, known)
                case For(name, extent, inner):
                    yield from self._loop(op, name, extent, inner, known, step)
                case If(_, inner):
                    yield from self.walk(inner, known, step)
                case UniformIf(condition, inner):
                    if self._value(condition, known).constant >= 0:
                        yield from self.walk(inner, known, step)
                case _:
                    yield from self._single(op, known, step)

    def _loop(
        self, op: For, name: str, extent: int, inner: tuple[TileOp, ...], known: Mapping[str, Index], step: int
    ) -> Iterator[Action]:
        if op is self.loop:
            for number in range(min(extent, MOST_STEPS)):
                yield from self.walk(inner, {**known, name: Index((), number)}, number)
            self.is_over = True
        elif any(isinstance(below, Wait | Barrier | Commit) for below in operations(inner)):
            for number in range(extent):
                yield from self.walk(inner, {**known, name: Index((), number)}, step)
        else:
            for action in self.walk(inner, {**known, name: Index()}, step):
                yield _scaled(action, extent)

    def _single(self, op: TileOp, known: Mapping[str, Index], step: int) -> Iterator[Action]:
        here = self.loop.extent if self.is_over else step
        match op:
            case AsyncCopy(target, position):
                yield Action("issue", here, target, self._stage(target, position, known), amount=1)
            case Store(target) if self.tile.buffers[target].scope == "shared" and target not in self.copied:
                return
            case Store(target, position) if self.tile.buffers[target].scope == "shared":
                yield Action(
                    "issue", here, target, self._stage(target, position, known), amount=1, is_blocking=True
                )
            case Store():
                yield Action("store", here)
            case Commit():
                yield Action("commit", here)
            case Wait(pending):
                yield Action("wait", here, pending=pending)
            case Barrier():
                yield Action("barrier", here)
            case MatrixLoad(_, _, source, position) | Load(_, source, position):
                if source in self.copied:
                    yield Action("read", here, source, self._stage(source, position, known))
                elif isinstance(op, Load) and op.slot.buffer in self.held:
                    yield Action("fetch", here, op.slot.buffer, amount=1)
            case MatrixMultiply() | Assign() if 0 <= here < self.loop.extent:
                yield Action("use", here, amount=_arithmetic(op) / self.weight)
            case _:
                return

    def _stage(self, buffer: str, position: Index, known: Mapping[str, Index]) -> int:
        """Which of a buffer's stages a position lies in."""
        size = self.tile.buffers[buffer].elements // (self.tile.stages if buffer in self.copied else 1)
        return self._value(position, known).constant // size

    def _value(self, index: Index, known: Mapping[str, Index]) -> Index:
        """An index at thread 0 of block 0, every loop that is not walked at its first iteration."""
        names = {name: known.get(name, Index()) for name in index.iterators()}
        return index.substitute(names, {})


def _arithmetic(op: TileOp) -> float:
    """Multiplications of an operation, in all its iterations."""
    match op:
        case For(_, extent, inner):
            return extent * sum(map(_arithmetic, inner))
        case If(_, inner) | UniformIf(_, inner):
            return sum(map(_arithmetic, inner))
        case MatrixMultiply():
            return 1.0
        case Assign():
            return 1.0 if op.combine else 0.0
        case _:
            return 0.0


def _scaled(action: Action, times: int) -> Action:
    return replace(action, amount=action.amount * times)
