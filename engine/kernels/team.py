"""Blocks that share what one tile or row is made from: each leaves its parts, the last one to come takes them all.

    leave own part    ->    workspace[part][tile]    ->    last arrival    ->    take part 0, 1, 2, ...

One launch; nobody waits for a block that has not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import Buffer, LastArrival, Load, Slot, Store
from engine.tile.source import Line

Lanes = Callable[[Index], Access]
"""The register of one of some neighbours."""


@dataclass(frozen=True, slots=True)
class Team:
    """The blocks that share what one tile is made from, as their kernel names them."""

    emitter: Emitter
    link: Line
    parts: int
    tiles: int
    """Teams of the launch."""
    part: Index
    """Number of this block in its team."""
    tile: Index
    """Number of its team."""

    def workspace(self, name: str, dtype: str, elements: int) -> None:
        """Global memory for what every block leaves.  elements: of one block."""
        self.emitter.buffers[name] = Buffer(name, dtype, (self.parts, self.tiles, elements), "workspace")

    def _place(self, name: str, part: Index, within: Index) -> Index:
        elements = self.emitter.buffers[name].shape[-1]
        return (part * self.tiles + self.tile) * elements + within

    def leave(self, name: str, within: Index, width: int, value: Lanes, mask: str | None = None) -> None:
        """Store `width` neighbours for the others.  value: of one of them.  mask: whether this thread stores any."""
        emitter = self.emitter
        own, lanes = self._vector("own", name, width)
        with emitter.loop(LANE_OF_VECTOR, width, self.link) as v:
            emitter.assign(Slot(own, lanes(v)), value(v), self.link)
        emitter.add(Store(name, self._place(name, self.part, within), Slot(own), width, mask, self.link))

    def meet(self) -> None:
        """Only the last block to come goes on, and sees what all of them left."""
        emitter = self.emitter
        emitter.buffers["arrivals"] = Buffer("arrivals", "int32", (self.tiles,), "workspace")
        emitter.add(LastArrival("arrivals", self.tile, self.parts, self.link))
        emitter.reached = (self.part - (self.parts - 1),)

    def take(
        self, name: str, part: Index, within: Index, width: int, mask: str | None = None, nothing: float | int = 0.0
    ) -> Lanes:
        """What one of the blocks left there; `nothing` where the mask is false."""
        other, lanes = self._vector("other", name, width)
        neutral = Literal(nothing, self.emitter.buffers[name].dtype) if mask else None
        place = self._place(name, part, within)
        self.emitter.add(Load(Slot(other), name, place, width, mask, neutral, self.link))
        return lambda v: Access(other, lanes(v))

    def _vector(self, whose: str, name: str, width: int) -> tuple[str, Callable[[Index], tuple[Index, ...]]]:
        """A register for neighbours in a workspace, and the indices of one of them; a single one needs none."""
        shape, dtype = (width,) if width > 1 else (), self.emitter.buffers[name].dtype
        register = self.emitter.register(f"{whose}_{name.removesuffix('s')}", dtype, shape)
        self.emitter.declare(register)
        return register, lambda v: (v,) if shape else ()
