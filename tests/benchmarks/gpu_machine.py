"""The GPU as the benchmark uses it, through PyTorch: memory, events, graphs, clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from engine.execution.nodes import GpuState
from engine.execution.nvml import Monitor
from engine.support.errors import MissingCapability

TARGETS = {(9, 0): "h200", (8, 0): "a100"}
"""Compute capability -> the target that kernels are compiled for."""
AHEAD_CYCLES = 200_000
"""Cycles that the GPU spends before a sample, so that everything is queued when the first event passes."""


class Machine(Protocol):
    """What a row's bench asks of a device; the tests' stand-in is the CPU."""

    device: str
    """PyTorch's name of it."""
    name: str
    l2_bytes: int

    def target(self) -> str:
        """The target that kernels for it are compiled for.  Raises MissingCapability where there is none."""

    def free_bytes(self) -> int:
        """Memory that is not in use."""

    def release(self) -> None:
        """Give back what earlier rows left."""

    def synchronize(self) -> None:
        """Wait for all work."""

    def timed(self, work: Callable[[], Any]) -> float:
        """Microseconds of the work on the device."""

    def recorded(self, step: Callable[[int], Any], launches: int) -> Callable[[], Any]:
        """`step(0)`, `step(1)` ... as one replay."""

    def stream(self) -> int:
        """Handle of the current stream."""

    def look(self, seconds: float) -> GpuState | None:
        """Clocks and temperature now, so many seconds after the first sample."""


class Cuda:
    """The first GPU."""

    device = "cuda"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._properties = torch.cuda.get_device_properties(0)
        self.name = str(self._properties.name)
        self.l2_bytes = int(self._properties.L2_cache_size)
        self._monitor = Monitor(_bus(self._properties))

    def target(self) -> str:
        found = TARGETS.get((self._properties.major, self._properties.minor))
        if found is None:
            raise MissingCapability("benchmark", self.name, "no kernels are generated for it", "use an A100 or an H200")
        return found

    def free_bytes(self) -> int:
        return int(self._torch.cuda.mem_get_info()[0])

    def release(self) -> None:
        self._torch.cuda.synchronize()
        self._torch.cuda.empty_cache()

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def timed(self, work: Callable[[], Any]) -> float:
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._torch.cuda._sleep(AHEAD_CYCLES)
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1e3

    def recorded(self, step: Callable[[int], Any], launches: int) -> Callable[[], Any]:
        captured = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(captured):
            for n in range(launches):
                step(n)
        replay: Callable[[], Any] = captured.replay
        return replay

    def stream(self) -> int:
        return int(self._torch.cuda.current_stream().cuda_stream)

    def look(self, seconds: float) -> GpuState | None:
        return self._monitor.look(seconds)


def _bus(properties: Any) -> str:
    """Where NVML finds the device; its first one where PyTorch does not say."""
    parts = [getattr(properties, f"pci_{name}_id", 0) for name in ("domain", "bus", "device")]
    return "{:04x}:{:02x}:{:02x}.0".format(*parts)
