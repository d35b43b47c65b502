"""Running a kernel's CUDA text on the CPU, in a child process with a time limit.

Data goes through raw files in a temporary folder (in memory where there is room), which the child maps.
"""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.execution.emulate.build import executable
from engine.execution.nodes import Emulation, Finding, SiteCount, WarpAccess
from engine.support.errors import BadInput, MissingCapability
from engine.tile.source import CudaSource, Parameter

ORDERS = ("late", "early")
"""Threads forward and copies landing at their wait; threads, warps and blocks backward and copies landing at issue."""

Arrays = dict[str, np.ndarray]

_STATUS = struct.Struct("qii")
_MEMORY = Path("/dev/shm")
_NO_ROOM = {91: "has no memory for the kernel's emulation", 92: "cannot map the kernel's arrays into memory"}
"""Exit codes of runtime/main.cpp that say nothing of the kernel."""


def emulate(
    source: CudaSource,
    arrays: Mapping[str, np.ndarray],
    *,
    blocks: Sequence[int] | None = None,
    order: str = "late",
    checked: bool = True,
    timeout: float = 120,
    trace: tuple[int, int] | None = None,
) -> tuple[Emulation, Arrays, Arrays]:
    """Run some blocks (None: all; by linear number, x fastest) of a kernel.

    arrays: a value for every buffer that is read, with the buffer's dtype and number of elements.  trace: a block and
    one of its warps whose addresses are told; only a checked run sees them.
    Returns the emulation; every written array, in the shape given for it or flat, with 0xff bytes where nothing was
    stored; and, if `checked`, which elements were stored (same shapes, bool; without checks the mapping is empty).
    A crash or a run past `timeout` seconds is a finding, as are the faults that checks look for.
    Every pointer is a multiple of the alignment that the source names for it and of no larger power of two, as whoever
    launches may choose it; workspaces are made for the run.
    Raises BadInput for arrays that do not fit, CompileError for text that is not C++, MissingCapability where there is
    no compiler, or no room for the arrays.
    """
    total = source.grid[0] * source.grid[1] * source.grid[2]
    _check_request(source, arrays, blocks, order, total)
    program = executable(source.text, source.entry, checked=checked)
    place = _roomy_folder(source)
    try:
        return _emulated(program, source, arrays, place, (blocks, order, checked, timeout, trace))
    except OSError as error:
        where = str(error.filename or place or tempfile.gettempdir())
        reason = f"a kernel cannot be emulated there: {error.strerror or error}"
        hint = "free some space there, or name other folders in TMPDIR and LOOMSCOPE_CACHE"
        raise MissingCapability("run", where, reason, hint) from error


_Request = tuple[Sequence[int] | None, str, bool, float, tuple[int, int] | None]
"""Blocks, order, checked, timeout and trace, as in `emulate`."""


def _emulated(
    program: Path, source: CudaSource, arrays: Mapping[str, np.ndarray], place: Path | None, request: _Request
) -> tuple[Emulation, Arrays, Arrays]:
    blocks, order, checked, timeout, trace = request
    total = source.grid[0] * source.grid[1] * source.grid[2]
    with tempfile.TemporaryDirectory(prefix="loomscope-", dir=place) as folder:
        files = [_Files.of(Path(folder), number, buffer) for number, buffer in enumerate(source.buffers)]
        for file in files:
            file.fill(arrays)
        job = Path(folder) / "job"
        job.write_text(_job(source, files, blocks, order, trace))
        ending = _run(program, Path(folder), timeout)
        findings, counts, accesses, blocks_run = _report(Path(folder) / "result")
        if ending:
            findings = (*findings, ending)
        outputs = {f.buffer.array: f.output(arrays) for f in files if f.buffer.written}
        masks = {f.buffer.array: f.written(arrays) for f in files if f.buffer.written} if checked else {}
    return Emulation(order, blocks_run, total, findings, counts, accesses), outputs, masks


@dataclass(frozen=True, slots=True)
class _Files:
    """One buffer's files: its bytes, and one byte for each element that tells whether it was stored to."""

    buffer: Parameter
    data: Path
    mask: Path

    @classmethod
    def of(cls, folder: Path, number: int, buffer: Parameter) -> _Files:
        return cls(buffer, folder / f"{number}.data", folder / f"{number}.mask")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.buffer.dtype)

    def fill(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The bytes lie so far behind the start of the file, which the child maps at a page, as they are aligned."""
        with self.data.open("wb") as file:
            file.write(bytes(self.buffer.alignment))
            file.flush()
            if self.buffer.array in arrays:
                np.ascontiguousarray(arrays[self.buffer.array]).tofile(file)
            else:
                np.full(self.buffer.elements * self.dtype.itemsize, 0xFF, np.uint8).tofile(file)
        with self.mask.open("wb") as file:
            if self.buffer.written:
                # The room is taken now: the child writes through a mapping, where a full disk would be a crash.
                np.zeros(self.buffer.elements, np.uint8).tofile(file)

    def output(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._shaped(np.fromfile(self.data, self.dtype, offset=self.buffer.alignment), arrays)

    def written(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._shaped(np.fromfile(self.mask, np.bool_), arrays)

    def _shaped(self, flat: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        given = arrays.get(self.buffer.array)
        return flat if given is None else flat.reshape(given.shape)


def _check_request(
    source: CudaSource, arrays: Mapping[str, np.ndarray], blocks: Sequence[int] | None, order: str, total: int
) -> None:
    if order not in ORDERS:
        raise BadInput("run", f"order {order!r}", f"is not one of {', '.join(ORDERS)}")
    outside = [block for block in blocks or () if not 0 <= block < total]
    if outside:
        raise BadInput("run", f"block {outside[0]}", f"the grid has blocks 0 to {total - 1}")
    for buffer in source.buffers:
        given = arrays.get(buffer.array)
        if given is None:
            if buffer.read:
                raise BadInput("run", f"array {buffer.array}", "is read by the kernel and has no value")
            continue
        if given.dtype != np.dtype(buffer.dtype) or given.size != buffer.elements:
            raise BadInput(
                "run", f"array {buffer.array}",
                f"is {given.dtype}[{given.size}], the kernel takes {buffer.dtype}[{buffer.elements}]",
            )  # fmt: skip


def _roomy_folder(source: CudaSource) -> Path | None:
    """The memory file system where the buffers fit into half of what is free; None for the usual one."""
    needed = sum(b.elements * (np.dtype(b.dtype).itemsize + b.written) for b in source.buffers)
    return _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * needed else None


def _job(
    source: CudaSource,
    files: Sequence[_Files],
    blocks: Sequence[int] | None,
    order: str,
    trace: tuple[int, int] | None,
) -> str:
    """What runtime/main.cpp reads."""
    lines = [
        f"order {order}",
        "grid {} {} {}".format(*source.grid),
        "block {} {} {}".format(*source.block),
        f"shared {source.shared_bytes}",
    ]
    for file in files:
        b = file.buffer
        size = file.dtype.itemsize
        memory = f"{b.parameter} {b.elements * size} {size} {b.alignment}"
        lines.append(f"buffer {memory} {file.data} {file.mask} {int(b.read)} {int(b.written)}")
    for w in source.workspaces:
        memory = f"{w.parameter} {w.bytes} {np.dtype(w.dtype).itemsize} {w.alignment}"
        lines.append(f"workspace {memory} {int(w.zeroed)}")
    if trace is not None:
        lines.append("trace {} {}".format(*trace))
    if blocks is not None:
        lines.append("blocks " + " ".join(map(str, blocks)))
    return "\n".join(lines) + "\n"


def _run(program: Path, folder: Path, timeout: float) -> Finding | None:
    """Run the child; a finding if it did not come to its own end."""
    command = [str(program), str(folder / "job"), str(folder / "result"), str(folder / "status")]
    # The pipe closes when the child ends, which wakes the parent at once; `wait` would poll.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        block, thread, line = _status(folder)
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
    block, thread, line = _status(folder)
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Finding("crash", line, f"block {block}, thread {thread}: the emulator ended with {cause}")


def _status(folder: Path) -> tuple[int, int, int]:
    """Block, thread and line that ran last (the line is 0 without checks)."""
    try:
        block, thread, line = _STATUS.unpack((folder / "status").read_bytes())
    except (OSError, struct.error):
        return 0, 0, 0
    return block, thread, line


def _report(
    path: Path,
) -> tuple[tuple[Finding, ...], tuple[SiteCount, ...], tuple[WarpAccess, ...], int]:
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
