"""The CUDA printer: a tile program as text that people read, with a line map.

Registers of 16-bit floats are float variables; `round_f16` and `round_bf16` mark every place where a value is rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from engine.graph.nodes import DTYPES
from engine.tensor.index import Index
from engine.tensor.nodes import Literal, Scalar
from engine.tensor.terms import NARROW
from engine.tile.expressions import (
    HELD,
    STORED,
    condition_text,
    index_text,
    permuted_text,
    scalar_text,
    slot_text,
)
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    Assign,
    AsyncCopy,
    Barrier,
    BlockRanges,
    BreakIf,
    Buffer,
    Comment,
    Commit,
    Declare,
    For,
    If,
    LastArrival,
    Let,
    Load,
    MapFragment,
    Mask,
    MatrixLoad,
    MatrixMultiply,
    Slot,
    Store,
    TileOp,
    TileProgram,
    UniformIf,
    Wait,
    WarpReduce,
    WarpSync,
    operations,
)
from engine.tile.registers import assigned, packs
from engine.tile.source import NOWHERE, CudaSource, Line
from engine.tile.source import Buffer as Parameter
from engine.tile.storage import alignments, shared_bytes_of, shared_map, workspaces

BITS = "uint16"
"""Type of registers that hold 16-bit floats as they are."""

REDUCERS = {"sum": "Sum", "max": "Max", "min": "Min", "prod": "Prod", "any": "Any", "all": "All"}

ARENA = "shared_memory"


def print_cuda(program: TileProgram) -> CudaSource:
    """The CUDA text of a tile program."""
    return _Printer(program).source()


class _Printer:
    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.text: list[str] = []
        self.lines: list[Line] = []
        self.depth = 0
        everything = tuple(operations(program.body))
        self.changed = {n for op in everything for n in assigned(op)}
        """Registers assigned after their declaration: not const."""
        self.declared = {op.buffer for op in everything if isinstance(op, Declare)}
        """Registers with a declaration of their own."""
        self.packs = packs(program)
        """Registers whose last axis is one vector access: printed as `Pack`, loaded and stored whole."""
        writes = Counter(n for op in everything for n in assigned(op))
        self.loaded_once = {op.slot.buffer for op in everything if isinstance(op, Load) and writes[op.slot.buffer] == 1}
        """Registers that one load alone gives their value."""

    def source(self) -> CudaSource:
        program = self.program
        offsets, shared_bytes = shared_map(program.buffers)
        parameters = [b for b in program.buffers.values() if b.scope == "global"]
        used = [b for b in parameters if b.name in program.read | program.written]
        self.header(shared_bytes)
        own = workspaces(program)
        pointers = [*used, *(program.buffers[w.name] for w in own)]
        together = f", {program.together}" if program.together else ""
        self.line(f'extern "C" __global__ void __launch_bounds__(THREADS{together})')
        self.line(f"{program.name}({', '.join(self.parameter(b) for b in pointers)})")
        self.line("{")
        self.depth = 1
        for buffer in used:
            self.accessor(buffer)
        for workspace in own:
            zeros = ", zeros before and after" if workspace.zeroed else ""
            self.accessor(program.buffers[workspace.name], f", memory of this launch alone{zeros}")
        if shared_bytes:
            self.shared(offsets, shared_bytes)
        self.line(f"const int {BLOCK} = blockIdx.x;")
        self.line(f"const int {THREAD} = threadIdx.x;")
        self.line("")
        self.body(program.body)
        self.depth = 0
        self.line("}")
        aligned = alignments(program)
        return CudaSource(
            text="\n".join(self.text) + "\n",
            entry=program.name,
            grid=(program.grid, 1, 1),
            block=(program.threads, 1, 1),
            shared_bytes=shared_bytes,
            buffers=tuple(self.described(b, aligned[b.name]) for b in used),
            lines=tuple(self.lines),
            footprints=program.footprints,
            team=program.team,
            workspaces=own,
        )

    def header(self, shared_bytes: int) -> None:
        """What the kernel computes, in which order, and the sizes its text relies on."""
        program = self.program
        for line in program.title:
            self.line(f"// {line}".rstrip())
        self.line('#include "loom.cuh"')
        self.line("")
        sizes = {**program.constants, "BLOCKS": program.grid, "THREADS": program.threads}
        sizes |= {"SHARED_BYTES": shared_bytes} if shared_bytes else {}
        self.line("enum : int {")  # NVRTC keeps variables of the file, even constant ones, in the module's memory
        for name, value in sizes.items():
            self.line(f"  {name} = {value},")
        self.line("};")
        for claim, reason in program.assertions:
            self.line(f'static_assert({claim}, "{reason}");')
        self.line("")

    def shared(self, offsets: Mapping[str, int], shared_bytes: int) -> None:
        """The shared-memory map: one array, cut by byte offsets."""
        self.line("LOOM_SHARED(SHARED_BYTES);")
        for name, offset in offsets.items():
            buffer = self.program.buffers[name]
            kind = STORED[buffer.dtype]
            place = f"{ARENA} + {offset}" if offset else ARENA
            last = offset + shared_bytes_of(buffer) - 1
            self.line(f"const Shared<{kind}> {name}({place}, {buffer.elements});  // bytes {offset} to {last}")

    def line(self, text: str, at: Line = NOWHERE) -> None:
        self.text.append("  " * self.depth + text if text else "")
        self.lines.append(at)

    def described(self, buffer: Buffer, alignment: int) -> Parameter:
        name, program = buffer.name, self.program
        is_read, is_written = name in program.read, name in program.written
        return Parameter(f"{name}_", name, buffer.dtype, buffer.elements, is_read, is_written, alignment)

    def parameter(self, buffer: Buffer) -> str:
        if buffer.scope == "workspace":  # no __restrict__: other blocks store what this one loads
            return f"{STORED[buffer.dtype]}* {buffer.name}_"
        const = "" if buffer.name in self.program.written else "const "
        return f"{const}{STORED[buffer.dtype]}* __restrict__ {buffer.name}_"

    def accessor(self, buffer: Buffer, about: str = "") -> None:
        const = "const " if buffer.scope == "global" and buffer.name not in self.program.written else ""
        kind = f"Global<{const}{STORED[buffer.dtype]}>"
        shape = " x ".join(map(str, buffer.shape)) or "scalar"
        self.line(f"const {kind} {buffer.name}({buffer.name}_, {buffer.elements});  // {shape}{about}")

    # Operations

    def body(self, ops: tuple[TileOp, ...]) -> None:
        for op in ops:
            self.operation(op)

    def operation(self, op: TileOp) -> None:
        match op:
            case Comment(text, at):
                self.line(f"// {text}", at)
            case Let(name, index, at, limit):
                value = index_text(index)
                kind = "i64" if self.is_long(index) else "int"
                if limit is not None:
                    value = f"fn_min({value}, {limit})"
                self.line(f"const {kind} {name} = {value};", at)
            case Mask(name, conditions, within, at):
                self.line(f"const bool {name} = {' && '.join([*within, *map(condition_text, conditions)])};", at)
            case Declare(name, value, at):
                self.declare(self.program.buffers[name], value, at)
            case Load():
                self.load(op)
            case Store():
                self.store(op)
            case AsyncCopy(target, to, source, start, width, mask, at):
                size = width * DTYPES[self.program.buffers[source].dtype]
                valid = f"{mask} ? {width} : 0" if mask else str(width)
                place = self.place(target, to)
                call = f"async_copy<{size}>({target}, {place}, {source}, {index_text(start)}, {valid});"
                self.line(call, at)
            case Commit(at):
                self.line("async_commit();", at)
            case Wait(pending, at):
                self.line(f"async_wait<{pending}>();", at)
            case Barrier(at):
                self.line("barrier();", at)
            case WarpSync(at):
                self.line("warp_sync();", at)
            case Assign():
                self.assign(op)
            case WarpReduce(slot, operation, width, at):
                place = slot_text(slot)
                lanes = f", {width}" if width != 32 else ""
                self.line(f"{place} = warp_reduce<{REDUCERS[operation]}{lanes}>({place});", at)
            case MatrixLoad(function, slot, source, position, at):
                place = self.place(source, position)
                self.line(f"{function}({slot_text(slot)}, {source}, {place});", at)
            case MapFragment(slot, dtype, element, expression, at):
                function = f"[&](float {element}) {{ return {scalar_text(expression)}; }}"
                self.line(f"on_elements<{STORED[dtype]}>({slot_text(slot)}, {function});", at)
            case MatrixMultiply(intrinsic, sums, first, second, at):
                self.line(f"{intrinsic}({slot_text(sums)}, {slot_text(first)}, {slot_text(second)});", at)
            case For(name, extent, body, unroll, at):
                if unroll:
                    self.line("#pragma unroll", at)
                self.line(f"for (int {name} = 0; {name} < {extent}; ++{name}) {{", at)
                self.nested(body)
            case If(mask, body, at):
                self.line(f"if ({mask}) {{", at)
                self.nested(body)
            case BreakIf(condition, _, at):
                self.line(f"if ({condition_text(condition)}) break;", at)
            case LastArrival(counters, position, team, at):
                self.line(f"if (!is_last_of<{team}>({counters}, {index_text(position)})) return;", at)
            case BlockRanges():
                self.ranges(op)
            case UniformIf(condition, body, at):
                self.line(f"if ({condition_text(condition)}) {{", at)
                self.nested(body)

    def ranges(self, op: BlockRanges) -> None:
        """A branch on the block's number for each range; the variable of later ones counts from their start."""
        start = 0
        for number, (blocks, body) in enumerate(op.parts):
            is_last = number == len(op.parts) - 1
            head = "if" if number == 0 else "} else" if is_last else "} else if"
            self.line(f"{head} {{" if is_last else f"{head} (blockIdx.x < {start + blocks}) {{", op.at)
            self.depth += 1
            if start:
                self.line(f"const int {BLOCK} = blockIdx.x - {start};", op.at)
            self.body(body)
            self.depth -= 1
            start += blocks
        self.line("}")

    def nested(self, body: tuple[TileOp, ...]) -> None:
        self.depth += 1
        self.body(body)
        self.depth -= 1
        self.line("}")

    def declare(self, buffer: Buffer, value: Scalar | None, at: Line) -> None:
        kind = HELD[buffer.dtype]
        if not buffer.shape:
            if value is None:
                self.line(f"{kind} {buffer.name};", at)
            else:
                changes = buffer.name in self.changed
                self.line(f"{'' if changes else 'const '}{kind} {buffer.name} = {scalar_text(value)};", at)
            return
        shape = buffer.shape
        if buffer.name in self.packs:
            if value is None and len(shape) == 1 and buffer.name in self.loaded_once:
                return
            kind, shape = f"Pack<{kind}, {shape[-1]}>", shape[:-1]
        sizes = "".join(f"[{n}]" for n in shape)
        self.line(f"{kind} {buffer.name}{sizes};", at)
        if value is None:
            return
        names = [f"n{axis}" for axis in range(len(buffer.shape))]
        for name, size in zip(names, buffer.shape, strict=True):
            self.line("#pragma unroll", at)
            self.line(f"for (int {name} = 0; {name} < {size}; ++{name})", at)
            self.depth += 1
        self.line(f"{buffer.name}{''.join(f'[{n}]' for n in names)} = {scalar_text(value)};", at)
        self.depth -= len(names)

    def load(self, op: Load) -> None:
        target, source = self.program.buffers[op.slot.buffer], self.program.buffers[op.source]
        stored, held = STORED[source.dtype], HELD[source.dtype]
        place = self.place(op.source, op.position)
        if op.width == 1:
            element = f"{op.source}.load({place})"
            value = f"{element}.bits" if target.dtype == BITS else self.widen(element, source.dtype)
            if op.mask:
                value = f"{op.mask} ? {value} : {scalar_text(op.otherwise or Literal(0, source.dtype))}"
            if target.shape or op.slot.buffer in self.declared:
                self.line(f"{slot_text(op.slot)} = {value};", op.at)
            else:
                self.line(f"const {held} {op.slot.buffer} = {value};", op.at)
            return
        packed = f"{op.slot.buffer}_pack"
        pack = f"Pack<{stored}, {op.width}>"
        value = f"{op.source}.load<{op.width}>({place})"
        if op.mask:
            value = f"{op.mask} ? {value} : {pack}{{}}"
        if op.slot.buffer in self.packs:
            once = len(target.shape) == 1 and op.slot.buffer in self.loaded_once
            self.line(f"{f'const {pack} ' if once else ''}{slot_text(op.slot)} = {value};", op.at)
            return
        self.line(f"const {pack} {packed} = {value};", op.at)
        self.line("#pragma unroll", op.at)
        into = slot_text(Slot(op.slot.buffer, (*op.slot.indices, Index.of("v"))))
        element = self.widen(f"{packed}[v]", source.dtype)
        if op.mask and op.otherwise is not None and op.otherwise.value != 0:
            element = f"{op.mask} ? {element} : {scalar_text(op.otherwise)}"
        self.line(f"for (int v = 0; v < {op.width}; ++v) {into} = {element};", op.at)

    def store(self, op: Store) -> None:
        target = self.program.buffers[op.target]
        stored = STORED[target.dtype]
        place = self.place(op.target, op.position)
        guard = f"if ({op.mask}) " if op.mask else ""
        if op.width == 1:
            held = slot_text(op.slot)
            is_bits = self.program.buffers[op.slot.buffer].dtype == BITS
            value = f"{stored}{{{held}}}" if is_bits else self.narrow(held, target.dtype)
            self.line(f"{guard}{op.target}.store({place}, {value});", op.at)
            return
        if op.slot.buffer in self.packs:
            self.line(f"{guard}{op.target}.store<{op.width}>({place}, {slot_text(op.slot)});", op.at)
            return
        packed = f"{op.target}_pack"
        self.line("{", op.at)
        self.depth += 1
        self.line(f"Pack<{stored}, {op.width}> {packed};", op.at)
        self.line("#pragma unroll", op.at)
        value = self.narrow(slot_text(Slot(op.slot.buffer, (*op.slot.indices, Index.of("v")))), target.dtype)
        self.line(f"for (int v = 0; v < {op.width}; ++v) {packed}[v] = {value};", op.at)
        self.line(f"{guard}{op.target}.store<{op.width}>({place}, {packed});", op.at)
        self.depth -= 1
        self.line("}", op.at)

    def assign(self, op: Assign) -> None:
        place, value = slot_text(op.slot), scalar_text(op.expression)
        match op.combine:
            case None:
                self.line(f"{place} = {value};", op.at)
            case "sum":
                self.line(f"{place} += {value};", op.at)
            case "prod":
                self.line(f"{place} *= {value};", op.at)
            case _:
                kind = HELD[self.program.buffers[op.slot.buffer].dtype]
                self.line(f"{place} = {REDUCERS[op.combine]}<{kind}>::apply({place}, {value});", op.at)

    # Values

    def place(self, buffer: str, position: Index) -> str:
        """A position in a buffer; in a tile of permuted chunks, where that element lies."""
        target = self.program.buffers[buffer]
        return permuted_text(position, target, STORED[target.dtype]) if target.row_bytes else index_text(position)

    @staticmethod
    def widen(value: str, dtype: str) -> str:
        return f"to_float({value})" if dtype in NARROW else f"bool({value})" if dtype == "bool" else value

    @staticmethod
    def narrow(value: str, dtype: str) -> str:
        narrow = {**dict.fromkeys(NARROW, f"to_{STORED[dtype]}({value})"), "bool": f"bool8({value})"}
        return narrow.get(dtype, value)

    def is_long(self, index: Index) -> bool:
        return any(self.program.buffers.get(n, _INT).dtype == "int64" for n in index.iterators())


_INT = Buffer("", "int32", (), "register")
