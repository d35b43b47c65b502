"""Clocks, temperature and power of a GPU while it works, from the driver's management library.

Read in the process that measures, because starting `nvidia-smi` takes as long as a round of samples.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from engine.execution.nodes import GpuState

_SM_CLOCK, _MEMORY_CLOCK, _CORE_TEMPERATURE = 1, 2, 0
_TEXT = 96


class Monitor:
    """The GPU at one address of the PCI bus; where the library is missing or refuses, nothing is read."""

    def __init__(self, bus: str) -> None:
        """bus: "0000:41:00.0"."""
        self._handle = ctypes.c_void_p()
        self._library = _library()
        if self._library is not None and (
            self._library.nvmlInit_v2() != 0
            or self._library.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(self._handle)) != 0
        ):
            self._library = None

    def driver(self) -> str:
        """The driver's version; "" where unknown."""
        text = ctypes.create_string_buffer(_TEXT)
        if self._library is None or self._library.nvmlSystemGetDriverVersion(text, _TEXT) != 0:
            return ""
        return text.value.decode(errors="replace")

    def look(self, seconds: float) -> GpuState | None:
        """The state now, so many seconds after the first sample; None where it cannot be read."""
        if self._library is None:
            return None
        asked = (
            ("nvmlDeviceGetClockInfo", (_SM_CLOCK,)),
            ("nvmlDeviceGetClockInfo", (_MEMORY_CLOCK,)),
            ("nvmlDeviceGetTemperature", (_CORE_TEMPERATURE,)),
            ("nvmlDeviceGetPowerUsage", ()),
        )
        values = []
        for name, arguments in asked:
            value = ctypes.c_uint()
            if getattr(self._library, name)(self._handle, *arguments, ctypes.byref(value)) != 0:
                return None
            values.append(value.value)
        return GpuState(round(seconds, 3), values[0], values[1], values[2], values[3] / 1e3)


def describe_states(states: Sequence[GpuState]) -> dict[str, str]:
    """Ranges of clocks, temperature and power over the samples, for the environment of a time; {} without states."""
    if not states:
        return {}
    return {
        "SM clock": _span([state.sm_clock for state in states], "MHz"),
        "memory clock": _span([state.memory_clock for state in states], "MHz"),
        "temperature": _span([state.temperature for state in states], "°C"),
        "power": _span([round(state.power) for state in states], "W"),
    }


def _span(values: Sequence[int], unit: str) -> str:
    low, high = min(values), max(values)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _library() -> Any:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
