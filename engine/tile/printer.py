"""The CUDA printer: a tile program as text that people read, with a line map.

Registers of 16-bit floats are float variables; `round_f16` and `round_bf16` mark every place where a value is rounded.
Every operation writes its own text; here are the header, the parameters and the map of shared memory around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.tile.nodes import BLOCK, THREAD, Buffer, Declare, Load, TileOp, TileProgram, operations
from engine.tile.nodes.expressions import HELD, STORED
from engine.tile.nodes.writer import CudaWriter, RegisterForms
from engine.tile.source import CudaSource, Parameter
from engine.tile.storage import alignments, shared_bytes_of, shared_map, workspaces

ARENA = "shared_memory"


def print_cuda(program: TileProgram) -> CudaSource:
    """The CUDA text of a tile program."""
    out, used = _write(program)
    aligned = alignments(program)
    return CudaSource(
        text="\n".join(out.text) + "\n",
        entry=program.name,
        grid=(program.grid, 1, 1),
        block=(program.threads, 1, 1),
        shared_bytes=shared_map(program.buffers)[1],
        buffers=tuple(
            Parameter(
                f"{b.name}_", b.name, b.dtype, b.elements, read=b.name in program.read,
                written=b.name in program.written, alignment=aligned[b.name],
            )
            for b in used
        ),
        lines=tuple(out.lines),
        footprints=program.footprints,
        team=program.team,
        workspaces=workspaces(program),
    )  # fmt: skip


def operation_lines(program: TileProgram) -> Sequence[tuple[TileOp, range]]:
    """Each operation of a program with its lines of the CUDA text, from 1."""
    return _write(program)[0].spans


def _write(program: TileProgram) -> tuple[CudaWriter, Sequence[Buffer]]:
    """The lines of a program, and the buffers that are its parameters beside workspaces."""
    out = CudaWriter(program.buffers, register_forms(program))
    used = [b for b in program.buffers.values() if b.scope == "global" and b.name in program.read | program.written]
    own = workspaces(program)
    offsets, shared_bytes = shared_map(program.buffers)
    _write_header(out, program, shared_bytes)
    pointers = [*used, *(program.buffers[w.name] for w in own)]
    together = f", {program.together}" if program.together else ""
    out.line(f'extern "C" __global__ void __launch_bounds__(THREADS{together})')
    out.line(f"{program.name}({', '.join(_parameter(program, b) for b in pointers)})")
    with out.block("{"):
        for buffer in used:
            _write_accessor(out, program, buffer)
        for workspace in own:
            zeros = ", zeros before and after" if workspace.zeroed else ""
            _write_accessor(out, program, program.buffers[workspace.name], f", memory of this launch alone{zeros}")
        if shared_bytes:
            _write_shared(out, offsets)
        out.line(f"const int {BLOCK} = blockIdx.x;")
        out.line(f"const int {THREAD} = threadIdx.x;")
        out.line("")
        out.body(program.body)
    return out, used


def _write_header(out: CudaWriter, program: TileProgram, shared_bytes: int) -> None:
    """What the kernel computes, in which order, and the sizes its text relies on."""
    for line in program.title:
        out.line(f"// {line}".rstrip())
    out.line('#include "loom.cuh"')
    out.line("")
    sizes = {**program.constants, "BLOCKS": program.grid, "THREADS": program.threads}
    sizes |= {"SHARED_BYTES": shared_bytes} if shared_bytes else {}
    # NVRTC keeps variables of the file, even constant ones, in the module's memory.
    with out.block("enum : int {", tail="};"):
        for name, value in sizes.items():
            out.line(f"{name} = {value},")
    for claim, reason in program.assertions:
        out.line(f'static_assert({claim}, "{reason}");')
    out.line("")


def _write_shared(out: CudaWriter, offsets: Mapping[str, int]) -> None:
    """The shared-memory map: one array, cut by byte offsets."""
    out.line("LOOM_SHARED(SHARED_BYTES);")
    for name, offset in offsets.items():
        buffer = out.buffers[name]
        place = f"{ARENA} + {offset}" if offset else ARENA
        last = offset + shared_bytes_of(buffer) - 1
        kind = f"Shared<{STORED[buffer.dtype]}>"
        out.line(f"const {kind} {name}({place}, {buffer.elements});  // bytes {offset} to {last}")


def _parameter(program: TileProgram, buffer: Buffer) -> str:
    if buffer.scope == "workspace":  # no __restrict__: other blocks store what this one loads
        return f"{STORED[buffer.dtype]}* {buffer.name}_"
    const = "" if buffer.name in program.written else "const "
    return f"{const}{STORED[buffer.dtype]}* __restrict__ {buffer.name}_"


def _write_accessor(out: CudaWriter, program: TileProgram, buffer: Buffer, about: str = "") -> None:
    const = "const " if buffer.scope == "global" and buffer.name not in program.written else ""
    kind = f"Global<{const}{STORED[buffer.dtype]}>"
    shape = " x ".join(map(str, buffer.shape)) or "scalar"
    out.line(f"const {kind} {buffer.name}({buffer.name}_, {buffer.elements});  // {shape}{about}")


def register_forms(program: TileProgram) -> RegisterForms:
    """The forms that all operations together allow."""
    ops = tuple(operations(program.body))
    writes = Counter(name for op in ops for name in op.buffers_written)
    return RegisterForms(
        changed=frozenset(writes),
        declared=frozenset(op.buffer for op in ops if isinstance(op, Declare)),
        packs=_packs(program),
        loaded_once=frozenset(op.slot.buffer for op in ops if isinstance(op, Load) and writes[op.slot.buffer] == 1),
    )


def _packs(program: TileProgram) -> frozenset[str]:
    """Registers held as they are stored, whose vector accesses all cover exactly the last axis."""
    widths: dict[str, set[int]] = {}
    for op in operations(program.body):
        for slot, width in op.vectors:
            is_whole = len(slot.indices) == len(program.buffers[slot.buffer].shape) - 1
            widths.setdefault(slot.buffer, set()).add(width if is_whole else 0)
    # An access of a part of the axis needs an array: a pack is only moved whole.
    whole = {program.buffers[name] for name, found in widths.items() if found == {program.buffers[name].shape[-1]}}
    # 16-bit floats are widened on their way into registers, element by element.
    return frozenset(buffer.name for buffer in whole if HELD[buffer.dtype] == STORED[buffer.dtype])
