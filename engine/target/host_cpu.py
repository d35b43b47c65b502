"""This machine's CPU: what the system says of it, and what a small benchmark measured once."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.support.user_data import data_folder
from engine.target.cpu import NAMED_CPUS, CpuTarget
from engine.target.nodes import Figure

HOST = "cpu"
"""Name of the target that is this machine."""
_CPUINFO, _CACHES = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cache")
_NEEDS = {
    "avx2": ("avx2", "fma", "f16c"),
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "avx512_vnni": ("avx512_vnni",),
    "avx512_bf16": ("avx512_bf16",),
    "avx_vnni": ("avx_vnni",),
}
"""Feature -> the flags that the kernel lists for it."""
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


@lru_cache(maxsize=1)
def host_cpu() -> CpuTarget:
    """This machine: features, cores and caches as the system says, rates as `keep_figures` has them.

    What was not measured is a named CPU's figure, and its source says so.
    """
    known = _cpuinfo()
    flags = set(known.get("flags", "").split())
    features = tuple(name for name, needs in _NEEDS.items() if flags.issuperset(needs))
    like = NAMED_CPUS["zen4" if "avx512" in features else "avx2"]
    title = known.get("model name", "") or platform.processor() or platform.machine()
    clock = float(known.get("cpu MHz", 0)) * 1e6
    figures = {name: Figure(size, "bytes", "the system's description") for name, size in _caches().items()}
    cores = len(os.sched_getaffinity(0))
    figures["cores"] = Figure(cores, "cores", "the system's description: those that this process may use")
    if clock:
        figures["clock"] = Figure(clock, "Hz", "the system's description")
    own: dict[str, Any] = {"name": HOST, "title": title, "features": features, **figures, **_measured_figures(title)}
    return replace(like, **own)


def figures_file() -> Path:
    """Where the measured figures are kept."""
    return data_folder() / "cpu.json"


def keep_figures(title: str, figures: Mapping[str, Figure]) -> Path:
    """Keep what was measured of this machine; later runs have it as `host_cpu()`."""
    path = figures_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {name: {"value": one.value, "unit": one.unit, "source": one.source} for name, one in figures.items()}
    path.write_text(json.dumps({"title": title, "figures": plain}, indent=2) + "\n")
    host_cpu.cache_clear()
    return path


def is_measured() -> bool:
    """Whether the rates of this machine were measured."""
    return bool(_measured_figures(host_cpu().title))


def _measured_figures(title: str) -> dict[str, Figure]:
    """The kept figures; none where they are of another machine, or cannot be read."""
    try:
        kept = json.loads(figures_file().read_text())
        if kept["title"] != title:
            return {}
        names = {field.name for field in fields(CpuTarget)}
        found = {name: Figure(float(one["value"]), one["unit"], one["source"]) for name, one in kept["figures"].items()}
        return {name: figure for name, figure in found.items() if name in names and figure.value > 0}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _cpuinfo() -> dict[str, str]:
    """What the kernel says of the first core."""
    try:
        first = _CPUINFO.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _caches() -> dict[str, int]:
    """Bytes of the caches of the first core."""
    found: dict[str, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        number = re.fullmatch(r"(\d+)([KMG])", size)
        if kind in ("Data", "Unified") and number and level in "123":
            found[f"l{level}_bytes"] = int(number[1]) * _UNITS[number[2]]
    return found
