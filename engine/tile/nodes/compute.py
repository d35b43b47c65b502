"""Operations on variables, masks and registers."""

from __future__ import annotations

from typing import ClassVar

from engine.support.values import cached_property, value
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Scalar
from engine.tile.nodes.expressions import HELD, STORED, condition_text, index_text, scalar_text, slot_text
from engine.tile.nodes.operation import Participants, TileOp, registers_in
from engine.tile.nodes.values import Slot
from engine.tile.nodes.writer import CudaWriter, register_type
from engine.tile.source import NOWHERE, Line

REDUCERS = {"sum": "Sum", "max": "Max", "min": "Min", "prod": "Prod", "any": "Any", "all": "All"}
"""Reduction operation -> its class in include/reduce.cuh."""
COMPOUND = {"sum": "+=", "prod": "*="}
"""Reduction operation -> the assignment that combines, where C++ has one."""


@value(frozen=True, slots=True)
class Comment(TileOp):
    """A line for the reader of the CUDA text."""

    text: str
    at: Line = NOWHERE

    def write(self, out: CudaWriter) -> None:
        out.line(f"// {self.text}", self.at)


@value(frozen=True, slots=True)
class Let(TileOp):
    """`const int name = index`; with `limit`, the smaller of the two."""

    name: str
    index: Index
    at: Line = NOWHERE
    limit: int | None = None

    @cached_property
    def defines(self) -> tuple[str, ...]:
        return (self.name,)

    def write(self, out: CudaWriter) -> None:
        is_large = out.is_large(self.index)
        value = index_text(self.index, is_large)
        if self.limit is not None:
            value = f"fn_min({value}, {f'i64({self.limit})' if is_large else self.limit})"
        most = self.index.bounds(out.extents)[1]
        out.extents[self.name] = 1 + (most if self.limit is None else min(most, self.limit))
        out.line(f"const {'i64' if out.is_long(self.index) else 'int'} {self.name} = {value};", self.at)


@value(frozen=True, slots=True)
class Mask(TileOp):
    """`const bool name = every condition >= 0`, and all masks `within`.

    bits: a register whose bit number `place` says whether the conditions hold, where `SetBit` found out before.
    """

    name: str
    conditions: tuple[Index, ...]
    within: tuple[str, ...] = ()
    at: Line = NOWHERE
    bits: Slot | None = None
    place: Index = Index()

    read_fields: ClassVar[tuple[str, ...]] = ("bits",)

    @cached_property
    def defines(self) -> tuple[str, ...]:
        return (self.name,)

    @cached_property
    def masks(self) -> tuple[str, ...]:
        return self.within

    def write(self, out: CudaWriter) -> None:
        held = [condition_text(c, out.is_large(c)) for c in self.conditions]
        if self.bits is not None:
            held = [f"({slot_text(self.bits)} >> ({index_text(self.place)}) & 1u) != 0"]
        terms = [*self.within, *held]
        out.line(f"const bool {self.name} = {' && '.join(terms)};", self.at)


@value(frozen=True, slots=True)
class SetBit(TileOp):
    """Set bit number `place` of a register of zeros where a mask holds."""

    slot: Slot
    place: Index
    mask: str
    at: Line = NOWHERE

    read_fields: ClassVar[tuple[str, ...]] = ("slot",)
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def masks(self) -> tuple[str, ...]:
        return (self.mask,)

    def write(self, out: CudaWriter) -> None:
        out.line(f"{slot_text(self.slot)} |= u32({self.mask}) << ({index_text(self.place)});", self.at)


@value(frozen=True, slots=True)
class SetPlace(TileOp):
    """Keep a position, or a part of one, in a register: the compiler does not take it apart where it is used."""

    slot: Slot
    index: Index
    at: Line = NOWHERE

    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    def write(self, out: CudaWriter) -> None:
        out.line(f"{slot_text(self.slot)} = keep({index_text(self.index)});", self.at)


@value(frozen=True, slots=True)
class Declare(TileOp):
    """A register buffer, every element set to `value` (None leaves it undefined)."""

    buffer: str
    value: Scalar | None = None
    at: Line = NOWHERE

    read_fields: ClassVar[tuple[str, ...]] = ("value",)

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        return (self.buffer, *self.buffers_read)

    @cached_property
    def defines(self) -> tuple[str, ...]:
        return (self.buffer,)

    def write(self, out: CudaWriter) -> None:
        buffer, forms = out.buffers[self.buffer], out.forms
        kind, shape = register_type(buffer), buffer.shape
        if buffer.name in forms.packs:
            if self.value is None and len(shape) == 1 and buffer.name in forms.loaded_once:
                return  # the load's own line declares it
            kind, shape = f"Pack<{kind}, {shape[-1]}>", shape[:-1]
        if not buffer.shape and self.value is not None:
            const = "" if buffer.name in forms.changed else "const "
            out.line(f"{const}{kind} {buffer.name} = {scalar_text(self.value)};", self.at)
            return
        out.line(f"{kind} {buffer.name}{''.join(f'[{n}]' for n in shape)};", self.at)
        if self.value is None:
            return
        names = [f"n{axis}" for axis in range(len(buffer.shape))]
        for name, size in zip(names, buffer.shape, strict=True):
            out.line("#pragma unroll", self.at)
            out.line(f"for (int {name} = 0; {name} < {size}; ++{name})", self.at)
            out.depth += 1
        out.line(f"{buffer.name}{''.join(f'[{n}]' for n in names)} = {scalar_text(self.value)};", self.at)
        out.depth -= len(names)


@value(frozen=True, slots=True)
class Assign(TileOp):
    """`slot = expression`; accesses in the expression name register buffers."""

    slot: Slot
    expression: Scalar
    at: Line = NOWHERE
    combine: str | None = None
    """A reduction operation: `slot = combine(slot, expression)`."""

    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def reads(self) -> tuple[Slot, ...]:
        return (*registers_in(self.expression), *((self.slot,) if self.combine else ()))

    @property
    def products(self) -> int:
        return 1 if self.combine else 0

    def write(self, out: CudaWriter) -> None:
        place, value = slot_text(self.slot), scalar_text(self.expression)
        if self.combine and self.combine not in COMPOUND:
            reducer = f"{REDUCERS[self.combine]}<{HELD[out.buffers[self.slot.buffer].dtype]}>"
            value = f"{reducer}::apply({place}, {value})"
        out.line(f"{place} {COMPOUND.get(self.combine or '', '=')} {value};", self.at)


@value(frozen=True, slots=True)
class WarpReduce(TileOp):
    """Combine a register element over `width` neighbouring lanes; every lane gets the result."""

    slot: Slot
    operation: str
    width: int
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "warp"
    read_fields: ClassVar[tuple[str, ...]] = ("slot",)
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    def write(self, out: CudaWriter) -> None:
        place = slot_text(self.slot)
        lanes = f", {self.width}" if self.width != WARP else ""
        out.line(f"{place} = warp_reduce<{REDUCERS[self.operation]}{lanes}>({place});", self.at)


@value(frozen=True, slots=True)
class WarpScan(TileOp):
    """A register element becomes what the lanes before have together; in the first lane, the operation's identity."""

    slot: Slot
    operation: str
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "warp"
    read_fields: ClassVar[tuple[str, ...]] = ("slot",)
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    def write(self, out: CudaWriter) -> None:
        place = slot_text(self.slot)
        out.line(f"{place} = warp_scan<{REDUCERS[self.operation]}>({place});", self.at)


@value(frozen=True, slots=True)
class TurnRows(TileOp):
    """`columns[c][r] = rows[r][c]`: vectors that one thread holds as they lie in memory, turned in its registers."""

    columns: Slot
    rows: Slot
    shape: tuple[int, int]
    """(rows, columns): how many vectors there are, and the elements of each."""
    at: Line = NOWHERE

    read_fields: ClassVar[tuple[str, ...]] = ("rows",)
    written_fields: ClassVar[tuple[str, ...]] = ("columns",)

    @cached_property
    def vectors(self) -> tuple[tuple[Slot, int], ...]:
        rows, columns = self.shape
        first = Index()
        return (Slot(self.columns.buffer, (first,)), rows), (Slot(self.rows.buffer, (first,)), columns)

    def write(self, out: CudaWriter) -> None:
        out.line(f"turn_rows({slot_text(self.columns)}, {slot_text(self.rows)});", self.at)


@value(frozen=True, slots=True)
class MapFragment(TileOp):
    """Every element of a fragment of `dtype`, called `element`, replaced by an expression of it."""

    slot: Slot
    dtype: str
    element: str
    expression: Scalar
    at: Line = NOWHERE

    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def reads(self) -> tuple[Slot, ...]:
        return (self.slot, *(slot for slot in registers_in(self.expression) if slot.buffer != self.element))

    def write(self, out: CudaWriter) -> None:
        function = f"[&](float {self.element}) {{ return {scalar_text(self.expression)}; }}"
        out.line(f"on_elements<{STORED[self.dtype]}>({slot_text(self.slot)}, {function});", self.at)


@value(frozen=True, slots=True)
class MatrixMultiply(TileOp):
    """`sums += first * second` on tensor cores, by all lanes of a warp together."""

    intrinsic: str
    sums: Slot
    first: Slot
    second: Slot
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "warp"
    read_fields: ClassVar[tuple[str, ...]] = ("sums", "first", "second")
    written_fields: ClassVar[tuple[str, ...]] = ("sums",)

    @property
    def products(self) -> int:
        return 1

    @property
    def tensor_instruction(self) -> str:
        return self.intrinsic

    def write(self, out: CudaWriter) -> None:
        operands = ", ".join(map(slot_text, (self.sums, self.first, self.second)))
        out.line(f"{self.intrinsic}({operands});", self.at)
