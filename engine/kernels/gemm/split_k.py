"""Split-K: blocks that own the same tile of the result share its depth, and the last one adds up their sums.

    split_k 3    blocks 0..t multiply the first third of the depth of every tile, t..2t the second, 2t..3t the third

A product of few tiles leaves most of a GPU idle, however deep it is.  Every block leaves its sums in global memory and
comes to the counter of its tile.  The last one to come adds all parts, always in the same order whoever is last, goes
on with what follows the sum, and stores.  One launch; nobody waits for a block that has not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from engine.kernels.gemm.base import GemmLowering
from engine.kernels.marks import Marks
from engine.scheduling.nodes import Member
from engine.target.teams import most_parts, whole_parts
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import Buffer, Comment, LastArrival, Load, Slot, Store
from engine.tile.source import Line

Lanes = Callable[[Index], Access]
"""The register of one of some neighbours."""


@dataclass(frozen=True, slots=True)
class Held:
    """The sums of one thread, as vectors that are stored at once."""

    threads: int
    """That hold sums: the first ones of the block."""
    rows: int
    vectors: int
    """Of a row."""
    width: int
    """Sums of a vector: 1, 2 or 4."""
    slot: Callable[[Index, Index, Index], Slot]
    """The register of a row, a vector and a place in it."""


def shared_out(marks: Marks, members: Collection[Member], steps: int, sums: int, what: str) -> int:
    """Blocks that share `steps` tiles, as a mark on one of `members` asks.  sums: that each part of them leaves."""
    most = most_parts(steps, sums)
    needs = f"at most {most}, and no part without one of the {steps} tiles of {what}"
    return marks.number("split_k", 1, lambda asked: whole_parts(steps, min(asked, most)), needs, members)


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

    def take(self, name: str, part: Index, within: Index, width: int, mask: str | None = None) -> Lanes:
        """What one of the blocks left there; zeros where the mask is false."""
        other, lanes = self._vector("other", name, width)
        neutral = Literal(0.0, self.emitter.buffers[name].dtype) if mask else None
        place = self._place(name, part, within)
        self.emitter.add(Load(Slot(other), name, place, width, mask, neutral, self.link))
        return lambda v: Access(other, lanes(v))

    def _vector(self, whose: str, name: str, width: int) -> tuple[str, Callable[[Index], tuple[Index, ...]]]:
        """A register for neighbours in a workspace, and the indices of one of them; a single one needs none."""
        shape, dtype = (width,) if width > 1 else (), self.emitter.buffers[name].dtype
        register = self.emitter.register(f"{whose}_{name.removesuffix('s')}", dtype, shape)
        self.emitter.declare(register)
        return register, lambda v: (v,) if shape else ()


def add_parts(gemm: GemmLowering, held: Held) -> None:
    """Make the sums of a part of the depth those of all parts, in the blocks that come last; the others leave."""
    emitter, link, parts = gemm.emitter, gemm.results_link, gemm.config.split_k
    team = Team(emitter, link, parts, gemm.tiles, gemm.part, gemm.tile_number)
    thread = Index.of("thread")
    team.workspace("parts", gemm.held, held.rows * held.vectors * held.width * held.threads)
    emitter.add(Comment(f"sums of {parts} blocks that share the depth: each leaves its own, the last adds all", link))

    def place(r: Index, s: Index) -> Index:
        """Where this thread's vector lies: neighbouring threads are neighbours."""
        return ((r * held.vectors + s) * held.threads + thread) * held.width

    mine = emitter.mask("has_sums", [Index((), held.threads - 1) - thread], link)
    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s:
        team.leave("parts", place(r, s), held.width, lambda v: _value(held.slot(r, s, v)), mine)
    team.meet()
    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s, emitter.loop(
        LANE_OF_VECTOR, held.width, link
    ) as v:
        emitter.assign(held.slot(r, s, v), gemm.nothing, link)
    with emitter.loop("q", parts, link, unroll=False) as q, emitter.loop("r", held.rows, link) as r, emitter.loop(
        "s", held.vectors, link
    ) as s:
        part = team.take("parts", q, place(r, s), held.width, mine)
        with emitter.loop(LANE_OF_VECTOR, held.width, link) as v:
            emitter.assign(held.slot(r, s, v), part(v), link, "sum")


def _value(slot: Slot) -> Access:
    return Access(slot.buffer, slot.indices)
