"""Measure a kernel on the GPU, with PyCUDA in a child process.

A kernel that crashes or hangs poisons its CUDA context for good; in a child process that costs one trial, never the
run.  The child (`engine.execution.measure_worker`) gets one JSON request on its standard input and the arrays as raw
files; it answers with one JSON object a line and writes the results as raw files, for the caller to compare.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.execution.nodes import MEASURED, Compiled, Failure, GpuState, Timing
from engine.execution.nvrtc import nvrtc_version
from engine.execution.statistics import summarise
from engine.support.child_processes import ROOT, start_child, time_limit
from engine.support.errors import BadInput, MissingCapability
from engine.support.leftovers import temporary_folder
from engine.support.serialization import from_json
from engine.tile.source import CudaSource

_WORKER = (sys.executable, "-P", "-m", "engine.execution.measure_worker")
_PROC_GPUS = Path("/proc/driver/nvidia/gpus")
ROUNDS, SAMPLES = 10, 5
"""Rounds of a measurement, and the samples of one kernel in each."""
GPU_HINT = "install an NVIDIA driver, the CUDA toolkit and PyCUDA: pip install pycuda"


@dataclass(frozen=True, slots=True, eq=False)
class MeasureJob:
    """A compiled kernel with its inputs, to be measured."""

    source: CudaSource
    compiled: Compiled
    arrays: Mapping[str, np.ndarray]
    """Value of every buffer that the kernel reads, by array name."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks while a measurement runs."""

    on_sample: Callable[[int, float], None] | None = None
    """Called with the number of the kernel and each time in microseconds."""
    on_state: Callable[[GpuState], None] | None = None
    """Called after each round, where NVML can be read."""


@dataclass(slots=True)
class _Transcript:
    """The messages of the measuring process so far."""

    samples: list[list[float]]
    """Of each kernel, in the order taken."""
    states: list[GpuState]
    last: dict[str, Any]
    """The last object; empty when it wrote none."""


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A measured time, and the arrays that the kernel wrote in its first launch."""

    timing: Timing
    outputs: Mapping[str, np.ndarray]
    """Array of the group's program -> its value after one launch on the given arrays."""


def gpu_name() -> str | None:
    """The first GPU's name, None without one.  CUDA is not initialised: the driver's files or nvidia-smi are read."""
    for information in sorted(_PROC_GPUS.glob("*/information")):
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Model:"):
                return line.removeprefix("Model:").strip()
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = answer.stdout.strip().splitlines() if answer.returncode == 0 else []
    return names[0].strip() if names else None


def require_pycuda() -> None:
    """Raise MissingCapability where PyCUDA is not installed; whether there is a usable GPU, the child process finds."""
    if importlib.util.find_spec("pycuda") is None:
        reason = "PyCUDA is not installed" if gpu_name() else "there is no NVIDIA GPU, and PyCUDA is not installed"
        raise MissingCapability("measure", "this machine", reason, GPU_HINT)


def measure_kernel(
    job: MeasureJob,
    *,
    on_sample: Callable[[float], None] | None = None,
    on_state: Callable[[GpuState], None] | None = None,
    timeout: float = 60.0,
    worker: Sequence[str] = _WORKER,
) -> Measurement | Failure:
    """Run one kernel on the first GPU and time it, as `measure_kernels` does.

    on_sample: called with each time in microseconds as it comes.
    """
    seen = None if on_sample is None else (lambda _, microseconds: on_sample(microseconds))
    found = measure_kernels([job], listeners=Listeners(seen, on_state), timeout=timeout, worker=worker)
    return found if isinstance(found, Failure) else found[0]


def measure_kernels(
    jobs: Sequence[MeasureJob],
    *,
    rounds: int = ROUNDS,
    samples: int = SAMPLES,
    listeners: Listeners = Listeners(),
    timeout: float = 60.0,
    worker: Sequence[str] = _WORKER,
) -> tuple[Measurement, ...] | Failure:
    """Run kernels on the first GPU and time them in interleaved rounds, so that their times can be compared.

    rounds, samples: in each round every kernel gives `samples` times.
    timeout: seconds for everything, the process's start included.
    Raises MissingCapability without a GPU or PyCUDA, and where the GPU or its driver cannot run what was compiled;
    BadInput for an array that does not fit its buffer.  What a kernel itself does wrong is a `Failure` of all.
    """
    with temporary_folder() as place:
        folders = [place / str(n) for n in range(len(jobs))]
        kernels = [_request(job, folder) for job, folder in zip(jobs, folders, strict=True)]
        request = {"kernels": kernels, "rounds": rounds, "samples": samples, "compiler": nvrtc_version() or ""}
        said = _converse(worker, request, place / "log", timeout, listeners)
        if isinstance(said, Failure):
            return said
        return tuple(
            Measurement(_timing(said, number, rounds), _outputs(job.source, folder))
            for number, (job, folder) in enumerate(zip(jobs, folders, strict=True))
        )


def _request(job: MeasureJob, folder: Path) -> dict[str, Any]:
    """Write the cubin and the arrays into a folder; the part of the request that describes them."""
    source = job.source
    folder.mkdir()
    (folder / "kernel.cubin").write_bytes(job.compiled.cubin)
    buffers = []
    for n, buffer in enumerate(source.buffers):
        if buffer.read:
            value = job.arrays.get(buffer.array)
            if value is None:
                raise BadInput("measure", buffer.array, "the kernel reads this array and no value was given")
            if value.size != buffer.elements:
                raise BadInput("measure", buffer.array, f"{buffer.elements:,} elements are read, {value.size:,} given")
            np.ascontiguousarray(value, dtype=buffer.dtype).tofile(folder / f"{n}.in")
        size = buffer.elements * np.dtype(buffer.dtype).itemsize
        own = {"name": buffer.array, "alignment": buffer.alignment}
        buffers.append({**own, "bytes": size, "read": buffer.read, "written": buffer.written})
    workspaces = [
        {"name": w.name, "alignment": w.alignment, "bytes": w.bytes, "zeroed": w.zeroed} for w in source.workspaces
    ]
    return {
        "folder": str(folder), "launches": [one.to_launch() for one in source.launches], "buffers": buffers,
        "workspaces": workspaces, "architecture": job.compiled.architecture,
    }  # fmt: skip


def _outputs(source: CudaSource, folder: Path) -> dict[str, np.ndarray]:
    return {
        buffer.array: np.fromfile(folder / f"{n}.out", dtype=buffer.dtype)
        for n, buffer in enumerate(source.buffers)
        if buffer.written
    }


def _converse(
    worker: Sequence[str], request: dict[str, Any], log: Path, timeout: float, listeners: Listeners
) -> _Transcript | Failure:
    """Send the request and follow the answer: all messages, or why there are no times."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with log.open("wb") as errors:
        process = start_child(
            worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PYTHONPATH": path}, cwd=ROOT,
        )  # fmt: skip
    try:
        with time_limit(process, timeout) as overdue:
            said = _follow(process, request, listeners)
            process.wait()
    finally:
        process.kill()
        process.wait()
    if overdue.is_set():
        return Failure("hang", f"no answer within {timeout:g} s; the process was ended")
    return _outcome(said, process.returncode, log.read_text(encoding="utf-8", errors="replace"))


def _follow(process: subprocess.Popen[str], request: dict[str, Any], listeners: Listeners) -> _Transcript:
    """Read the messages as they come, and call the listeners."""
    said = _Transcript([[] for _ in request["kernels"]], [], {})
    assert process.stdin is not None
    assert process.stdout is not None
    # A process that ended before it read the request: its exit status and log say why.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.close()
    with process.stdout as lines:
        for line in lines:
            said.last = message = json.loads(line)
            if message["event"] == "sample":
                said.samples[message["kernel"]].append(message["microseconds"])
                if listeners.on_sample is not None:
                    listeners.on_sample(message["kernel"], message["microseconds"])
            elif message["event"] == "state":
                said.states.append(from_json(GpuState, message["state"]))
                if listeners.on_state is not None:
                    listeners.on_state(said.states[-1])
    return said


def _outcome(said: _Transcript, status: int, log: str) -> _Transcript | Failure:
    last = said.last
    match last.get("event"):
        case "done":
            return said
        case "missing":
            raise MissingCapability("measure", "this machine", last["message"], GPU_HINT)
        case "unfit":
            raise MissingCapability("measure", "this machine's GPU", last["message"], last["hint"])
        case "failure":
            return Failure(last["kind"], last["message"])
        case _:
            ending = log.strip().splitlines()[-1:] or ["no message"]
            return Failure("crash", f"the measuring process ended with status {status}: {ending[0]}")


def _timing(said: _Transcript, number: int, rounds: int) -> Timing:
    samples, states = tuple(said.samples[number]), tuple(said.states)
    found = summarise(samples, [state.sm_clock for state in states])
    environment = said.last["environments"][number]
    return Timing(MEASURED, found.median, samples, found.low, found.high, environment, rounds, found.noise, states)
