"""The process that owns the GPU: a row a line in, what every system made of it out.

All systems run in this process, on the same tensors, in interleaved rounds.  PyTorch makes the inputs from a seed that
the request draws anew, holds the memory, times with its events and says what is right: the row's graph in float32 on
the same values, before the rounds and after them.  Our kernels are launched by PyCUDA in the same primary context.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine
from engine.execution.cuda_graph import GraphError
from engine.execution.nodes import MEASURED, GpuState
from engine.execution.statistics import summarise
from engine.graph.nodes import OperatorGraph
from engine.measurements.nodes import OURS
from engine.suite import read_row
from engine.support.errors import EngineError, Unsupported
from engine.support.serialization import to_json
from tests.benchmarks import prepared
from tests.benchmarks.gpu_machine import Cuda, Machine
from tests.benchmarks.peers import PEERS, Arrays, Case, System, torch_graph

ROUNDS, SAMPLES = 8, 5
COLD_FACTOR, MOST_COPIES, MEMORY_SHARE = 3, 256, 0.4
WARM_UP = 5
SHORT_MICROSECONDS = 50.0
LAUNCHES_OF_SHORT = 20
LIMITS = {"float16": 1e-2, "float32": 1e-3}
"""Largest error of a right result: the norm of its difference from the reference, over the reference's."""


class WrongResult(ValueError):
    """A system computed something else than the reference."""


def say(event: str, **message: Any) -> None:
    """One JSON object on one line, at once."""
    print(json.dumps({"event": event, **message}), flush=True)


def main() -> int:
    """Serve requests until there are no more."""
    try:
        import torch
    except ImportError:
        without_torch(map(json.loads, sys.stdin))
        return 0
    serve(torch, Cuda(torch), map(json.loads, sys.stdin))
    return 0


def without_torch(requests: Iterable[dict[str, Any]]) -> None:
    """PyTorch holds the memory and says what is right: without it no system has a time."""
    reason = {"failure": "missing", "message": "PyTorch is not installed; `loomscope measure` times our kernels alone"}
    for request in requests:
        for name in request["systems"]:
            say("entry", system=name, entry=reason)
        say("done")


def serve(torch: Any, machine: Machine, requests: Iterable[dict[str, Any]]) -> None:
    """One row after another."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    for request in requests:
        graph = engine.load(request["reference"])
        short = lacking_memory(machine, graph)
        if short:
            for name in request["systems"]:
                say("entry", system=name, entry={"failure": "out of memory", "message": short})
        else:
            RowBench(torch, machine, graph, request).run()
        machine.release()
        say("done")


def bytes_of(graph: OperatorGraph) -> int:
    """Bytes of the inputs and outputs together."""
    return sum(graph.tensors[name].bytes for name in (*graph.inputs, *graph.outputs))


def lacking_memory(machine: Machine, graph: OperatorGraph) -> str:
    """Why the row does not fit: it needs its own memory, and twice that for the reference; "" where it does."""
    needed, free = 3 * bytes_of(graph), machine.free_bytes()
    return f"the row needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free" if needed > free else ""


@dataclass(frozen=True, slots=True)
class Timer:
    """A way of timing a system."""

    sample: Callable[[int], float]
    """Microseconds of one run, by sample number."""
    method: str
    """In words."""


class RowBench:
    """The tensors of one row, and every system that can run it."""

    def __init__(self, torch: Any, machine: Machine, graph: OperatorGraph, request: dict[str, Any]) -> None:
        import onnx

        assert graph.source is not None
        self.torch, self.machine, self.graph = torch, machine, graph
        self.reference: str = request["reference"]
        self.systems: Sequence[str] = request["systems"]
        self.kernels = Path(request["kernels"]) if request.get("kernels") else None
        self.case = Case(read_row(self.reference)[1], onnx.load(str(graph.source)), machine.device)
        footprint = bytes_of(graph)
        cold = math.ceil(COLD_FACTOR * machine.l2_bytes / footprint) + 1
        fitting = int(machine.free_bytes() * MEMORY_SHARE) // footprint
        self.copies = [
            make_inputs(torch, machine.device, graph, self.case, request["seed"] + n)
            for n in range(max(1, min(cold, MOST_COPIES, fitting)))
        ]
        self.cold = len(self.copies) * footprint >= COLD_FACTOR * machine.l2_bytes
        self.notes: dict[str, dict[str, Any]] = {}
        """Of each system, what its entry says besides its times."""
        self.records: dict[str, Callable[[int], Callable[[], Any]]] = {}
        """System -> how it records many runs as a graph, where PyTorch cannot."""

    def run(self) -> None:
        """Prepare and check each system, time all that are right in turn, check them again."""
        expected = self._expected()
        ready: dict[str, tuple[System, Timer]] = {}
        for name in self.systems:
            say("begin", system=name)
            try:
                system = self._ours() if name == OURS else PEERS[name].make(self.case, self.copies)
                self._check(system.step(0), expected)
                ready[name] = system, self._timer(name, system)
            except (EngineError, ImportError, RuntimeError, ValueError, TypeError, AttributeError) as error:
                say("entry", system=name, entry=self._failure(error))
                self.machine.synchronize()  # after a fault of the GPU this raises, and ends the process
        samples, states = self._rounds({name: timer.sample for name, (_, timer) in ready.items()})
        for name, (system, timer) in ready.items():
            say("begin", system=name)
            try:
                self._check(system.step(0), expected)
            except WrongResult as error:
                say("entry", system=name, entry=self._failure(error))
                continue
            say("entry", system=name, entry=self._entry(name, system, timer, samples[name], states))

    def _rounds(self, timers: dict[str, Callable[[int], float]]) -> tuple[dict[str, list[float]], list[GpuState]]:
        """Samples of each system, every second round backwards, and the GPU's state after each round."""
        samples: dict[str, list[float]] = {name: [] for name in timers}
        states: list[GpuState] = []
        started = time.monotonic()
        for number in range(ROUNDS):
            for name in list(timers)[:: -1 if number % 2 else 1]:
                say("begin", system=name)
                samples[name] += [timers[name](number * SAMPLES + n) for n in range(SAMPLES)]
            state = self.machine.look(time.monotonic() - started)
            states += [state] if state is not None else []
        return samples, states

    def _entry(
        self, name: str, system: System, timer: Timer, times: list[float], states: list[GpuState]
    ) -> dict[str, Any]:
        found = summarise(times, [state.sm_clock for state in states])
        cache = "cold" if self.cold else "warm: the buffers cannot exceed the L2 cache"
        return {
            "origin": MEASURED, "microseconds": found.median, "low": found.low, "high": found.high,
            "samples": times, "rounds": ROUNDS, "noise": found.noise, "states": to_json(states), "ran": system.ran(),
            "environment": {
                "device": self.machine.name, "cache": f"{cache}, {len(self.copies)} copies in rotation",
                "method": timer.method,
            },
            **self.notes.get(name, {}),
        }  # fmt: skip

    def _failure(self, error: Exception) -> dict[str, Any]:
        """Why a system has no time on this row."""
        match error:
            case WrongResult():
                kind = "wrong result"
            case ImportError():
                kind = "missing"
            case Unsupported():
                kind = "unsupported"
            case _:
                kind = "out of memory" if "out of memory" in str(error).lower() else type(error).__name__
        return {"failure": kind, "message": str(error).strip()[:400]}

    def _expected(self) -> list[Any]:
        """The row in float32, of the same values.  Constants and casts of the graph stay what they are."""
        wide = {n: v.float() if v.is_floating_point() else v for n, v in self.copies[0].items()}
        with self.torch.no_grad():
            return [value.float() for value in torch_graph(self.case)(wide)]

    def _check(self, results: list[Any], expected: list[Any]) -> None:
        limit = LIMITS[self.graph.tensors[self.graph.inputs[0]].dtype]
        for name, result, want in zip(self.graph.outputs, results, expected, strict=True):
            error = float((result.float().reshape(want.shape) - want).norm() / want.norm())
            if not error <= limit:  # NaN is wrong, too
                raise WrongResult(f"{name} is off by {error:.2g} of its norm, {limit:g} is allowed")

    def _ours(self) -> System:
        from tests.benchmarks.gpu_launch import Launches

        target = self.machine.target()
        kept = prepared.read(self.reference, target, self.kernels) if self.kernels is not None else None
        made, code = kept or prepared.prepare(self.reference, target)
        self.notes[OURS] = {"launches": [to_json(kernel.launched) for kernel in made.kernels.values()]}
        launches = Launches(self.torch, self.machine, self.graph, made, code, self.copies)
        self.records[OURS] = launches.recorded
        return System(launches.checked, lambda: launches.ran, launches)

    def _timer(self, name: str, system: System) -> Timer:
        """How a system is timed."""
        if system.sampler is not None:
            return Timer(system.sampler(), "the host's clock")
        step = system.quick or system.step
        return self._timed(step, self.records.get(name) or (lambda count: self.machine.recorded(step, count)))

    def _timed(self, step: Callable[[int], Any], record: Callable[[int], Callable[[], Any]]) -> Timer:
        """By the machine's events; a short run is recorded as a graph that walks through all copies."""
        for n in range(WARM_UP):
            step(n)
        self.machine.synchronize()
        if self.machine.timed(lambda: step(0)) >= SHORT_MICROSECONDS:
            return Timer(lambda n: self.machine.timed(lambda: step(n)), "one run between two events")
        count = max(LAUNCHES_OF_SHORT, len(self.copies))
        try:
            replay = record(count)
        except GraphError as error:
            return Timer(
                lambda n: self.machine.timed(lambda: [step(k) for k in range(count)]) / count,
                f"{count} runs between two events, without a graph: {error}",
            )
        return Timer(lambda n: self.machine.timed(replay) / count, f"replay of a graph of {count} runs")


def make_inputs(torch: Any, device: str, graph: OperatorGraph, case: Case, seed: int) -> Arrays:
    """Seeded values of every input: normal, or as the row's indices and ranges ask."""
    stream = torch.Generator(device=device).manual_seed(seed)
    ranges = {p.key: json.loads(p.value) for p in case.model.metadata_props}.get("light.inputs", {})
    made = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        kind = getattr(torch, tensor.dtype)
        if "int" in tensor.dtype:
            classes = graph.tensors[graph.inputs[0]].shape[-1]
            made[name] = torch.randint(classes, tensor.shape, generator=stream, device=device, dtype=kind)
            continue
        value = torch.empty(tensor.shape, device=device, dtype=kind)
        low_high = ranges.get(name)
        made[name] = value.uniform_(*low_high, generator=stream) if low_high else value.normal_(generator=stream)
    return made


if __name__ == "__main__":
    sys.exit(main())
