"""The rates of this machine's CPU, measured by a small benchmark, and kept in the user's data folder."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

from engine.execution.emulate.build import build_files, compiler_identity, require_compiler
from engine.execution.native.build import INCLUDE, RUNTIME
from engine.support.cache import digest, digest_of_files, keep_folder, read_folder, workplace
from engine.support.child_processes import start_child
from engine.support.errors import MissingCapability
from engine.target.cpu import CpuTarget
from engine.target.host_cpu import host_cpu, keep_figures
from engine.target.nodes import Figure

_UNITS = {"fma_rate": "operations/s", "fork_overhead": "s"}
_PROGRAM = "figures"
_SECONDS = 120.0


def calibrate_cpu() -> tuple[CpuTarget, CpuTarget, Path]:
    """(the target before, the target with what was measured now, where the figures are kept).

    Raises MissingCapability without a C++ compiler, or where the benchmark does not run.
    """
    before = host_cpu()
    sizes = [str(int(one.value)) for one in (before.l1_bytes, before.l2_bytes, before.l3_bytes)]
    child = start_child(
        [str(_program(before)), *sizes], seconds=_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, errors = child.communicate()
    if child.returncode:
        raise MissingCapability("calibrate", "this machine", errors.strip() or "the benchmark ended early", "try again")
    source = f"measured on {date.today().isoformat()} by `loomscope calibrate --target cpu`"
    own = before.figures()
    figures = {
        name: replace(own[name], value=float(value), unit=_UNITS.get(name, "bytes/s"), source=source)
        for name, value in (line.split() for line in out.splitlines())
    }
    lanes = before.lanes * 2 * 2
    clock = Figure(figures["fma_rate"].value / lanes, "Hz", f"{source}: two multiply-adds of whole vectors a clock")
    path = keep_figures(before.title, {**figures, "clock": clock})
    return before, host_cpu(), path


def _program(machine: CpuTarget) -> Path:
    """The benchmark, compiled for this machine's vectors."""
    compiler, source = require_compiler(), RUNTIME / "figures.cpp"
    flags = ("-std=c++20", "-O3", "-w", "-fopenmp", *machine.flags, f"-I{INCLUDE}")
    headers = digest_of_files([*INCLUDE.iterdir(), source])
    name = digest(compiler_identity(compiler), " ".join(flags), headers)
    built = read_folder("native", name)
    if built is None:
        with workplace("native") as folder:
            build_files([compiler, *flags, str(source), "-o", _PROGRAM], folder, [_PROGRAM])
            built = keep_folder("native", name, folder)
    return built / _PROGRAM
