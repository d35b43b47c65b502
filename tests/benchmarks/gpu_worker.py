"""One row on the GPU: all systems in this process, on the same tensors, in interleaved rounds.

PyTorch makes the inputs, holds the memory, times with its events and says what is right: the row's graph in float32 on
the same values.  Our kernels are launched by PyCUDA in the same primary context.  Without PyTorch only our own kernels
run, through `engine.measure`, checked on the CPU.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import engine
from engine.errors import EngineError
from engine.graph.nodes import OperatorGraph
from engine.run.cuda_graph import Graph, library
from engine.run.nodes import MEASURED, Failure
from engine.run.statistics import summarise
from engine.text import to_json
from tests.benchmarks.peers import LOOMSCOPE, PEERS

ROUNDS, SAMPLES = 8, 5
COLD_FACTOR, MOST_COPIES, MEMORY_SHARE = 3, 256, 0.6
WARM_UP = 5
SHORT_MICROSECONDS = 50.0
LIMITS = {"float16": 1e-2, "float32": 1e-3}
"""Largest error of a right result: the norm of its difference from the reference, over the reference's."""

Step = Callable[[int], Any]
"""Runs a system once, on one copy of the inputs."""


def say(event: str, **message: Any) -> None:
    """One JSON object on one line, at once."""
    print(json.dumps({"event": event, **message}), flush=True)


def main() -> int:
    """Serve the one request."""
    request = json.loads(sys.stdin.readline())
    graph = engine.load(request["reference"])
    try:
        import torch
    except ImportError:
        _alone(graph, request["systems"])
    else:
        short = lacking_memory(torch, graph)
        if short:
            for name in request["systems"]:
                say("entry", system=name, entry={"failure": "out of memory", "message": short})
        else:
            RowBench(torch, graph, request["systems"]).run()
    say("done")
    return 0


def _alone(graph: OperatorGraph, systems: list[str]) -> None:
    """Our kernels one by one; the peers are all built on PyTorch."""
    for name in systems:
        say("begin", system=name)
        if name != LOOMSCOPE:
            say("entry", system=name, entry={"failure": "missing", "message": "PyTorch is not installed"})
            continue
        try:
            timings = [
                (len(group.instances), engine.measure(engine.compile(group))) for group in engine.fuse(graph).groups
            ]
        except EngineError as error:
            say("entry", system=name, entry={"failure": type(error).__name__, "message": str(error)})
            continue
        wrong = next((timing for _, timing in timings if isinstance(timing, Failure)), None)
        if wrong is not None:
            say("entry", system=name, entry={"failure": wrong.kind, "message": wrong.message})
            continue
        parts = [(count, timing) for count, timing in timings if not isinstance(timing, Failure)]
        rest = to_json(parts[0][1]) if len(parts) == 1 else {"origin": MEASURED}
        assert isinstance(rest, dict)
        total = sum(count * timing.microseconds for count, timing in parts)
        say("entry", system=name, entry={**rest, "microseconds": total, "ran": f"{len(parts)} kernels, each alone"})


def bytes_of(graph: OperatorGraph) -> int:
    """Bytes of the inputs and outputs together."""
    return sum(graph.tensors[name].bytes for name in (*graph.inputs, *graph.outputs))


def lacking_memory(torch: Any, graph: OperatorGraph) -> str:
    """Why the row does not fit: it needs its own memory, and twice that for the reference; "" where it does."""
    needed, (free, _) = 3 * bytes_of(graph), torch.cuda.mem_get_info()
    return f"the row needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free" if needed > free else ""


class RowBench:
    """The tensors of one row, and every system that can run it."""

    def __init__(self, torch: Any, graph: OperatorGraph, systems: list[str]) -> None:
        import onnx

        assert graph.source is not None
        self.torch, self.graph, self.systems = torch, graph, systems
        self.model = onnx.load(str(graph.source))
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.device = torch.cuda.get_device_properties(0)
        footprint = bytes_of(graph)
        free, _ = torch.cuda.mem_get_info()
        cold = math.ceil(COLD_FACTOR * self.device.L2_cache_size / footprint) + 1
        self.copies = [
            self._inputs(n) for n in range(max(1, min(cold, MOST_COPIES, int(free * MEMORY_SHARE) // footprint)))
        ]
        self.cold = len(self.copies) * footprint >= COLD_FACTOR * self.device.L2_cache_size

    def run(self) -> None:
        """Prepare and check each system, then time all that are right in turn."""
        expected = self._expected()
        ready: dict[str, Callable[[int], float]] = {}
        for name in self.systems:
            say("begin", system=name)
            try:
                step = self._ours() if name == LOOMSCOPE else self._peer(name)
                self._check(step(0), expected)
                ready[name] = self._timer(step)
            except (EngineError, ImportError, NotImplementedError, RuntimeError, ValueError) as error:
                kind = "missing" if isinstance(error, ImportError) else "failure"
                say("entry", system=name, entry={"failure": kind, "message": str(error)[:400]})
        self._rounds(ready)

    def _rounds(self, ready: dict[str, Callable[[int], float]]) -> None:
        samples: dict[str, list[float]] = {name: [] for name in ready}
        for number in range(ROUNDS):
            order = list(ready)[:: -1 if number % 2 else 1]
            for name in order:
                say("begin", system=name)
                samples[name] += [ready[name](number * SAMPLES + n) for n in range(SAMPLES)]
        for name, times in samples.items():
            found = summarise(times)
            cache = f"{'cold' if self.cold else 'warm'}, {len(self.copies)} copies in rotation"
            entry = {
                "origin": MEASURED,
                "microseconds": found.median,
                "low": found.low,
                "high": found.high,
                "samples": times,
                "rounds": ROUNDS,
                "noise": found.noise,
                "ran": PEERS[name].ran if name in PEERS else "our kernels",
                "environment": {"device": self.device.name, "cache": cache},
            }
            say("entry", system=name, entry=entry)

    def _inputs(self, seed: int) -> dict[str, Any]:
        """Seeded values of every input: normal, or as the row's indices and ranges ask."""
        torch, stream = self.torch, self.torch.Generator(device="cuda").manual_seed(seed)
        ranges = {p.key: json.loads(p.value) for p in self.model.metadata_props}.get("light.inputs", {})
        made = {}
        for name in self.graph.inputs:
            tensor = self.graph.tensors[name]
            kind = getattr(torch, tensor.dtype)
            if "int" in tensor.dtype:
                classes = self.graph.tensors[self.graph.inputs[0]].shape[-1]
                made[name] = torch.randint(classes, tensor.shape, generator=stream, device="cuda", dtype=kind)
                continue
            value = torch.empty(tensor.shape, device="cuda", dtype=kind)
            low_high = ranges.get(name)
            made[name] = value.uniform_(*low_high, generator=stream) if low_high else value.normal_(generator=stream)
        return made

    def _expected(self) -> list[Any]:
        """The row in float32, of the same values.  Constants and casts of the graph stay what they are."""
        wide = {n: v.float() if v.is_floating_point() else v for n, v in self.copies[0].items()}
        with self.torch.no_grad():
            return [value.float() for value in PEERS["torch"].make(self.model)(wide)]

    def _check(self, results: list[Any], expected: list[Any]) -> None:
        dtype = self.graph.tensors[self.graph.inputs[0]].dtype
        for name, result, want in zip(self.graph.outputs, results, expected, strict=True):
            error = float((result.float().reshape(want.shape) - want).norm() / want.norm())
            if not error <= LIMITS[dtype]:
                raise ValueError(
                    f"wrong result: {name} is off by {error:.2g} of its norm, {LIMITS[dtype]:g} is allowed"
                )

    def _peer(self, name: str) -> Step:
        run = PEERS[name].make(self.model)

        def step(copy: int) -> Any:
            with self.torch.no_grad():
                return run(self.copies[copy % len(self.copies)])

        return step

    def _ours(self) -> Step:
        from tests.benchmarks.gpu_launch import Launches

        return Launches(self.torch, self.graph, self.copies)

    def _timer(self, step: Step) -> Callable[[int], float]:
        """Microseconds of one run; a short one is recorded as a graph that walks through all copies."""
        torch = self.torch
        for n in range(WARM_UP):
            step(n)
        torch.cuda.synchronize()
        once = self._timed(lambda: step(0))
        if once >= SHORT_MICROSECONDS:
            return lambda n: self._timed(lambda: step(n))
        launches = max(20, len(self.copies))
        recorded = getattr(step, "recorded", None)
        if recorded is not None:
            graph: Graph = recorded(library(), launches)
            replay = lambda: graph.launch(torch.cuda.current_stream().cuda_stream)  # noqa: E731
        else:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                for n in range(launches):
                    step(n)
            replay = captured.replay
        return lambda n: self._timed(replay) / launches

    def _timed(self, work: Callable[[], Any]) -> float:
        torch = self.torch
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)  # keeps the GPU busy while the work is queued
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1e3


if __name__ == "__main__":
    sys.exit(main())
