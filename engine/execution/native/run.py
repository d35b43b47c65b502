"""Run and time kernels for CPUs on this machine, in a child process with limits of time and memory.

What a kernel does wrong (a crash, a hang) costs the child alone.  Buffers end at the edge of a page that nothing may
touch, or begin there, so that a store or load outside of them is a crash.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np

from engine.cpu.nodes import CppSource, CpuKernel
from engine.execution.emulate.build import compiler_version, require_compiler
from engine.execution.native.build import flags_of, library, require_features, runner
from engine.execution.nodes import MEASURED, Failure, Timing
from engine.execution.statistics import summarise
from engine.support.child_processes import start_child, time_limit
from engine.support.errors import BadInput, MissingCapability
from engine.support.leftovers import MEMORY, temporary_folder
from engine.target.cpu import CpuTarget
from engine.target.host_cpu import host_cpu

Arrays = Mapping[str, np.ndarray]
LEAST = 200.0
"""Microseconds that a sample takes at least: a shorter kernel runs several times in it."""
_MEMORY_LIMIT = 4 << 30
_NO_LIBRARY, _NO_MEMORY = 93, 91


@dataclass(frozen=True, slots=True)
class NativeLaunch:
    """One call of a kernel: its library, and for each parameter the buffer and the byte in it."""

    library: Path
    entry: str
    is_prepared: bool
    """Whether the library has a function that prepares for it."""
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NativeBuffer:
    """Memory of a tensor."""

    bytes: int
    value: np.ndarray | None = None
    """What it holds at first; None for nothing that may be read."""


@dataclass(frozen=True, slots=True)
class NativeJob:
    """What a child process runs."""

    buffers: Sequence[NativeBuffer]
    sets: Sequence[Sequence[NativeLaunch]]
    """Launches that are timed together."""
    outputs: Sequence[int] = ()
    """Buffers whose bytes are read after the first run."""
    rounds: int = 0
    samples: int = 0
    flush: int = 0
    """Bytes to walk before each sample; 0 leaves the caches warm."""
    threads: int = 0
    """0: one for each core."""
    at_end: bool = False
    on_sample: Callable[[int, float], None] | None = field(default=None, compare=False)
    """Called with the set and the microseconds of each sample."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeRun:
    """What a child process said."""

    outputs: Mapping[int, bytes]
    samples: Sequence[Sequence[float]]
    """Microseconds, of each set in the order taken."""


def run_native(job: NativeJob, timeout: float) -> NativeRun | Failure:
    """Run a job; a Failure where a kernel crashed or hung.  Raises MissingCapability where this machine is at fault."""
    needed = sum(one.bytes for one in job.buffers)
    with temporary_folder(_roomy_folder(2 * needed)) as folder:
        _write_job(job, folder)
        threads = job.threads or int(host_cpu().cores.value)
        environment = {
            **os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true", "OMP_PLACES": "cores",
            "OMP_STACKSIZE": "64M", "OMP_DYNAMIC": "false",
        }  # fmt: skip
        samples: list[list[float]] = [[] for _ in job.sets]
        child = start_child(
            [str(runner()), str(folder / "job")], memory=_MEMORY_LIMIT + 3 * needed, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        has_run = False
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            with time_limit(child, timeout) as overdue, child.stdout as lines:
                for line in lines:
                    word, *rest = line.split()
                    has_run = has_run or word == "ran"
                    if word == "sample":
                        samples[int(rest[0])].append(float(rest[1]))
                        if job.on_sample is not None:
                            job.on_sample(int(rest[0]), float(rest[1]))
                child.wait()
        finally:
            with contextlib.suppress(OSError):
                child.kill()
            child.wait()
        if overdue.is_set():
            return Failure("hang", f"still running after {timeout:g} s; the process was ended")
        if child.returncode:
            return _failure(child.returncode, child.stderr.read(), has_run)
        return NativeRun({n: (folder / f"{n}.out").read_bytes() for n in job.outputs}, samples)


def _failure(status: int, said: str, has_run: bool) -> Failure:
    if status in (_NO_LIBRARY, _NO_MEMORY) or status == -signal.SIGKILL:
        reason = said.strip() or "ended the kernels' process, as for lack of memory"
        raise MissingCapability("run", "this machine", reason, "close other programs, or add memory")
    cause = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    when = "while it was timed" if has_run else "in its first run"
    return Failure("crash", f"the kernel's process ended with {cause} {when}")


def _write_job(job: NativeJob, folder: Path) -> None:
    lines = [f"placed {'end' if job.at_end else 'start'}"]
    for number, buffer in enumerate(job.buffers):
        path = "-"
        if buffer.value is not None:
            path = str(folder / f"{number}.in")
            np.ascontiguousarray(buffer.value).tofile(path)
        lines.append(f"buffer {buffer.bytes} {path}")
    kernels = list(dict.fromkeys((one.library, one.entry, one.is_prepared) for each in job.sets for one in each))
    lines += [f"kernel {path} call_{entry} {f'prepare_{entry}' if has else '-'}" for path, entry, has in kernels]
    for launches in job.sets:
        lines.append("set")
        for one in launches:
            places = " ".join(f"{buffer}:{offset}" for buffer, offset in one.places)
            number = kernels.index((one.library, one.entry, one.is_prepared))
            lines.append(f"launch {number} {len(one.places)} {places}")
    lines += [f"output {number} {folder / f'{number}.out'}" for number in job.outputs]
    lines.append(f"time {job.rounds} {job.samples} {LEAST} {job.flush}")
    (folder / "job").write_text("\n".join(lines) + "\n")


def _roomy_folder(needed: int) -> Path | None:
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * needed else None


def buffers_of(source: CppSource, arrays: Arrays) -> list[NativeBuffer]:
    """The memory of a kernel's buffers.  Raises BadInput for arrays that do not fit."""
    found = []
    for buffer in source.buffers:
        dtype = np.dtype(buffer.dtype)
        given = arrays.get(buffer.array)
        if given is None and buffer.read:
            raise BadInput("run", f"array {buffer.array}", "is read by the kernel and has no value")
        if given is not None and (given.dtype != dtype or given.size != buffer.elements):
            reason = f"is {given.dtype}[{given.size}], the kernel takes {buffer.dtype}[{buffer.elements}]"
            raise BadInput("run", f"array {buffer.array}", reason)
        # What is only written holds nothing at first: a kernel that leaves an element out must not find it there.
        found.append(NativeBuffer(buffer.elements * dtype.itemsize, given if buffer.read else None))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class NativeTiming:
    """A measured time, and the arrays that the kernel wrote in its first run."""

    timing: Timing
    outputs: Arrays


@dataclass(frozen=True, slots=True)
class Measuring:
    """How kernels are run and timed."""

    rounds: int = 10
    """0: they run once and have no time."""
    samples: int = 5
    """Of one kernel in each round."""
    is_cold: bool = False
    """Whether the caches are emptied before each sample."""
    threads: int = 0
    """0 for one on each core."""
    at_end: bool = False
    """Whether buffers end, and not begin, at the edge of a page that nothing may touch."""
    timeout: float = 120.0
    """Seconds for everything."""


USUAL = Measuring()
ONCE = Measuring(rounds=0)
"""A run without times."""


def measure_native(
    kernels: Sequence[tuple[CpuKernel, Arrays]], how: Measuring = USUAL,
    on_sample: Callable[[int, float], None] | None = None,
) -> tuple[NativeTiming, ...] | Failure:  # fmt: skip
    """Run kernels on given arrays and time them in interleaved rounds.

    on_sample: called with the number of the kernel and each time in microseconds.
    """
    buffers: list[NativeBuffer] = []
    sets: list[list[NativeLaunch]] = []
    firsts: list[int] = []
    outputs: list[int] = []
    for kernel, arrays in kernels:
        require_features(kernel.target)
        source = kernel.source
        own = [*buffers_of(source, arrays), *(NativeBuffer(size) for size in source.prepared)]
        firsts.append(len(buffers))
        places = tuple((len(buffers) + n, 0) for n in range(len(own)))
        sets.append([NativeLaunch(library(source, kernel.target), source.entry, bool(source.prepared), places)])
        outputs += [len(buffers) + n for n, buffer in enumerate(source.buffers) if buffer.written]
        buffers += own
    flush = int(host_cpu().l3_bytes.value * 2) if how.is_cold else 0
    job = NativeJob(buffers, sets, outputs, how.rounds, how.samples, flush, how.threads, how.at_end, on_sample)
    found = run_native(job, how.timeout)
    if isinstance(found, Failure):
        return found
    results = []
    for number, (kernel, _) in enumerate(kernels):
        made = {
            b.array: np.frombuffer(found.outputs[firsts[number] + n], b.dtype)
            for n, b in enumerate(kernel.source.buffers) if b.written
        }  # fmt: skip
        results.append(NativeTiming(timing_of(found.samples[number], how, kernel.target), made))
    return tuple(results)


def timing_of(samples: Sequence[float], how: Measuring, machine: CpuTarget) -> Timing:
    """Samples with what they were taken on."""
    if not samples:
        return Timing(MEASURED, 0.0)
    found = summarise(samples)
    environment = {
        "device": host_cpu().title, "threads": str(how.threads or int(host_cpu().cores.value)),
        "caches": "emptied before each sample" if how.is_cold else "warm", "date": date.today().isoformat(),
        "compiler": compiler_version(require_compiler()), "flags": " ".join(flags_of(machine)),
    }  # fmt: skip
    return Timing(MEASURED, found.median, tuple(samples), found.low, found.high, environment, how.rounds, found.noise)
