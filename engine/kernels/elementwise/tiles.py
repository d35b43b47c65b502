"""What a kernel that turns tiles reads across, and what it gives to its threads, as the marks ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.kernels.loop_nest import Nest, without_loops
from engine.kernels.marks import Marks, nearest_power, power_up_to
from engine.scheduling.nodes import Member
from engine.target.hardware import BANK_BYTES, MAX_THREADS, PASS_BYTES, VECTOR_BYTES, WARP
from engine.tensor.access import contiguous_along, position, stride, vector_limit
from engine.tensor.index import Extents, Index
from engine.tensor.nodes import Access, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator
from engine.tile.nodes import Buffer, KernelConfig

EDGES = (32, 64, 128)
"""Rows and columns of a tile."""
DEFAULT_TURN_THREADS = 256
"""Threads of a block where nothing asks for others and its tile has as many blocks to turn."""
REFUSED = {
    "block": "a block makes one tile",
    "split": "the tile already splits both of its dimensions",
    "unroll": "the steps of a tile are always written out",
    "stages": "a block has one tile: there is nothing to copy ahead",
    "lane": "no value is shared along a row",
    "warp": "no value is shared down a column",
}
"""Marks that a transposing kernel has no use for, and why."""


@dataclass(frozen=True, slots=True)
class Turned:
    """Reads that are contiguous along another dimension than the last one."""

    across: Member
    """The dimension that they are contiguous along."""
    reads: Mapping[Access, Statement]
    """With the first statement that has each."""


def turned_reads(program: TensorProgram, nest: Nest) -> Turned | None:
    """The reads that a shared tile makes contiguous: all that run along one other dimension, the first read's."""

    def step(access: Access, statement: Statement, member: Member) -> int | None:
        name = plain_iterator(member.rows[statement.name])
        return None if name is None else stride(position(access, program.arrays), name)

    regular = [
        (access, s) for s in nest.statements for access in s.reads()
        if access.array in program.inputs and not access.guards and not any(i.elements() for i in access.indices)
    ]  # fmt: skip
    jumping = [(a, s) for a, s in regular if nest.outer and step(a, s, nest.outer[-1]) not in (0, 1, None)]
    found = [(access, s, m) for access, s in jumping for m in nest.outer[:-1] if step(access, s, m) == 1]
    if not found:
        return None
    across, reads = found[0][2], dict[Access, Statement]()
    for access, statement, member in found:
        if member is across:
            reads.setdefault(access, statement)
    return Turned(across, reads)


@dataclass(frozen=True, slots=True)
class TransposeConfig(KernelConfig):
    """A block turns one tile of `edge` rows and columns; a thread blocks of `write` rows of `read` neighbours."""

    threads: int
    edge: int
    read: int
    """Neighbouring elements that a thread reads at once."""
    write: int
    """Neighbouring elements that it writes at once."""

    @property
    def blocks_of_thread(self) -> int:
        """Blocks of the tile that each thread turns."""
        return self.edge**2 // (self.threads * self.read * self.write)

    def _apart(self, dtype: str) -> int:
        """Elements between groups of `read` rows of the tile.

        Threads beside each other store the same row of different groups: their vectors lie one behind the other in the
        banks, and whole words apart.
        """
        element = DTYPES[dtype]
        vector = self.write * element
        together = min(WARP, PASS_BYTES // max(vector, BANK_BYTES))
        below = max(1, together // (self.edge // self.read))
        return max(vector * below, BANK_BYTES) // element

    def tile(self, name: str, dtype: str) -> Buffer:
        """The tile in shared memory of an array that is turned."""
        elements = self.edge**2 + (self.edge // self.read - 1) * self._apart(dtype)
        return Buffer(name, dtype, (elements,), "shared")

    def position(self, row: Index, of_group: Index, column: Index, extents: Extents, dtype: str) -> Index:
        """Where an element of the tile lies: row `row + of_group`.  of_group: of a row that begins a group."""
        group = row.floordiv(self.read, extents)
        return (row + of_group) * self.edge + group * self._apart(dtype) + column


def widest_turn(
    program: TensorProgram, reads: Collection[tuple[Access, Statement, str]], along: Mapping[str, Sequence[str]]
) -> tuple[int, int]:
    """(elements that a thread can read at once, elements that it can write at once).

    reads: those that are turned, each with its statement and the iterator that it is contiguous along.
    along: statement -> its iterators along the direction of the write.
    """
    read = min(VECTOR_BYTES // DTYPES[program.arrays[access.array].dtype] for access, _, _ in reads)
    while not all(
        s.extents[name] % read == 0 and contiguous_along(position(a, program.arrays), (name,), read, s.extents)
        for a, s, name in reads
    ):
        read //= 2
    return read, vector_limit(program.statements, program, along)


def edge_of(read: int, write: int) -> int:
    """The edge of a tile whose rows and columns are 8 vectors long, or the shortest one."""
    return next(edge for edge in EDGES if edge >= 8 * max(read, write))


def threads_of(edge: int, read: int, write: int) -> tuple[int, int]:
    """The fewest and the most threads that turn a tile: whole rows and columns at once, a block of vectors each."""
    turned = edge**2 // (read * write)
    return max(WARP, edge // min(read, write)), min(MAX_THREADS, turned)


def read_config(program: TensorProgram, nest: Nest, turned: Turned, marks: Marks) -> TransposeConfig:
    """What the marks ask for; without them one element at a time."""
    without_loops(nest, nest.statements)
    marks.refuse(REFUSED)

    def iterator(member: Member, statement: Statement) -> str:
        name = plain_iterator(member.rows[statement.name])
        assert name is not None, f"{statement.name} has no iterator of its own along {member.name}"
        return name

    reads = [(access, s, iterator(turned.across, s)) for access, s in turned.reads.items()]
    widest = widest_turn(program, reads, {s.name: (iterator(nest.outer[-1], s),) for s in nest.statements})
    needs = f"a power of two up to {max(widest)}: extents, alignment, guards and element types allow no more"
    asked = marks.number("vector", 1, power_up_to(max(widest)), needs)
    read, write = (min(asked, most) for most in widest)
    edge = marks.power("tile", edge_of(read, write), EDGES[-1], least=edge_of(read, write))
    least, most = threads_of(edge, read, write)
    default = max(least, min(DEFAULT_TURN_THREADS, most))
    needs = f"a power of two from {least} to {most}"
    return TransposeConfig(marks.number("thread", default, nearest_power(least, most), needs), edge, read, write)
