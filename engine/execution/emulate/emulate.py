"""Run a kernel's CUDA text on the CPU, in a child process with a time limit.

Arrays are exchanged as raw files in a temporary folder (in /dev/shm where there is room), which the child maps.
"""

from __future__ import annotations

import math
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.execution.emulate.build import executable
from engine.execution.nodes import ORDERS, Emulation, Finding, SiteCount, WarpAccess
from engine.support.child_processes import start_child
from engine.support.errors import BadInput, MissingCapability
from engine.support.leftovers import MEMORY, temporary_folder
from engine.tile.source import CudaSource, KernelLaunch, Parameter

Arrays = dict[str, np.ndarray]

_STATUS = struct.Struct("qii")
_MEMORY_LIMIT = 4 << 30
_MEMORY_PER_BYTE = 64
"""Address space of the child: a constant, and for each byte of the arrays a shadow cell of 32 bytes, its mask, more."""
_MEMORY_PER_WAITING_THREAD = 72 << 10
"""Likewise for each thread of a launch whose blocks wait for each other: its stack of 64 kB (runtime/threads.cpp)."""
_MEMORY_PER_WAITING_BYTE = 34
"""For each byte of such a block's shared memory: itself and a shadow cell."""
_NO_ROOM = {
    91: "has no memory for the kernel's emulation",
    92: "cannot map the kernel's arrays into memory",
    -signal.SIGKILL: "ended the kernel's emulation, as for lack of memory",
}
"""Exit statuses of the child (of runtime/main.cpp) for faults of this machine, not of the kernel."""


def emulate(
    source: CudaSource,
    arrays: Mapping[str, np.ndarray],
    *,
    blocks: Sequence[int] | None = None,
    order: str = "late",
    checked: bool = True,
    timeout: float = 120,
) -> tuple[Emulation, Arrays, Arrays]:
    """Run some blocks (None: all; by linear number, x fastest, on from one launch to the next) of a kernel.

    arrays: a value for every buffer that is read, with the buffer's dtype and number of elements.
    Returns the emulation; every written array, in the shape given for it or flat, with 0xff bytes where nothing was
    stored; and, if `checked`, which elements were stored (same shapes, bool; without checks the mapping is empty).
    A crash or a run past `timeout` seconds is a finding, as are the faults that checks look for.
    Where blocks of a launch wait for all others (`meets_as_grid`), all run if one does.
    Every pointer is aligned to exactly what the source demands of it and to no larger power of two: a caller of the
    kernel may pass such a pointer, and an access that needs more is found.  Workspaces are allocated for the run.
    Raises BadInput for arrays that do not fit, CompileError for text that is not C++, MissingCapability where there is
    no compiler, or no room for the arrays.
    """
    return _emulate(source, arrays, _RunOptions(blocks, order, checked, timeout))


def trace_warp(
    source: CudaSource,
    arrays: Mapping[str, np.ndarray],
    warp: tuple[int, int],
    *,
    blocks: Sequence[int],
    timeout: float = 120,
) -> Emulation:
    """Run some blocks as `emulate` does, and record the addresses of one warp, (block, number in it), in `accesses`."""
    return _emulate(source, arrays, _RunOptions(blocks, "late", True, timeout, warp))[0]


@dataclass(frozen=True, slots=True)
class _RunOptions:
    """As in `emulate` and `trace_warp`."""

    blocks: Sequence[int] | None
    order: str
    checked: bool
    timeout: float
    trace: tuple[int, int] | None = None
    """Block and warp."""


def _emulate(
    source: CudaSource, arrays: Mapping[str, np.ndarray], options: _RunOptions
) -> tuple[Emulation, Arrays, Arrays]:
    _check_request(source, arrays, options)
    if options.blocks is not None:
        options = replace(options, blocks=source.whole_grids(options.blocks))
    program = executable(source.text, [one.entry for one in source.launches], checked=options.checked)
    place = _roomy_folder(source)
    try:
        with temporary_folder(place) as folder:
            files = [_BufferFiles(buffer, folder / str(number)) for number, buffer in enumerate(source.buffers)]
            for file in files:
                file.fill(arrays)
            (folder / "job").write_text(_job_text(source, files, options))
            ending = _run_child(program, folder, options.timeout, _memory_limit(source))
            findings, counts, accesses, blocks_run = _read_report(folder / "result")
            outputs = {f.buffer.array: f.read_output(arrays) for f in files if f.buffer.written}
            masks = {f.buffer.array: f.read_mask(arrays) for f in files if f.buffer.written} if options.checked else {}
    except OSError as error:
        where = str(error.filename or place or tempfile.gettempdir())
        reason = f"a kernel cannot be emulated there: {error.strerror or error}"
        hint = "free some space there, or name other folders in TMPDIR and LOOMSCOPE_CACHE"
        raise MissingCapability("run", where, reason, hint) from error
    findings = (*findings, ending) if ending else findings
    return Emulation(options.order, blocks_run, source.blocks, findings, counts, accesses), outputs, masks


@dataclass(frozen=True, slots=True)
class _BufferFiles:
    """Files of one buffer: its data, and a mask with one byte an element that the child sets when it stores there."""

    buffer: Parameter
    place: Path
    """Path of both without a suffix."""

    @property
    def data(self) -> Path:
        return self.place.with_suffix(".data")

    @property
    def mask(self) -> Path:
        return self.place.with_suffix(".mask")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.buffer.dtype)

    def fill(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write both files before the run.

        The child maps a file at a page boundary; data that begins `alignment` bytes into it has just that alignment.
        """
        with self.data.open("wb") as file:
            file.write(bytes(self.buffer.alignment))
            file.flush()
            if self.buffer.array in arrays:
                np.ascontiguousarray(arrays[self.buffer.array]).tofile(file)
            else:
                np.full(self.buffer.elements * self.dtype.itemsize, 0xFF, np.uint8).tofile(file)
        with self.mask.open("wb") as file:
            if self.buffer.written:
                # Zeros are written, not a hole: on a full disk the child's store through the mapping would be a SIGBUS.
                np.zeros(self.buffer.elements, np.uint8).tofile(file)

    def read_output(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._reshape(np.fromfile(self.data, self.dtype, offset=self.buffer.alignment), arrays)

    def read_mask(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._reshape(np.fromfile(self.mask, np.bool_), arrays)

    def _reshape(self, flat: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        given = arrays.get(self.buffer.array)
        return flat if given is None else flat.reshape(given.shape)


def _check_request(source: CudaSource, arrays: Mapping[str, np.ndarray], options: _RunOptions) -> None:
    if options.order not in ORDERS:
        raise BadInput("run", f"order {options.order!r}", f"is not one of {', '.join(ORDERS)}")
    total = source.blocks
    outside = [block for block in options.blocks or () if not 0 <= block < total]
    if outside:
        raise BadInput("run", f"block {outside[0]}", f"the grid has blocks 0 to {total - 1}")
    for buffer in source.buffers:
        given = arrays.get(buffer.array)
        if given is None:
            if buffer.read:
                raise BadInput("run", f"array {buffer.array}", "is read by the kernel and has no value")
            continue
        if given.dtype != np.dtype(buffer.dtype) or given.size != buffer.elements:
            reason = f"is {given.dtype}[{given.size}], the kernel takes {buffer.dtype}[{buffer.elements}]"
            raise BadInput("run", f"array {buffer.array}", reason)


def _roomy_folder(source: CudaSource) -> Path | None:
    """/dev/shm if the buffers fit into half of its free space, else None: the default temporary folder."""
    needed = sum(b.elements * (np.dtype(b.dtype).itemsize + b.written) for b in source.buffers)
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * needed else None


def _memory_limit(source: CudaSource) -> int:
    buffers = sum(b.elements * np.dtype(b.dtype).itemsize for b in source.buffers)
    waiting = max((_waiting_blocks(launch) for launch in source.launches if launch.meets_as_grid), default=0)
    return _MEMORY_LIMIT + _MEMORY_PER_BYTE * (buffers + sum(w.bytes for w in source.workspaces)) + waiting


def _waiting_blocks(launch: KernelLaunch) -> int:
    """Address space of the blocks of a launch that are all under way at once."""
    shared = (launch.shared_bytes + 4096) * _MEMORY_PER_WAITING_BYTE
    return launch.blocks * (math.prod(launch.block) * _MEMORY_PER_WAITING_THREAD + shared)


def _job_text(source: CudaSource, files: Sequence[_BufferFiles], options: _RunOptions) -> str:
    """The job file, which runtime/main.cpp reads: one keyword and its values a line."""
    lines = [f"order {options.order}", f"launches {len(source.launches)}"]
    for launch in source.launches:
        lines.append("grid {} {} {}".format(*launch.grid))
        lines.append("block {} {} {}".format(*launch.block))
        lines.append(f"shared {launch.shared_bytes}")
    for file in files:
        b = file.buffer
        size = file.dtype.itemsize
        memory = f"{b.parameter} {b.elements * size} {size} {b.alignment}"
        lines.append(f"buffer {memory} {file.data} {file.mask} {int(b.read)} {int(b.written)}")
    for w in source.workspaces:
        memory = f"{w.parameter} {w.bytes} {np.dtype(w.dtype).itemsize} {w.alignment}"
        lines.append(f"workspace {memory} {int(w.zeroed)}")
    if options.trace is not None:
        lines.append("trace {} {}".format(*options.trace))
    if options.blocks is not None:
        lines.append("blocks " + " ".join(map(str, options.blocks)))
    return "\n".join(lines) + "\n"


def _run_child(program: Path, folder: Path, timeout: float, memory: int) -> Finding | None:
    """Run the child; a finding if it crashed or ran past the limit."""
    command = [str(program), str(folder / "job"), str(folder / "result"), str(folder / "status")]
    # The child writes nothing to its standard output.  The pipe is there because it closes when the child ends, which
    # wakes `communicate` at once; `wait` with a timeout polls at intervals of up to 50 ms.
    child = start_child(
        command, seconds=timeout, memory=memory,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        block, thread, line = _read_status(folder)
        return Finding("hang", line, f"block {block}, thread {thread} was still running after {timeout:g} s")
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    code = child.returncode
    if code == 0:
        return None
    if code in _NO_ROOM:
        raise MissingCapability("run", "this machine", _NO_ROOM[code], "close other programs, or add memory")
    block, thread, line = _read_status(folder)
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Finding("crash", line, f"block {block}, thread {thread}: the emulator ended with {cause}")


def _read_status(folder: Path) -> tuple[int, int, int]:
    """Block, thread and line that ran last, from the file that the child maps and updates (line 0 without checks)."""
    try:
        block, thread, line = _STATUS.unpack((folder / "status").read_bytes())
    except (OSError, struct.error):
        return 0, 0, 0
    return block, thread, line


def _read_report(path: Path) -> tuple[tuple[Finding, ...], tuple[SiteCount, ...], tuple[WarpAccess, ...], int]:
    """Findings, counts, traced accesses and the number of blocks run, from the child's result file."""
    findings: list[Finding] = []
    counts: list[SiteCount] = []
    accesses: list[WarpAccess] = []
    blocks_run = 0
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        match line.split("\t"):
            case ["finding", kind, at, other, message]:
                findings.append(Finding(kind, int(at), message, int(other)))
            case ["count", at, kind, *figures]:
                counts.append(SiteCount(int(at), kind, *map(int, figures)))
            case ["lanes", at, kind, width, buffer, touched, offsets]:
                where = tuple(map(int, offsets.split()))
                accesses.append(WarpAccess(int(at), kind, int(width), buffer, int(touched), where))
            case ["done", number]:
                blocks_run = int(number)
    return tuple(findings), tuple(counts), tuple(accesses), blocks_run
