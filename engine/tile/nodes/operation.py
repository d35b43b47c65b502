"""What a tile operation declares, and the two ways to take a program apart: walking all operations, replacing parts.

Checks, hazards, names, life times, trip counts, bytes and text are folds over the declaration.  A new operation is a
class in this package that overrides what differs from the defaults and writes its text, the device function that the
text calls (`tile/include`), and that function's emulation (`execution/emulate/include`); no fold changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import is_
from typing import Any, ClassVar, Literal, Self

from engine.support.values import cached_property, value
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Position, Scalar, accesses
from engine.tile.nodes.values import Buffer, Region, Slot
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import Line

Participants = Literal["thread", "warp", "block"]
"""The threads that an operation concerns: each by itself, all of a warp, or all of the block."""


@value(frozen=True, slots=True)
class Body:
    """Operations that stand inside another one, and how they run there."""

    operations: tuple[TileOp, ...]
    counter: str = ""
    """The variable of the loop around them; "" where they run once."""
    extent: int = 1
    """The counter takes the values 0 .. extent-1."""
    is_unrolled: bool = False
    written_out: int = 1
    """Iterations that are written out together where a loop is left."""
    mask: str | None = None
    """Only threads in which it holds run them."""
    threads: int | None = None
    """So many of the block's, the first ones; None where others or all of them may."""
    condition: Index | None = None
    """The block runs them where this is >= 0."""
    blocks: int | None = None
    """Only so many blocks run them, numbered from 0 in here; None where all do that come here."""


@value(frozen=True)  # without slots, so that what follows from the declaration is found once
class TileOp:
    """One operation of a tile program; the defaults are those of one that touches nothing."""

    execution: ClassVar[Participants] = "thread"
    """Who must take part: an operation of a warp or block may not stand where some of its threads do not come."""
    meets: ClassVar[Participants] = "thread"
    """Who waits here for each other, and then sees what the others stored to shared memory before."""
    is_asynchronous: ClassVar[bool] = False
    """Whether its writes become visible only after a `Wait`."""
    leaves_loop: ClassVar[bool] = False
    """Whether it may end the innermost loop around it."""
    positions: ClassVar[Mapping[str, str]] = {}
    """Fields that hold a position in memory -> the field that names the buffer."""
    read_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold registers, or expressions over registers, whose elements it uses."""
    written_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold registers whose elements it sets."""

    @cached_property
    def reads(self) -> tuple[Slot | Region, ...]:
        """Registers and memory whose elements it uses."""
        return tuple([slot for name in self.read_fields for slot in registers_in(getattr(self, name))])

    @cached_property
    def writes(self) -> tuple[Slot | Region, ...]:
        """Registers and memory whose elements it sets."""
        return tuple([getattr(self, name) for name in self.written_fields])

    @cached_property
    def vectors(self) -> tuple[tuple[Slot, int], ...]:
        """Registers that it moves as one vector, with its elements."""
        return ()

    @cached_property
    def defines(self) -> tuple[str, ...]:
        """Variables, masks and registers that are known after it, in the same body and those inside."""
        return ()

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Masks that it needs beside those that its reads, writes and bodies name."""
        return ()

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        """What stands inside it."""
        return ()

    @property
    def uniform(self) -> tuple[Index, ...]:
        """Indices that must have one value in all threads of the block."""
        return ()

    @property
    def passing(self) -> tuple[int, int]:
        """(n, of): of how many arrivals how many go on to what follows in the same body."""
        return 1, 1

    @property
    def zeroed(self) -> tuple[str, ...]:
        """Workspaces that must hold zeros when the launch begins, and do again when it ends."""
        return ()

    @property
    def products(self) -> int | None:
        """Multiply-adds of its own, of tiles where it works on tiles; None for what does not compute."""
        return None

    @property
    def tensor_instruction(self) -> str:
        """The instruction with which it multiplies on tensor cores, or ""."""
        return ""

    def bytes_moved(self, buffers: Mapping[str, Buffer]) -> dict[str, int]:
        """Bytes that one thread moves to and from each scope of memory, if its mask holds."""
        moved: dict[str, int] = {}
        for region in self.regions:
            buffer = buffers[region.buffer]
            moved[buffer.scope] = moved.get(buffer.scope, 0) + region.bytes_in(buffer)
        return moved

    def write(self, out: CudaWriter) -> None:
        """Append its CUDA text."""
        raise NotImplementedError(type(self).__name__)

    # What follows from the declaration

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The memory that it touches."""
        return (*self.regions_read, *self.regions_written)

    @cached_property
    def regions_read(self) -> tuple[Region, ...]:
        """The memory among its reads."""
        return tuple([part for part in self.reads if isinstance(part, Region)])

    @cached_property
    def regions_written(self) -> tuple[Region, ...]:
        """The memory among its writes."""
        return tuple([part for part in self.writes if isinstance(part, Region)])

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        """Every buffer that it names."""
        return (*self.buffers_written, *self.buffers_read)

    @cached_property
    def buffers_read(self) -> tuple[str, ...]:
        """Buffers of which it uses elements."""
        return tuple([part.buffer for part in self.reads])

    @cached_property
    def buffers_written(self) -> tuple[str, ...]:
        """Buffers of which it sets elements."""
        return tuple([part.buffer for part in self.writes])

    @cached_property
    def names(self) -> frozenset[str]:
        """Every variable, mask and register that must be known where it stands."""
        found = set(self.masks)
        for part in (*self.reads, *self.writes):
            found.update(part.names)
        for field in self._fields():
            found.update(variables_in(getattr(self, field)))
        found.update([body.mask for body in self.bodies if body.mask])
        return frozenset(found.difference(self.defines))

    @classmethod
    @lru_cache(maxsize=256)
    def _fields(cls) -> tuple[str, ...]:
        """The names of its fields; cached, because every walk over a program asks for them."""
        return tuple(field.name for field in fields(cls))

    @cached_property
    def inside(self) -> tuple[TileOp, ...]:
        """Every operation below it, outermost first."""
        return tuple([op for body in self.bodies for op in operations(body.operations)])

    # Replacing parts

    def rewrite(self, change: Rewrite) -> Self:
        """The operation with other parts, and the same below it; itself, with what is known of it, where none is."""
        positions, parts, is_other = self.positions, [], False
        for name in self._fields():
            part = getattr(self, name)
            other = change.position(getattr(self, positions[name]), part) if name in positions else change.part(part)
            is_other = is_other or other is not part
            parts.append(other)
        return type(self)(*parts) if is_other else self

    def map_bodies(self, change: Callable[[tuple[TileOp, ...]], Sequence[TileOp]]) -> Self:
        """The operation with each of its bodies changed."""
        return self.rewrite(_BodyRewrite(change)) if self.bodies else self  # most have none: no copy of them


_PLAIN = frozenset((str, int, bool, Line, type(None)))
"""Types of parts that every rewrite leaves alone, and that name no variable."""
_SCALARS = (Access, Apply, Position)


class Rewrite:
    """What takes the place of an operation's parts: by default, each part itself."""

    def index(self, index: Index) -> Index:
        """An index that is no position in memory."""
        return index

    def position(self, buffer: str, position: Index) -> Index:
        """A position in memory."""
        return self.index(position)

    def slot(self, slot: Slot) -> Slot:
        """Registers."""
        return slot

    def scalar(self, value: Scalar) -> Scalar:
        """An expression over registers."""
        return value

    def body(self, body: Sequence[TileOp]) -> tuple[TileOp, ...]:
        """What stands inside an operation."""
        return tuple([op.rewrite(self) for op in body])

    def part(self, part: Any) -> Any:
        """Whatever a field of an operation holds; names, numbers and links to statements stay."""
        if type(part) in _PLAIN:  # as most are
            return part
        if isinstance(part, Index):
            return self.index(part)
        if isinstance(part, Slot):
            return self.slot(part)
        if isinstance(part, _SCALARS):
            return self.scalar(part)
        if not isinstance(part, tuple) or not part:
            return part
        found = self.body(part) if isinstance(part[0], TileOp) else tuple(map(self.part, part))
        is_same = len(found) == len(part) and all(map(is_, found, part))
        return part if is_same else found


class _BodyRewrite(Rewrite):
    def __init__(self, change: Callable[[tuple[TileOp, ...]], Sequence[TileOp]]) -> None:
        self._change = change

    def body(self, body: Sequence[TileOp]) -> tuple[TileOp, ...]:
        return tuple(self._change(tuple(body)))


def operations(body: Iterable[TileOp]) -> Iterator[TileOp]:
    """Every operation, outermost first."""
    for op in body:
        yield op
        yield from op.inside


def names_in(body: Iterable[TileOp]) -> set[str]:
    """Every variable, mask and register that operations and those below them need."""
    return set().union(*[op.names for op in operations(body)])


def registers_in(value: Scalar | Slot | None) -> tuple[Slot, ...]:
    """The registers of an expression."""
    if isinstance(value, Slot):
        return (value,)
    return tuple([Slot(access.array, access.indices) for access in accesses(value)]) if value else ()


def variables_in(part: Any) -> tuple[str, ...]:
    """The variables of a field: of an index, or those that stand in an expression as values."""
    if type(part) in _PLAIN:  # as most are
        return ()
    if isinstance(part, Index):
        return part.iterators()
    if isinstance(part, Apply):
        part = part.operands
    if isinstance(part, tuple):
        if not part or isinstance(part[0], TileOp):
            return ()
        return tuple([name for each in part for name in variables_in(each)])
    return part.index.iterators() if isinstance(part, Position) else ()
