"""One model in ONNX Runtime and in our kernels, in one process, on the same threads and values, taking turns."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import engine
from engine.cpu.nodes import CpuKernel
from engine.execution.native.build import library
from engine.execution.reference import input_values
from engine.graph.nodes import DTYPES
from engine.recipe import Recipe

ALIGNED = 64
SPINNING = 0.05
"""Seconds after which threads of both sleep that had waited for more work, and taken a core from the other side:
those of ONNX Runtime 1.32 took 25 ms on a Xeon."""
TURN = 0.1
"""Seconds of one side's turn."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Times in microseconds, and the largest difference of results as a part of the largest result."""

    ours: Sequence[float]
    theirs: Sequence[float]
    difference: float


class OurModel:
    """All launches of a plan as calls in this process; an array takes memory that no later launch reads, where there is
    some."""

    def __init__(self, plan: engine.FusionPlan, recipe: Recipe, values: dict[str, np.ndarray]) -> None:
        assert plan.source is not None and not plan.without_kernel
        self.graph, self._values = plan.source, values
        self.memory: dict[str, np.ndarray] = {}
        self._free: list[np.ndarray] = []
        self._kept: list[object] = []
        self.kernels: dict[str, CpuKernel] = {}
        self.calls: list[tuple[Callable[[object], None], object]] = []
        last = {
            array: number for number, launch in enumerate(plan.launches)
            for array in plan.group(launch.group).instances[launch.instance].arrays.values()
        }  # fmt: skip
        for number, launch in enumerate(plan.launches):
            group = plan.group(launch.group)
            if group.name not in self.kernels:
                kernel = engine.compile(group, recipe)
                assert isinstance(kernel, CpuKernel)
                self.kernels[group.name] = kernel
            self._add(self.kernels[group.name], launch.instance)
            own = group.instances[launch.instance].arrays.values()
            unread = {array for array in own if last[array] == number and array in self.memory}
            self._free += [self.memory[array] for array in sorted(unread - {*values, *self.graph.outputs})]

    def _add(self, kernel: CpuKernel, instance: int) -> None:
        own, source = kernel.group.instances[instance], kernel.source
        loaded = ctypes.CDLL(str(library(source, kernel.target)))
        places = []
        for buffer in source.buffers:
            part, size = own.parts.get(buffer.array), DTYPES[buffer.dtype]
            elements = part.whole if part else buffer.elements
            memory = self._tensor(own.arrays[buffer.array], elements * size)
            places.append(memory.ctypes.data + (part.first * size if part else 0))
        for size in source.prepared:
            self._kept.append(aligned(size))
            places.append(self._kept[-1].ctypes.data)  # type: ignore[attr-defined]
        pointers = (ctypes.c_void_p * len(places))(*places)
        if source.prepared:
            getattr(loaded, f"prepare_{source.entry}")(pointers)
        call = getattr(loaded, f"call_{source.entry}")
        call.restype = None
        self.calls.append((call, pointers))

    def _tensor(self, name: str, size: int) -> np.ndarray:
        if name not in self.memory:
            declared = self.graph.tensors.get(name)
            size = declared.bytes if declared else size
            if name in self._values:
                memory = aligned(size)
                memory[:] = np.ascontiguousarray(self._values[name]).reshape(-1).view(np.uint8)
            elif name in self.graph.outputs:
                memory = aligned(size)
            else:
                memory = self._take(size)
            self.memory[name] = memory
        return self.memory[name]

    def _take(self, size: int) -> np.ndarray:
        """The least free memory of so many bytes, or new memory."""
        fitting = [n for n, memory in enumerate(self._free) if memory.nbytes >= size]
        return self._free.pop(min(fitting, key=lambda n: self._free[n].nbytes)) if fitting else aligned(size)

    def run(self) -> None:
        """All launches."""
        for call, pointers in self.calls:
            call(pointers)

    def output(self, name: str) -> np.ndarray:
        """The value of one of the graph's outputs."""
        tensor = self.graph.tensors[name]
        return self.memory[name].view(tensor.dtype)[: tensor.elements].reshape(tensor.shape)


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes whose address is a multiple of a cache line."""
    raw = np.zeros(size + ALIGNED, np.uint8)
    first = -raw.ctypes.data % ALIGNED
    return raw[first : first + size]


def set_threads(count: int) -> None:
    """How many threads our kernels run on, in this process."""
    ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL).omp_set_num_threads(count)


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """ONNX Runtime with its own optimisations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def take_turns(path: Path, threads: int, seconds: float, recipe: Recipe | None = None) -> Turns:
    """Run both in turns for some seconds.  recipe: by default the advisers'."""
    graph = engine.load(path)
    plan = engine.fuse(graph, target="cpu")
    values = input_values(graph, 0)
    ours = OurModel(plan, recipe or engine.default_recipe(plan), values)
    theirs = session(path, threads)
    feeds = {i.name: values[i.name].reshape(graph.tensors[i.name].shape) for i in theirs.get_inputs()}
    names = [o.name for o in theirs.get_outputs()]
    binding = theirs.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, np.ascontiguousarray(value))
    for name in names:
        binding.bind_output(name, "cpu")

    def run_theirs() -> None:
        theirs.run_with_iobinding(binding)

    run_theirs()
    ours.run()
    difference = max(
        _difference(ours.output(name), value) for name, value in zip(names, binding.copy_outputs_to_cpu(), strict=True)
    )
    turns = [ours.run, run_theirs]
    again = [max(1, int(2e-4 / max(1e-7, min(_seconds(turn, 1) for _ in range(3))))) for turn in turns]
    # What one thread computes is told by its processor time, whoever else the machine runs.
    clock = time.thread_time if threads == 1 else time.perf_counter
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for number, turn in enumerate(turns):
            time.sleep(SPINNING)
            turn()
            until = time.perf_counter() + TURN
            while time.perf_counter() < until:
                times[number].append(_seconds(turn, again[number], clock) * 1e6)
    return Turns(times[0], times[1], difference)


def _seconds(turn: Callable[[], None], times: int, clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    for _ in range(times):
        turn()
    return (clock() - begin) / times


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """Of codes the share that is off by one; infinite where one is off by more."""
    if a.dtype.kind in "iub":
        off = np.abs(a.astype(np.int64) - b.astype(np.int64))
        return float((off == 1).mean()) if off.max(initial=0) <= 1 else float("inf")
    return float(np.abs(a - b).max() / max(1e-30, np.abs(b).max()))
