"""Shared memory by life time: buffers that are never alive at once lie at the same bytes.

Time is counted in barriers.  A buffer lives from the one before its first access to the one after its last; a loop that
has barriers inside is one time.  Where the last access to old bytes and the first to new ones have a barrier between
them, no thread can still be reading what another overwrites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.tile.nodes import Buffer, TileOp, TileProgram, operations
from engine.tile.storage import shared_bytes_of


def assign_offsets(program: TileProgram) -> TileProgram:
    """The program with an offset for each shared buffer: the largest first, at the lowest bytes that are free."""
    lives = _Lives(program.buffers)
    lives.walk(program.body)
    shared = [b for b in program.buffers.values() if b.scope == "shared"]
    offsets: dict[str, int] = {}
    # The largest first: small buffers fit the gaps that are left, a large one fits none.
    for buffer in sorted(shared, key=lambda b: -shared_bytes_of(b)):
        beside = [b for b in shared if b.name in offsets and lives.meet(b.name, buffer.name)]
        offsets[buffer.name] = _lowest(shared_bytes_of(buffer), [(offsets[b.name], shared_bytes_of(b)) for b in beside])
    buffers = {n: replace(b, offset=offsets[n]) if n in offsets else b for n, b in program.buffers.items()}
    return replace(program, buffers=buffers)


def _lowest(size: int, taken: list[tuple[int, int]]) -> int:
    """The first byte of a gap of `size` bytes among (first byte, bytes) that are taken."""
    start = 0
    for offset, length in sorted(taken):
        if start + size <= offset:
            break
        start = max(start, offset + length)
    return start


class _Lives:
    """When each shared buffer is first and last used."""

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        self._shared = {name for name, buffer in buffers.items() if buffer.scope == "shared"}
        self._now = 0
        self._times: dict[str, tuple[int, int]] = {}

    def walk(self, body: tuple[TileOp, ...]) -> None:
        """Note every access of a body, which comes after all those noted before."""
        for op in body:
            for name in self._touched_by(op):
                self._note(name, self._now, self._now)
            if op.meets == "block":
                self._now += 1
            for inner in op.bodies:
                before = self._now
                self.walk(inner.operations)
                if inner.counter and self._now > before:  # what one iteration reads, the next one may overwrite
                    for below in operations(inner.operations):
                        for name in self._touched_by(below):
                            self._note(name, before, self._now)

    def _touched_by(self, op: TileOp) -> set[str]:
        return {region.buffer for region in op.regions} & self._shared

    def _note(self, name: str, start: int, end: int) -> None:
        first, last = self._times.get(name, (start, end))
        self._times[name] = min(first, start), max(last, end)

    def meet(self, one: str, other: str) -> bool:
        """Whether both are alive between two barriers; a buffer that nothing uses meets none."""
        if one not in self._times or other not in self._times:
            return False
        (first, last), (start, end) = self._times[one], self._times[other]
        return first <= end and start <= last
