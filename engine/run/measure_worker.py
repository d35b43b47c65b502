"""The process that owns the GPU: one request in, samples out.  Started by `engine.run.measure`, never imported by it.

Method: the primary context, one untimed launch whose results are saved, warm-up for a fixed time, then samples.  A
sample is the time between two events around one or several launches, divided by their number.  A host-to-device copy
goes ahead of each sample, so that the launches are queued before the first event passes and no time of the host is
counted.  Launches walk through copies of the buffers that together exceed three times the L2 cache: times are cold.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP_SECONDS = 0.3
"""Long enough for the clock to rise; kernels that need more show it as a wide spread."""
COLD_FACTOR = 3
"""The copies of all buffers together hold this many times the L2 cache."""
MOST_COPIES = 512
MEMORY_SHARE = 0.5
"""Part of the free memory that the copies may take."""
AHEAD_BYTES = 8 << 20
"""Size of the copy that keeps the GPU busy while a sample is queued: about 150 us over PCIe 5."""
SHORT_MICROSECONDS = 50.0
LAUNCHES_OF_SHORT = 8
"""A kernel under SHORT_MICROSECONDS is launched this often in one sample."""


def main() -> int:
    """Serve the one request; the status says nothing that the last line does not."""
    request = json.loads(sys.stdin.readline())
    try:
        import pycuda.driver as driver
    except ImportError as error:
        say(event="missing", message=f"PyCUDA cannot be imported: {error}")
        return 0
    try:
        driver.init()
        if driver.Device.count() == 0:
            say(event="missing", message="there is no CUDA device")
            return 0
    except driver.Error as error:
        say(event="missing", message=f"CUDA does not start: {error}")
        return 0
    context = driver.Device(0).retain_primary_context()
    context.push()
    try:
        Bench(driver, request).run()
    except driver.MemoryError as error:
        say(event="failure", kind="out of memory", message=str(error))
    except (driver.LaunchError, driver.RuntimeError, driver.LogicError) as error:
        say(event="failure", kind="crash", message=str(error))
    finally:
        # After a fault the context refuses everything; the process ends anyway.
        with contextlib.suppress(driver.Error):
            context.pop()
    return 0


def say(**message: Any) -> None:
    """One JSON object on one line, at once."""
    print(json.dumps(message), flush=True)


class Bench:
    """One kernel with its buffers on the GPU."""

    def __init__(self, driver: Any, request: dict[str, Any]) -> None:
        self.driver = driver
        self.request = request
        self.folder = Path(request["folder"])
        self.sizes: list[int] = [buffer["bytes"] for buffer in request["buffers"]]
        self.device = driver.Context.get_device()
        self.module = driver.module_from_buffer((self.folder / "kernel.cubin").read_bytes())
        self.function = self.module.get_function(request["entry"])
        attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.function.set_attribute(attribute, request["shared_bytes"])
        self.function.prepare("P" * len(self.sizes))
        self.stream = driver.Stream()
        self.copies = [self._copy() for _ in range(self._count_copies())]
        self.turn = 0

    def run(self) -> None:
        """Save the results of one launch, warm up, take the samples."""
        self._launch(self.copies[0])
        self.stream.synchronize()
        self._save(self.copies[0])
        launches = LAUNCHES_OF_SHORT if self._warm_up() < SHORT_MICROSECONDS else 1
        ahead = self.driver.pagelocked_zeros(AHEAD_BYTES, np.uint8)
        landing = self.driver.mem_alloc(AHEAD_BYTES)
        for _ in range(self.request["samples"]):
            self.driver.memcpy_htod_async(landing, ahead, self.stream)
            say(event="sample", microseconds=self._sample(launches))
        say(event="done", environment=self._environment(launches))

    def _count_copies(self) -> int:
        """As many as make the caches cold, within the memory and a fixed number."""
        footprint: int = max(sum(self.sizes), 1)
        cold = COLD_FACTOR * self._l2_bytes()
        free: int = self.driver.mem_get_info()[0]
        wanted = math.ceil(cold / footprint) + 1
        fitting = int(free * MEMORY_SHARE) // footprint
        return max(1, min(wanted, MOST_COPIES, fitting))

    def _l2_bytes(self) -> int:
        return int(self.device.get_attribute(self.driver.device_attribute.L2_CACHE_SIZE))

    def _copy(self) -> list[Any]:
        """All buffers once, filled; what is only written starts as 0xFF bytes, so that a missing write shows."""
        pointers = []
        for n, buffer in enumerate(self.request["buffers"]):
            pointer = self.driver.mem_alloc(max(buffer["bytes"], 1))
            if buffer["read"]:
                self.driver.memcpy_htod(pointer, np.fromfile(self.folder / f"{n}.in", np.uint8))
            else:
                self.driver.memset_d8(pointer, 0xFF, max(buffer["bytes"], 1))
            pointers.append(pointer)
        return pointers

    def _save(self, copy: list[Any]) -> None:
        for n, buffer in enumerate(self.request["buffers"]):
            if buffer["written"]:
                value = np.empty(buffer["bytes"], np.uint8)
                self.driver.memcpy_dtoh(value, copy[n])
                value.tofile(self.folder / f"{n}.out")

    def _launch(self, copy: list[Any]) -> None:
        grid, block = tuple(self.request["grid"]), tuple(self.request["block"])
        shared = self.request["shared_bytes"]
        self.function.prepared_async_call(grid, block, self.stream, *map(int, copy), shared_size=shared)

    def _next(self) -> list[Any]:
        self.turn = (self.turn + 1) % len(self.copies)
        return self.copies[self.turn]

    def _warm_up(self) -> float:
        """Launch for WARM_UP_SECONDS; a first idea of the time of one launch in microseconds."""
        end = time.monotonic() + WARM_UP_SECONDS
        seen = self._sample(1)
        while time.monotonic() < end:
            seen = min(seen, self._sample(1))
        return seen

    def _sample(self, launches: int) -> float:
        start, stop = self.driver.Event(), self.driver.Event()
        start.record(self.stream)
        for _ in range(launches):
            self._launch(self._next())
        stop.record(self.stream)
        stop.synchronize()
        return float(stop.time_since(start)) * 1e3 / launches

    def _environment(self, launches: int) -> dict[str, str]:
        held = len(self.copies) * sum(self.sizes)
        cold = held >= COLD_FACTOR * self._l2_bytes()
        state = "cold" if cold else "warm: the buffers cannot exceed the L2 cache"
        major, minor = self.device.compute_capability()
        return {
            "device": self.device.name(),
            "compute capability": f"{major}.{minor}",
            "CUDA driver": str(self.driver.get_driver_version()),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "cache": f"{state}, {len(self.copies)} copies in rotation",
            "launches per sample": str(launches),
            **clocks(),
        }


def clocks() -> dict[str, str]:
    """Clocks and power as nvidia-smi sees them right after the samples; empty where it does not answer."""
    fields = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "driver_version")
    query = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields, (value.strip() for value in answer.split(",")), strict=False))


if __name__ == "__main__":
    sys.exit(main())
