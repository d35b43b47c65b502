"""Shared memory that a pipeline leaves is used again by what comes after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from engine.pipeline.nodes import Path
from engine.pipeline.uses import uses
from engine.tile.nodes import Buffer, TileProgram
from engine.tile.storage import shared_bytes_of


def used_after(program: TileProgram, loop: Path) -> tuple[str, ...]:
    """Buffers of shared memory without a place of their own that are used only after an outermost loop."""
    if len(loop) != 1:
        return ()
    found = []
    for buffer in program.buffers.values():
        if buffer.scope == "shared" and buffer.offset is None:
            used = uses(program.body, buffer.name)
            places = [path for path, _ in (*used.fills, *used.reads)]
            if places and min(places)[0] > loop[0]:
                found.append(buffer.name)
    return tuple(found)


def overlay_buffers(
    buffers: Mapping[str, Buffer], staged: Collection[str], later: Collection[str]
) -> dict[str, Buffer]:
    """Give buffers that are used later the bytes of the staged ones."""
    placed = dict(buffers)
    for names in (staged, later):
        end = 0
        for name in names:
            placed[name] = replace(placed[name], offset=end)
            end += shared_bytes_of(placed[name])
    return placed
