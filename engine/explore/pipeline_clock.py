"""A block's actions put on a clock: the rhythm of the performance model, played for all blocks that share an SM.

Copies of all blocks pass one memory channel in turn and arrive a latency later; the arithmetic of all blocks passes
one unit in turn.  Block 0 is the one that is drawn; where its arithmetic waits for another block's, that is no stall.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.documents.pipeline import COMPUTE, COPY, STORE, WAIT
from engine.explore.pipeline_trace import Action, Trace

ISSUE_CYCLES = 4
"""Of a copy of one warp with its addresses, on the warp's scheduler; assumed, and only drawn: no time contains it."""
STALL, SHARED = "stall", "shared"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What the model says of one block and step, in cycles."""

    resident: int
    latency: float
    transfer: float
    """Of one block's copies of a step."""
    use: float
    epilogue: float
    issue: float
    """Of one copy of every thread."""


@dataclass(slots=True)
class ClockSpan:
    """Part of a block's time."""

    row: str
    step: int
    stage: int
    start: float
    end: float
    kind: str = ""
    tile: int | None = None
    """Of a copy: the step of the main loop that it is for."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A copy: which buffer's stage it fills, when it was asked for, and when all of it is there."""

    tile: int | None
    """The step of the main loop that it is for; None for what is copied once for all of them."""
    stage: int
    step: int
    issued: float
    arrived: float


@dataclass(slots=True)
class _ResidentBlock:
    """One resident block on its way through the trace."""

    number: int
    place: int = 0
    now: float = 0.0
    groups: list[float] = field(default_factory=list)
    """When each committed group is complete."""
    open_until: float = 0.0
    """When the copies that are not committed yet will be complete."""
    fetched: float = 0.0
    """When what it loads to registers is there."""
    asked: tuple[int | None, float] = (None, 0.0)
    """(tile, when) it first asked for that."""


class PipelineClock:
    """Plays a trace; `spans` and `arrivals` are block 0's."""

    def __init__(self, trace: Trace, rhythm: Rhythm, tiles: Sequence[int | None]) -> None:
        """tiles: of each action of the trace that copies."""
        self.trace, self.rhythm, self._tiles = trace, rhythm, tiles
        self.spans: list[ClockSpan] = []
        self.arrivals: list[Arrival] = []
        self._channel = self._unit = 0.0
        self._issue: Arrival | None = None
        self._copies = max(1.0, _copies_of_a_step(trace.actions))
        self._stores = max(1, sum(action.kind == "store" for action in trace.actions))

    def play(self) -> float:
        """Everything; returns the cycles of block 0."""
        blocks = [_ResidentBlock(number) for number in range(self.rhythm.resident)]
        waiting = [(0.0, block.number) for block in blocks]
        # The block that is furthest behind acts next, so that the channel and the unit are taken in order of time.
        while waiting:
            _, number = heapq.heappop(waiting)
            block = blocks[number]
            self._advance(block)
            if block.place < len(self.trace.actions):
                heapq.heappush(waiting, (block.now, number))
        return blocks[0].now

    def _advance(self, block: _ResidentBlock) -> None:
        action = self.trace.actions[block.place]
        block.place += 1
        match action.kind:
            case "issue" if action.is_blocking:
                self._put(block, action)
            case "issue":
                arrived, start = self._copy(block, action)
                block.open_until = max(block.open_until, arrived)
                self._arrival(block, Arrival(self._tile(block), action.stage, action.step, start, arrived))
            case "fetch":
                arrived, start = self._copy(block, action)
                block.fetched = max(block.fetched, arrived)
                if block.asked[0] is None or block.asked[0] != self._tile(block):
                    block.asked = (self._tile(block), start)
            case "commit":
                block.groups.append(max(block.open_until, block.now))
                block.open_until = 0.0
            case "wait":
                complete = block.groups[: len(block.groups) - action.pending]
                self._wait(block, action, max(complete, default=0.0))
            case "barrier":
                self._wait(block, action, block.now)
            case "use":
                self._use(block, action)
            case "store":
                self._store(block, action)

    def _copy(self, block: _ResidentBlock, action: Action) -> tuple[float, float]:
        """Issue, pass the channel in turn, arrive a latency later: (when it is there, when it was asked for)."""
        rhythm, start = self.rhythm, block.now
        block.now += action.amount * rhythm.issue
        begin = max(start, self._channel)
        self._channel = begin + rhythm.transfer * action.amount / self._copies
        self._span(block, COPY, action, start)
        return self._channel + rhythm.latency, start

    def _put(self, block: _ResidentBlock, action: Action) -> None:
        """Store what is in registers, once it is there."""
        self._wait(block, action, block.fetched)
        start = block.now
        block.now += action.amount * self.rhythm.issue
        tile = self._tile(block)
        asked = block.asked[1] if tile is not None and block.asked[0] == tile else start
        self._span(block, COPY, action, start)
        self._arrival(block, Arrival(tile, action.stage, action.step, asked, block.now))

    def _tile(self, block: _ResidentBlock) -> int | None:
        """That the action which a block is at is about."""
        return self._tiles[block.place - 1]

    def _arrival(self, block: _ResidentBlock, arrival: Arrival) -> None:
        if block.number == 0:
            self.arrivals.append(arrival)

    def _wait(self, block: _ResidentBlock, action: Action, until: float) -> None:
        start, block.now = block.now, max(block.now, until)
        self._span(block, WAIT, action, start, STALL if block.now > start else "")

    def _use(self, block: _ResidentBlock, action: Action) -> None:
        start = block.now
        begin = max(start, self._unit)
        if begin > start:
            block.now = begin
            self._span(block, COMPUTE, action, start, SHARED)
        self._unit = block.now = begin + self.rhythm.use * action.amount
        self._span(block, COMPUTE, action, begin)

    def _store(self, block: _ResidentBlock, action: Action) -> None:
        start = block.now
        block.now += self.rhythm.epilogue / self._stores
        self._span(block, STORE, action, start)

    def _span(self, block: _ResidentBlock, row: str, action: Action, start: float, kind: str = "") -> None:
        """Adds to block 0's spans; neighbours of one row, step, stage and tile are one."""
        if block.number != 0:
            return
        tile = self._tile(block) if row == COPY else None
        last = next((span for span in reversed(self.spans[-3:]) if span.row == row), None)
        present = (action.step, action.stage, kind, tile)
        touches = last is not None and (last.step, last.stage, last.kind, last.tile) == present
        if last is not None and touches and abs(last.end - start) < 1e-9:
            last.end = block.now
        else:
            self.spans.append(ClockSpan(row, action.step, action.stage, start, block.now, kind, tile))


def _copies_of_a_step(actions: Sequence[Action]) -> float:
    """Copies of one thread between two commits."""
    total = 0.0
    for action in actions:
        if action.kind == "fetch" or (action.kind == "issue" and not action.is_blocking):
            total += action.amount
        elif action.kind == "commit" and total:
            return total
    return total
