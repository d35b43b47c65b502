"""The part of PyCUDA's driver module that the measuring process calls, over memory of the host.

A "kernel" copies its first buffer to its second; one called "workspaces" the first bytes of its two workspaces; one
called "fault" raises as a kernel that faults would.  "leave" on two blocks copies its first buffer to its first
workspace, and "take" on three blocks that to its second buffer.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import numpy as np

MEMORY: dict[int, np.ndarray] = {}
L2_BYTES = 1 << 20


class Error(Exception):
    """Base of the driver's errors."""


class MemoryError(Error):
    """The device is full."""


class LaunchError(Error):
    """A kernel faulted."""


class RuntimeError(Error):
    """Another error of the runtime."""


class LogicError(Error):
    """The driver was called wrongly."""


device_attribute = SimpleNamespace(L2_CACHE_SIZE="L2", MULTIPROCESSOR_COUNT="SMs")
function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")


class Device:
    """The one device."""

    def __init__(self, number: int) -> None:
        self.number = number

    @staticmethod
    def count() -> int:
        return 1

    def retain_primary_context(self) -> Context:
        return Context()

    def get_attribute(self, name: str) -> int:
        return {"L2": L2_BYTES, "SMs": 132}[name]

    def name(self) -> str:
        return "stand-in"

    def compute_capability(self) -> tuple[int, int]:
        major, _, minor = os.environ.get("STAND_IN_CAPABILITY", "9.0").partition(".")
        return int(major), int(minor)

    def pci_bus_id(self) -> str:
        return "0000:00:00.0"


class Context:
    """The primary context."""

    def push(self) -> None:
        pass

    @staticmethod
    def pop() -> None:
        pass

    @staticmethod
    def get_device() -> Device:
        return Device(0)


class Function:
    """A kernel."""

    def __init__(self, name: str) -> None:
        self.name = name

    def set_attribute(self, name: str, value: int) -> None:
        assert (name, value) == ("shared", 0)

    def prepare(self, arguments: str) -> None:
        self.arguments = arguments

    def prepared_async_call(
        self, grid: object, block: object, stream: Stream, *pointers: int, shared_size: int
    ) -> None:
        assert len(pointers) == len(self.arguments)
        if self.name == "fault":
            raise LaunchError("an illegal memory access was encountered")
        if self.name == "workspaces":
            left = [MEMORY[pointer][:8] for pointer in pointers[2:]]
            MEMORY[pointers[1]][:] = np.concatenate(left)
            return
        if self.name in ("leave", "take"):
            assert grid == ((2 if self.name == "leave" else 3), 1, 1), grid
            source, target = (pointers[0], pointers[2]) if self.name == "leave" else (pointers[2], pointers[1])
            MEMORY[target][:] = MEMORY[source]
            return
        MEMORY[pointers[1]][:] = MEMORY[pointers[0]]


class Stream:
    """Work is done when it is queued."""

    handle = 0xC0DE

    def synchronize(self) -> None:
        pass


class Event:
    """A moment of the host's clock."""

    def record(self, stream: Stream) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def time_since(self, start: Event) -> float:
        return (self.seconds - start.seconds) * 1e3


def init() -> None:
    pass


def get_driver_version() -> int:
    return int(os.environ.get("STAND_IN_CUDA", "13000"))


def module_from_buffer(cubin: bytes) -> SimpleNamespace:
    return SimpleNamespace(get_function=Function)


def mem_get_info() -> tuple[int, int]:
    free = int(os.environ.get("STAND_IN_FREE", str(1 << 30)))
    return free, 1 << 30


def mem_alloc(size: int) -> int:
    address = 4096 * (len(MEMORY) + 1)
    MEMORY[address] = np.zeros(size, np.uint8)
    return address


def pagelocked_zeros(size: int, dtype: type) -> np.ndarray:
    return np.zeros(size, dtype)


def memset_d8(address: int, value: int, size: int) -> None:
    MEMORY[address][:size] = value


def memcpy_htod(address: int, value: np.ndarray) -> None:
    MEMORY[address][:] = value


def memcpy_htod_async(address: int, value: np.ndarray, stream: Stream) -> None:
    memcpy_htod(address, value)


def memcpy_dtoh(value: np.ndarray, address: int) -> None:
    value[:] = MEMORY[address]
