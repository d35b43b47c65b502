"""Split-K: blocks that own the same tile of the result share its depth, and the last one adds up their sums.

    split_k 3    blocks 0..t multiply the first third of the depth of every tile, t..2t the second, 2t..3t the third

A product of few tiles leaves most of a GPU idle, however deep it is.  Every block leaves its sums in global memory and
comes to the counter of its tile.  The last one to come adds all parts, always in the same order whoever is last, goes
on with what follows the sum, and stores.  Of two parts it adds the other's to its own: a + b is b + a, bit by bit.  One
launch; nobody waits for a block that has not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from engine.kernels.gemm.base import GemmLowering
from engine.kernels.marks import Marks
from engine.kernels.team import Team
from engine.scheduling.nodes import Member
from engine.target.teams import PAIR, most_parts, whole_parts
from engine.tensor.index import Index
from engine.tensor.nodes import Access
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Comment, Slot


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


def add_parts(gemm: GemmLowering, held: Held) -> None:
    """Make the sums of a part of the depth those of all parts, in the blocks that come last; the others leave."""
    emitter, link, parts = gemm.emitter, gemm.results_link, gemm.config.split_k
    team = Team(emitter, link, parts, gemm.tiles, gemm.part, gemm.tile_number)
    thread = Index.of("thread")
    team.workspace("parts", gemm.held, held.rows * held.vectors * held.width * held.threads)
    who = "adds the other's" if parts == PAIR else "adds all"
    emitter.add(Comment(f"sums of {parts} blocks that share the depth: each leaves its own, the last {who}", link))

    def place(r: Index, s: Index) -> Index:
        """Where this thread's vector lies: neighbouring threads are neighbours."""
        return ((r * held.vectors + s) * held.threads + thread) * held.width

    mine = emitter.mask("has_sums", [Index((), held.threads - 1) - thread], link)
    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s:
        team.leave("parts", place(r, s), held.width, lambda v: _value(held.slot(r, s, v)), mine)
    team.meet()

    def add(part: Index) -> None:
        with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s:
            sums = team.take("parts", part, place(r, s), held.width, mine)
            with emitter.loop(LANE_OF_VECTOR, held.width, link) as v:
                emitter.assign(held.slot(r, s, v), sums(v), link, "sum")

    if parts == PAIR:
        add(Index((), 1) - gemm.part)
        return
    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s, emitter.loop(
        LANE_OF_VECTOR, held.width, link
    ) as v:
        emitter.assign(held.slot(r, s, v), gemm.nothing, link)
    # Written out, loads begin as registers come free; in a loop NVRTC begins all of a part at once, which beside 128
    # sums takes one register more than a thread may have.
    with emitter.loop("q", parts, link, unroll=parts == 3) as q:
        add(q)


def _value(slot: Slot) -> Access:
    return Access(slot.buffer, slot.indices)
