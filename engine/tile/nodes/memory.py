"""Operations that move elements between registers, shared and global memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from engine.graph.nodes import DTYPES
from engine.support.values import cached_property, value
from engine.tensor.index import Index
from engine.tensor.nodes import Literal
from engine.tensorize.nodes import ROW_BYTES
from engine.tile.nodes.expressions import STORED, index_text, scalar_text, slot_text
from engine.tile.nodes.operation import Participants, TileOp, registers_in
from engine.tile.nodes.values import Buffer, Region, Slot
from engine.tile.nodes.writer import CudaWriter, narrow, register_type, widen
from engine.tile.source import NOWHERE, Line

LANE = Index.of("v")
"""The counter of the loops over the elements of a pack."""


@value(frozen=True, slots=True)
class Load(TileOp):
    """`width` consecutive elements of a global or shared buffer into a register buffer, from `slot` on.

    Where `mask` is false nothing is read and the elements are `otherwise`.
    """

    slot: Slot
    source: str
    position: Index
    width: int
    mask: str | None = None
    otherwise: Literal | None = None
    at: Line = NOWHERE

    positions: ClassVar[Mapping[str, str]] = {"position": "source"}
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def reads(self) -> tuple[Region, ...]:
        return (Region(self.source, self.position, self.width, self.mask),)

    @cached_property
    def vectors(self) -> tuple[tuple[Slot, int], ...]:
        return ((self.slot, self.width),) if self.width > 1 else ()

    @cached_property
    def defines(self) -> tuple[str, ...]:
        # The text declares a scalar register where it is loaded, unless a `Declare` did before.
        return (self.slot.buffer,) if self.width == 1 and not self.slot.indices else ()

    def write(self, out: CudaWriter) -> None:
        if self.width > 1:
            self._write_vector(out)
            return
        target, source = out.buffers[self.slot.buffer], out.buffers[self.source]
        element = f"{self.source}.load({out.place(self.source, self.position)})"
        value = element if target.is_raw else widen(element, source.dtype)
        if self.mask:
            value = f"{self.mask} ? {value} : {self._otherwise(target)}"
        is_declared = bool(target.shape) or self.slot.buffer in out.forms.declared
        kind = "" if is_declared else f"const {register_type(target)} "
        out.line(f"{kind}{slot_text(self.slot)} = {value};", self.at)

    def _otherwise(self, target: Buffer) -> str:
        """What a masked element is: of registers that hold elements as they lie in memory, zero alone."""
        number = self.otherwise or Literal(0, target.dtype)
        if not target.is_raw:
            return scalar_text(number)
        assert number.value == 0, f"{target.name}: only zeros stand in for elements that are not computed with"
        return f"{STORED[target.dtype]}{{}}"

    def _write_vector(self, out: CudaWriter) -> None:
        source, name = out.buffers[self.source], self.slot.buffer
        pack = f"Pack<{STORED[source.dtype]}, {self.width}>"
        value = f"{self.source}.load<{self.width}>({out.place(self.source, self.position)})"
        if self.mask:
            value = f"{self.mask} ? {value} : {pack}{{}}"
        if name in out.forms.packs:
            is_first = len(out.buffers[name].shape) == 1 and name in out.forms.loaded_once
            out.line(f"{f'const {pack} ' if is_first else ''}{slot_text(self.slot)} = {value};", self.at)
            return
        out.line(f"const {pack} {name}_pack = {value};", self.at)
        out.line("#pragma unroll", self.at)
        element = widen(f"{name}_pack[v]", source.dtype)
        # An empty pack holds zeros, so that another value alone needs a selection for each element.
        if self.mask and self.otherwise is not None and self.otherwise.value != 0:
            element = f"{self.mask} ? {element} : {scalar_text(self.otherwise)}"
        into = slot_text(Slot(name, (*self.slot.indices, LANE)))
        out.line(f"for (int v = 0; v < {self.width}; ++v) {into} = {element};", self.at)


@value(frozen=True, slots=True)
class Store(TileOp):
    """`width` consecutive elements of a register buffer, from `slot` on, into a global or shared buffer."""

    target: str
    position: Index
    slot: Slot
    width: int
    mask: str | None = None
    at: Line = NOWHERE

    positions: ClassVar[Mapping[str, str]] = {"position": "target"}
    read_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def writes(self) -> tuple[Region, ...]:
        return (Region(self.target, self.position, self.width, self.mask),)

    @cached_property
    def vectors(self) -> tuple[tuple[Slot, int], ...]:
        return ((self.slot, self.width),) if self.width > 1 else ()

    def write(self, out: CudaWriter) -> None:
        dtype, name = out.buffers[self.target].dtype, self.slot.buffer
        place = out.place(self.target, self.position)
        guard = f"if ({self.mask}) " if self.mask else ""
        if self.width == 1:
            held = slot_text(self.slot)
            value = held if out.buffers[name].is_raw else narrow(held, dtype)
            out.line(f"{guard}{self.target}.store({place}, {value});", self.at)
            return
        if name in out.forms.packs:
            out.line(f"{guard}{self.target}.store<{self.width}>({place}, {slot_text(self.slot)});", self.at)
            return
        packed = f"{self.target}_pack"
        # A scope of its own: several stores to one target may stand in one body.
        with out.block("{", self.at, tail=""):
            out.line(f"Pack<{STORED[dtype]}, {self.width}> {packed};", self.at)
            out.line("#pragma unroll", self.at)
            value = narrow(slot_text(Slot(name, (*self.slot.indices, LANE))), dtype)
            out.line(f"for (int v = 0; v < {self.width}; ++v) {packed}[v] = {value};", self.at)
            out.line(f"{guard}{self.target}.store<{self.width}>({place}, {packed});", self.at)
        out.line("}", self.at)


@value(frozen=True, slots=True)
class AsyncCopy(TileOp):
    """cp.async: `width` consecutive elements from global to shared memory; where masked off, zeros.

    Each thread copies for itself, and may have none to make; all commit, wait and meet.
    start: a register that holds all of the source's position but `rest`, where `SetPlace` kept it.
    """

    target: str
    target_position: Index
    source: str
    source_position: Index
    width: int
    mask: str | None = None
    at: Line = NOWHERE
    start: Slot | None = None
    rest: Index = Index()

    is_asynchronous: ClassVar[bool] = True
    positions: ClassVar[Mapping[str, str]] = {"target_position": "target", "source_position": "source"}

    @cached_property
    def reads(self) -> tuple[Slot | Region, ...]:
        return (*registers_in(self.start), Region(self.source, self.source_position, self.width, self.mask))

    @cached_property
    def writes(self) -> tuple[Region, ...]:
        # Without the mask: where that is false the copy fills in zeros.
        return (Region(self.target, self.target_position, self.width),)

    def write(self, out: CudaWriter) -> None:
        size = self.width * DTYPES[out.buffers[self.source].dtype]
        valid = f"{self.mask} ? {self.width} : 0" if self.mask else str(self.width)
        target = out.place(self.target, self.target_position)
        source = out.place(self.source, self.source_position)
        if self.start is not None:
            source = f"{slot_text(self.start)} + {index_text(self.rest)}"
        out.line(f"async_copy<{size}>({self.target}, {target}, {self.source}, {source}, {valid});", self.at)


@value(frozen=True, slots=True)
class Commit(TileOp):
    """Close the group of this thread's copies issued since the last commit."""

    at: Line = NOWHERE

    execution: ClassVar[Participants] = "block"

    def write(self, out: CudaWriter) -> None:
        out.line("async_commit();", self.at)


@value(frozen=True, slots=True)
class Wait(TileOp):
    """Wait until at most `pending` of this thread's newest groups are unfinished."""

    pending: int
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "block"

    def write(self, out: CudaWriter) -> None:
        out.line(f"async_wait<{self.pending}>();", self.at)


@value(frozen=True, slots=True)
class MatrixLoad(TileOp):
    """Four matrices of 8 rows of 16 bytes from shared memory into the words of all lanes of a warp.

    position: of the row that this lane names.
    """

    function: str
    slot: Slot
    source: str
    position: Index
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "warp"
    positions: ClassVar[Mapping[str, str]] = {"position": "source"}
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def reads(self) -> tuple[Region, ...]:
        return (Region(self.source, self.position, bytes=ROW_BYTES),)

    def write(self, out: CudaWriter) -> None:
        place = out.place(self.source, self.position)
        out.line(f"{self.function}({slot_text(self.slot)}, {self.source}, {place});", self.at)


def only_copies(body: tuple[TileOp, ...]) -> bool:
    """Whether a loop's body is asynchronous copies that are waited for outside: a part of one step, not steps."""
    return any(isinstance(op, AsyncCopy) for op in body) and not any(isinstance(op, Commit) for op in body)
