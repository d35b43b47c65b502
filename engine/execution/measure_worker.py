"""The process that measures on the GPU: one request in, samples out.  Started by `engine.execution.measure`.

Method: one untimed launch of each kernel, whose results are saved; warm-up for a fixed time; then rounds.  A round
takes a few samples of each kernel in turn, every second round in reverse order, so that drift of clocks and
temperature affects all kernels alike.  A sample is the time between two events around one launch or, for short
kernels, around one replay of a CUDA graph of many launches.  A host-to-device copy precedes each sample: while it runs,
events and launches are queued, so that no host time lies between the events.  Launches rotate through copies of the
buffers that together exceed three times the L2 cache, so that each one finds its inputs in DRAM.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from engine.execution.cuda_graph import Graph, GraphError, library
from engine.execution.nodes import GpuState
from engine.execution.nvml import Monitor, describe_states
from engine.support.serialization import to_json

WARM_UP_SECONDS = 0.3
"""Long enough for the SM clock to rise from idle; where it is not, the summary reports a drift."""
COLD_FACTOR = 3
"""The copies of all buffers together hold this many times the L2 cache."""
MOST_COPIES = 512
MEMORY_SHARE = 0.5
"""Part of the free memory that the copies of all kernels may take."""
AHEAD_BYTES = 8 << 20
"""Size of the copy that keeps the GPU busy while a sample is queued: about 150 us over PCIe 5."""
SHORT_MICROSECONDS = 50.0
LAUNCHES_OF_SHORT = 20
"""A kernel under SHORT_MICROSECONDS is launched at least this often in one sample."""


def main() -> int:
    """Serve the one request.  The result is the last line that is printed; the exit status is 0 unless Python fails."""
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
    unfit = unfit_device(driver, request)
    if unfit:
        say(event="unfit", message=unfit[0], hint=unfit[1])
        return 0
    # The primary context is the one that runtime libraries share; cuda_graph calls the driver in it, too.
    context = driver.Device(0).retain_primary_context()
    context.push()
    try:
        Session(driver, request).run()
    except driver.MemoryError as error:
        say(event="failure", kind="out of memory", message=str(error))
    except (driver.LaunchError, driver.RuntimeError, driver.LogicError) as error:
        say(event="failure", kind="crash", message=str(error))
    finally:
        # After a fault of a kernel every call on the context fails, this one as well.
        with contextlib.suppress(driver.Error):
            context.pop()
    return 0


def say(**message: Any) -> None:
    """Print one JSON object on one line and flush it: the parent follows the samples live."""
    print(json.dumps(message), flush=True)


def unfit_device(driver: Any, request: dict[str, Any]) -> tuple[str, str] | None:
    """Why this GPU or its driver cannot run what was compiled, with what to do; None where they can."""
    device, supported = driver.Device(0), int(driver.get_driver_version()) // 1000
    compiler = int(str(request["compiler"]).partition(".")[0] or 0)
    if supported < compiler:
        reason = f"the NVIDIA driver knows CUDA {supported}, the kernels were compiled for CUDA {compiler}"
        return reason, f"install a driver for CUDA {compiler} or newer"
    own = tuple(device.compute_capability())
    for kernel in request["kernels"]:
        found = re.fullmatch(r"sm_(\d+)(\d)([a-z]?)", kernel["architecture"])
        assert found, kernel["architecture"]
        built = int(found[1]), int(found[2])
        # A cubin for sm_90a runs on compute capability 9.0 alone; one for sm_80 on 8.0 and every later 8.x.
        if own != built if found[3] else (own[0], own[1] >= built[1]) != (built[0], True):
            reason = f"{device.name()} has compute capability {own[0]}.{own[1]}; the kernels are for {found[0]}"
            return reason, "name this machine's GPU with --target"
        least = max(launch["least_sms"] for launch in kernel["launches"])
        sms = device.get_attribute(driver.device_attribute.MULTIPROCESSOR_COUNT)
        if least > sms:  # the launch would never end
            reason = f"{device.name()} has {sms} SMs; blocks that wait for each other need {least} of them"
            return reason, "name this machine's GPU with --target"
    return None


class Session:
    """All kernels of the request, their samples interleaved."""

    def __init__(self, driver: Any, request: dict[str, Any]) -> None:
        self.driver, self.request = driver, request
        self.device = driver.Context.get_device()
        self.stream = driver.Stream()
        self.monitor = Monitor(self.device.pci_bus_id())
        self.states: list[GpuState] = []
        self.started = 0.0
        """When the first sample began, on the monotonic clock."""
        share = MEMORY_SHARE / len(request["kernels"])
        self.kernels = [LoadedKernel(driver, self.stream, kernel, share) for kernel in request["kernels"]]
        # Page-locked: a copy from pageable memory would make the host wait for it.
        self.ahead = driver.pagelocked_zeros(AHEAD_BYTES, np.uint8)
        self.landing = driver.mem_alloc(AHEAD_BYTES)

    def run(self) -> None:
        """Save the results of one launch each, warm up, take the rounds."""
        for kernel in self.kernels:
            kernel.save_first()
        for kernel in self.kernels:
            kernel.warm_up()
        self.started = time.monotonic()
        for number in range(self.request["rounds"]):
            self._round(number)
        environment = self._environment()
        say(event="done", environments=[{**environment, **kernel.environment()} for kernel in self.kernels])

    def _round(self, number: int) -> None:
        order = list(enumerate(self.kernels))
        for which, kernel in reversed(order) if number % 2 else order:
            for _ in range(self.request["samples"]):
                self.driver.memcpy_htod_async(self.landing, self.ahead, self.stream)
                say(event="sample", kernel=which, round=number, microseconds=kernel.sample())
        state = self.monitor.look(time.monotonic() - self.started)
        if state is not None:
            self.states.append(state)
            say(event="state", state=to_json(state))

    def _environment(self) -> dict[str, str]:
        major, minor = self.device.compute_capability()
        version = self.monitor.driver()
        return {
            "device": self.device.name(),
            "compute capability": f"{major}.{minor}",
            "CUDA driver": str(self.driver.get_driver_version()),
            **({"driver_version": version} if version else {}),
            "compiler": f"NVRTC {self.request['compiler']}",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "rounds": f"{self.request['rounds']} of {self.request['samples']}, {len(self.kernels)} interleaved",
            **describe_states(self.states),
        }


class LoadedKernel:
    """One kernel with its buffers on the GPU."""

    def __init__(self, driver: Any, stream: Any, request: dict[str, Any], share: float) -> None:
        self.driver, self.stream, self.request = driver, stream, request
        self.folder = Path(request["folder"])
        self.sizes: list[int] = [buffer["bytes"] for buffer in request["buffers"]]
        self.l2_bytes = int(driver.Context.get_device().get_attribute(driver.device_attribute.L2_CACHE_SIZE))
        self.module = driver.module_from_buffer((self.folder / "kernel.cubin").read_bytes())
        self.functions = [self._load(launch) for launch in request["launches"]]
        copies = self._count_copies(share)
        # Launches on one stream run in order, and a kernel leaves a zeroed workspace zeroed: all copies share one.
        # One that may hold anything begins with 0xFF bytes, as what a kernel only writes does.
        self.workspaces = [self._allocate(w, 0 if w["zeroed"] else 0xFF) for w in request["workspaces"]]
        self.copies = [self._copy() for _ in range(copies)]
        self.turn = 0
        self.graph: Graph | None = None
        self.launches = 1
        self.method = "one launch between two events"

    def _load(self, launch: dict[str, Any]) -> Any:
        function = self.module.get_function(launch["entry"])
        # Without this opt-in a launch with more than 48 KiB of dynamic shared memory fails.
        attribute = self.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        function.set_attribute(attribute, launch["shared_bytes"])
        function.prepare("P" * len([*self.request["buffers"], *self.request["workspaces"]]))
        return function

    def save_first(self) -> None:
        """One untimed run; its results go into files."""
        self._launch(self.copies[0])
        self.stream.synchronize()
        for n, buffer in enumerate(self.request["buffers"]):
            if buffer["written"]:
                value = np.empty(buffer["bytes"], np.uint8)
                self.driver.memcpy_dtoh(value, self.copies[0][n])
                value.tofile(self.folder / f"{n}.out")

    def warm_up(self) -> None:
        """Launch for WARM_UP_SECONDS; a short kernel is then launched many times in one sample."""
        end = time.monotonic() + WARM_UP_SECONDS
        seen = self.sample()
        while time.monotonic() < end:
            seen = min(seen, self.sample())
        if seen >= SHORT_MICROSECONDS:
            return
        self.launches = max(LAUNCHES_OF_SHORT, len(self.copies))
        try:
            self.graph = Graph(library(), self.stream.handle, self._enqueue)
            self.method = f"replay of a graph of {self.launches} launches"
        except GraphError as error:
            self.method = f"{self.launches} launches between two events, without a graph: {error}"

    def sample(self) -> float:
        """Microseconds of one launch, from one launch or from many."""
        start, stop = self.driver.Event(), self.driver.Event()
        start.record(self.stream)
        if self.graph is not None:
            self.graph.launch()
        else:
            self._enqueue()
        stop.record(self.stream)
        stop.synchronize()
        return float(stop.time_since(start)) * 1e3 / self.launches

    def environment(self) -> dict[str, str]:
        """How the samples of this kernel came about."""
        cold = len(self.copies) * sum(self.sizes) >= COLD_FACTOR * self.l2_bytes
        state = "cold" if cold else "warm: the buffers cannot exceed the L2 cache"
        return {"cache": f"{state}, {len(self.copies)} copies in rotation", "method": self.method}

    def _count_copies(self, share: float) -> int:
        """Copies of the buffers: enough to exceed COLD_FACTOR times the L2 cache, within `share` of the free memory."""
        footprint: int = max(sum(self.sizes), 1)
        once: int = sum(workspace["bytes"] for workspace in self.request["workspaces"])
        free: int = self.driver.mem_get_info()[0]
        if footprint + once > free:
            needed = f"its arrays take {(footprint + once) / 1e9:.2f} GB, {free / 1e9:.2f} GB are free"
            raise self.driver.MemoryError(needed)
        wanted = math.ceil(COLD_FACTOR * self.l2_bytes / footprint) + 1
        return max(1, min(wanted, MOST_COPIES, (int(free * share) - once) // footprint))

    def _copy(self) -> list[Any]:
        """Allocate and fill one copy of all buffers; 0xFF bytes where the kernel only writes: a missing store shows."""
        pointers = []
        for n, buffer in enumerate(self.request["buffers"]):
            pointers.append(self._allocate(buffer, 0xFF))
            if buffer["read"]:
                self.driver.memcpy_htod(pointers[-1], np.fromfile(self.folder / f"{n}.in", np.uint8))
        return pointers

    def _allocate(self, memory: dict[str, Any], fill: int) -> Any:
        """Allocate memory full of one byte, and check that it has the alignment that the kernel was compiled for."""
        pointer = self.driver.mem_alloc(max(memory["bytes"], 1))
        self.driver.memset_d8(pointer, fill, max(memory["bytes"], 1))
        if int(pointer) % memory["alignment"]:
            place = f"{memory['name']} lies at {int(pointer):#x}"
            raise self.driver.LogicError(f"{place}, the kernel needs a multiple of {memory['alignment']}")
        return pointer

    def _enqueue(self) -> None:
        for _ in range(self.launches):
            self.turn = (self.turn + 1) % len(self.copies)
            self._launch(self.copies[self.turn])

    def _launch(self, copy: list[Any]) -> None:
        pointers = [int(one) for one in (*copy, *self.workspaces)]
        for function, launch in zip(self.functions, self.request["launches"], strict=True):
            grid, block, shared = tuple(launch["grid"]), tuple(launch["block"]), launch["shared_bytes"]
            function.prepared_async_call(grid, block, self.stream, *pointers, shared_size=shared)


if __name__ == "__main__":
    sys.exit(main())
