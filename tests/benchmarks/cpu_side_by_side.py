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
from engine.verify.native_model import compile_launched
from engine.verify.tensor_memory import share_memory

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
    """All launches of a plan as calls in this process."""

    def __init__(self, plan: engine.FusionPlan, recipe: Recipe, values: dict[str, np.ndarray]) -> None:
        assert plan.source is not None and not plan.without_kernel
        self.graph, self.kernels = plan.source, compile_launched(plan, recipe)
        memory = share_memory(plan, self.kernels, {*values, *self.graph.outputs})
        blocks = [aligned(size) for size in memory.sizes]
        self.memory = {tensor: blocks[block] for tensor, block in memory.blocks.items()}
        for name in {*values} & {*self.memory}:
            self.memory[name][:] = np.ascontiguousarray(values[name]).reshape(-1).view(np.uint8)
        self._prepared: list[np.ndarray] = []
        self.calls = [self._call(self.kernels[launch.group], launch.instance) for launch in plan.launches]

    def _call(self, kernel: CpuKernel, instance: int) -> tuple[Callable[[object], None], object]:
        own, source = kernel.group.instances[instance], kernel.source
        loaded = ctypes.CDLL(str(library(source, kernel.target)))
        places = []
        for buffer in source.buffers:
            part = own.parts.get(buffer.array)
            first = part.first * DTYPES[buffer.dtype] if part else 0
            places.append(self.memory[own.arrays[buffer.array]].ctypes.data + first)
        for size in source.prepared:
            self._prepared.append(aligned(size))
            places.append(self._prepared[-1].ctypes.data)
        pointers = (ctypes.c_void_p * len(places))(*places)
        if source.prepared:
            getattr(loaded, f"prepare_{source.entry}")(pointers)
        call = getattr(loaded, f"call_{source.entry}")
        call.restype = None
        return call, pointers

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
