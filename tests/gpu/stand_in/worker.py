"""The benchmark's process on a machine without a GPU: PyTorch on the CPU, our kernels in the emulator.

    LOOMSCOPE_STAND_IN_KERNELS=FOLDER PYTHONPATH=.:tests/gpu/stand_in python -m tests.gpu.stand_in.worker

It shows that every step runs and that results are right.  Its times are the host's and say nothing about a GPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from engine.execution.nodes import SYNTHETIC, GpuState
from tests.benchmarks import gpu_worker


class Host:
    """The CPU in the place of a GPU, as `tests.benchmarks.gpu_machine.Machine`."""

    device = "cpu"
    name = "stand-in"
    l2_bytes = 1 << 12

    def target(self) -> str:
        return "h200"

    def free_bytes(self) -> int:
        return 1 << 28

    def release(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def timed(self, work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        return max((time.perf_counter() - started) * 1e6, gpu_worker.SHORT_MICROSECONDS)  # no graphs here

    def recorded(self, step: Callable[[int], Any], launches: int) -> Callable[[], Any]:
        raise RuntimeError("there are no graphs on the CPU")

    def stream(self) -> int:
        return 0

    def look(self, seconds: float) -> GpuState | None:
        return GpuState(round(seconds, 3), 1980, 3201, 41, 300.0)


def main() -> int:
    """Serve requests, with few samples each."""
    gpu_worker.MEASURED = SYNTHETIC
    gpu_worker.ROUNDS, gpu_worker.SAMPLES, gpu_worker.WARM_UP, gpu_worker.MOST_COPIES = 2, 1, 1, 2
    gpu_worker.serve(torch, Host(), map(json.loads, sys.stdin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
