"""The CUDA printer: a tile program as text that people read, with a line map.

Registers of 16-bit floats are float variables; `round_f16` and `round_bf16` mark every place where a value is rounded.
Every operation writes its own text; here are the header, the parameters and the map of shared memory around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.tile.nodes import BLOCK, THREAD, Buffer, Declare, Load, TileOp, TileProgram, operations
from engine.tile.nodes.expressions import STORED
from engine.tile.nodes.writer import NAMES, CudaWriter, RegisterForms, register_type
from engine.tile.source import CudaSource, GlobalWorkspace, KernelLaunch, Parameter
from engine.tile.storage import alignments, shared_bytes_of, shared_map, workspaces

ARENA = "shared_memory"


def print_cuda(program: TileProgram) -> CudaSource:
    """The CUDA text of a tile program."""
    texts, pointers = _write(program)
    first, *later = (_launch(one) for one in program.launches)
    return CudaSource(
        text="\n".join(line for out in texts for line in out.text) + "\n",
        entry=first.entry, grid=first.grid, block=first.block, shared_bytes=first.shared_bytes,
        buffers=pointers.buffers,
        lines=tuple(line for out in texts for line in out.lines),
        footprints=first.footprints, team=first.team,
        workspaces=pointers.workspaces,
        later=tuple(later),
        resident=first.resident,
    )  # fmt: skip


def _launch(program: TileProgram) -> KernelLaunch:
    grid, block = (program.grid, 1, 1), (program.threads, 1, 1)
    shared = shared_map(program.buffers)[1]
    resident = max(1, program.together) if program.meets_as_grid else 0
    return KernelLaunch(program.name, grid, block, shared, program.footprints, program.team, resident)


def operation_lines(program: TileProgram) -> Sequence[tuple[TileOp, range]]:
    """Each operation of a program's first launch with its lines of the CUDA text, from 1."""
    return _write(program)[0][0].spans


@dataclass(frozen=True, slots=True)
class _Pointers:
    """What every launch of a kernel is given, in order."""

    buffers: tuple[Parameter, ...]
    workspaces: tuple[GlobalWorkspace, ...]


def _pointers(launches: Sequence[TileProgram]) -> _Pointers:
    """The buffers and workspaces that some launch uses, each as the most demanding one needs it."""
    buffers: dict[str, Parameter] = {}
    own: dict[str, GlobalWorkspace] = {}
    for program in launches:
        aligned = alignments(program)
        for b in program.buffers.values():
            is_read, is_written = b.name in program.read, b.name in program.written
            if b.scope == "global" and (is_read or is_written):
                known = buffers.get(b.name)
                buffers[b.name] = Parameter(
                    f"{b.name}_", b.name, b.dtype, b.elements,
                    read=is_read or (known is not None and known.read),
                    written=is_written or (known is not None and known.written),
                    alignment=max(aligned[b.name], known.alignment if known else 0),
                )  # fmt: skip
        for w in workspaces(program):
            same = own.get(w.name, w)
            own[w.name] = replace(w, alignment=max(w.alignment, same.alignment), zeroed=w.zeroed or same.zeroed)
    order = [name for name in launches[0].buffers if name in buffers]
    return _Pointers(tuple(buffers.pop(n) for n in order) + tuple(buffers.values()), tuple(own.values()))


def _write(program: TileProgram) -> tuple[list[CudaWriter], _Pointers]:
    """The lines of each launch, and what all of them are given."""
    pointers = _pointers(program.launches)
    if not program.later:
        return [_write_launch(program, pointers, "", is_first=True)], pointers
    count = len(program.launches)
    return [
        _write_launch(one, pointers, f"launch {n} of {count}", is_first=n == 1)
        for n, one in enumerate(program.launches, 1)
    ], pointers


def _write_launch(program: TileProgram, pointers: _Pointers, number: str, is_first: bool) -> CudaWriter:
    """The function of one launch.  number: which of several it is, "" of one alone."""
    out = CudaWriter(program.buffers, register_forms(program))
    out.extents |= {BLOCK: program.grid, THREAD: program.threads}
    body = CudaWriter(out.buffers, out.forms, depth=1, extents=out.extents)
    body.body(program.body)
    offsets, shared_bytes = shared_map(program.buffers)
    if not is_first:
        out.line("")
    if number:
        out.line(f"// {number}:")
    for line in program.title:
        out.line(f"// {line}".rstrip())
    if is_first:
        out.line('#include "loom.cuh"')
    out.line("")
    if not number:
        _write_sizes(out, program, shared_bytes)
    together = f", {program.together}" if program.together else ""
    out.line(f'extern "C" __global__ void __launch_bounds__({program.threads if number else "THREADS"}{together})')
    parameters = [_parameter(program, buffer) for buffer in pointers.buffers]
    # Other blocks store what this one loads from a workspace: no __restrict__.
    parameters += [f"{STORED[w.dtype]}* {w.parameter}" for w in pointers.workspaces]
    out.line(f"{program.name}({', '.join(parameters)})")
    with out.block("{"):
        if number:  # entries of one text have sizes of the same names
            _write_sizes(out, program, shared_bytes)
        for buffer in pointers.buffers:
            if buffer.array in program.read | program.written:
                _write_accessor(out, program, program.buffers[buffer.array])
        for workspace in workspaces(program):
            zeros = ", zeros before and after" if workspace.zeroed else ""
            about = ", memory of these launches alone" if number else ", memory of this launch alone"
            _write_accessor(out, program, program.buffers[workspace.name], about + zeros)
        if shared_bytes:
            named = set(NAMES.findall("\n".join(body.text)))
            _write_shared(out, {name: offset for name, offset in offsets.items() if name in named})
        out.line(f"const int {BLOCK} = blockIdx.x;")
        out.line(f"const int {THREAD} = threadIdx.x;")
        out.line("")
        out.append(body)
    return out


def _write_sizes(out: CudaWriter, program: TileProgram, shared_bytes: int) -> None:
    """The sizes that the text relies on."""
    sizes = {**program.constants, "BLOCKS": program.grid, "THREADS": program.threads}
    sizes |= {"SHARED_BYTES": shared_bytes} if shared_bytes else {}
    # NVRTC keeps variables of the file, even constant ones, in the module's memory.
    kind = "int" if max(sizes.values()) < 2**31 else "i64"
    with out.block(f"enum : {kind} {{", tail="};"):
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


def _parameter(program: TileProgram, buffer: Parameter) -> str:
    const = "" if buffer.array in program.written else "const "
    return f"{const}{STORED[buffer.dtype]}* __restrict__ {buffer.parameter}"


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
        # An empty pack holds zeros: what is another number outside a mask is chosen element by element.
        if isinstance(op, Load) and op.width > 1 and op.mask and op.otherwise and op.otherwise.value != 0:
            widths.setdefault(op.slot.buffer, set()).add(0)
        for slot, width in op.vectors:
            is_whole = len(slot.indices) == len(program.buffers[slot.buffer].shape) - 1
            widths.setdefault(slot.buffer, set()).add(width if is_whole else 0)
    # An access of a part of the axis needs an array: a pack is only moved whole.
    whole = {program.buffers[name] for name, found in widths.items() if found == {program.buffers[name].shape[-1]}}
    # Other types are widened on their way into registers, element by element.
    return frozenset(buffer.name for buffer in whole if register_type(buffer) == STORED[buffer.dtype])
