"""Generated kernels as files: CUDA text, the device functions they include, and a manifest of buffers and launches."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.native.build import INCLUDE as CPU_INCLUDE
from engine.execution.native.build import flags_of
from engine.execution.nvrtc import INCLUDE, CompileError, compile_cuda
from engine.export.companions import PROGRAMS, write_code, write_programs, write_values
from engine.fusion.host_program import HostProgram, host_program, host_row
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.graph.nodes import OperatorGraph
from engine.kernels.nodes import Kernel
from engine.support.errors import BadInput, EngineError
from engine.support.files import replace_whole, unwritable
from engine.target import ARCHITECTURES
from engine.target.machines import is_cpu


def write_sources(
    graph: OperatorGraph,
    plan: FusionPlan,
    kernels: Iterable[tuple[FusionGroup, AnyKernel | EngineError]],
    folder: Path,
    seconds: Mapping[str, float] | None = None,
    programs: Collection[str] = (),
) -> dict[str, Any]:
    """Write one `.cu` (for a CPU `.cpp`) file a kernel, `include/` and `manifest.json`; the manifest is returned.

    A kernel that NVRTC does not compile is `unsupported` there, as is a group that has none; its text is written.

    seconds: what loading and fusing took, to stand beside the stages timed here.  programs: of `PROGRAMS`, to stand
    beside the kernels with their machine code.  Raises BadInput where the folder cannot be written, and for a program
    that there is not, MissingCapability where its disk is full.
    """
    for name in programs:
        if name not in PROGRAMS:
            raise BadInput("generate", f"--with {name}", "is no program", f"use {' or '.join(PROGRAMS)}")
        if is_cpu(plan.target):
            hint = f"{plan.target} is a CPU: leave it out"
            raise BadInput("generate", f"--with {name}", "runs kernels on a GPU", hint)
    spent = {"load": 0.0, "fuse": 0.0, **(seconds or {}), "schedule": 0.0, "print": 0.0, "compile": 0.0}
    rows: list[dict[str, Any]] = []
    unsupported = dict(plan.unsupported)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "include").mkdir(exist_ok=True)
        for header in (CPU_INCLUDE if is_cpu(plan.target) else INCLUDE).iterdir():
            replace_whole(folder / "include" / header.name, header.read_bytes())
        for group, kernel in _with_seconds(kernels, spent):
            if isinstance(kernel, EngineError):
                unsupported[group.name] = kernel.reason
                continue
            suffix = ".cpp" if isinstance(kernel, CpuKernel) else ".cu"
            replace_whole(folder / f"{group.name}{suffix}", kernel.source.text.encode())
            start = time.perf_counter()
            if isinstance(kernel, CpuKernel):
                rows.append(_cpu_row(kernel))
                continue
            try:
                rows.append(kernel_row(kernel))
            except CompileError as error:
                unsupported[group.name] = f"{error.subject}: {error.reason}"
                continue
            if programs:
                write_code(kernel, folder)
            if "torch" in programs:
                write_values(kernel, folder)
            spent["compile"] += time.perf_counter() - start
        compiled, host = {row["group"] for row in rows}, host_program(plan)
        manifest = {
            "model": graph.name,
            "seconds": spent,
            "buffers": _buffers(graph, plan, host),
            "launches": _launches(plan, host, compiled),
            "host": _host_rows(plan, host, compiled),
            "kernels": rows,
            "unsupported": unsupported,
        }
        write_programs(graph, programs, folder)
        replace_whole(folder / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
    except OSError as error:
        raise unwritable(folder, "generate", error) from error
    return manifest


def _with_seconds(
    kernels: Iterable[tuple[FusionGroup, AnyKernel | EngineError]], spent: dict[str, float]
) -> Iterator[tuple[FusionGroup, AnyKernel | EngineError]]:
    """The kernels; `spent` gains the seconds until each is there, those of its text as "print", others as "schedule".

    A kernel's own timings may be of stages that fusion ran to judge its group, in seconds that are counted there.
    """
    rest = iter(kernels)
    while True:
        start = time.perf_counter()
        found = next(rest, None)
        took = time.perf_counter() - start
        timings = () if found is None or isinstance(found[1], EngineError) else found[1].timings
        # The text is made last, so it falls into this time unless the caller had the kernel before.
        text = min(took, sum(milliseconds for stage, milliseconds in timings if stage in ("cuda", "C++")) / 1e3)
        spent["print"] += text
        spent["schedule"] += took - text
        if found is None:
            return
        yield found


def kernel_row(kernel: Kernel) -> dict[str, Any]:
    """What the manifest says of a kernel.  Raises CompileError where NVRTC refuses its text."""
    source = kernel.source
    compiled = {a: compile_cuda(source.text, a) for a in ARCHITECTURES}
    return {
        "group": kernel.group.name,
        "file": f"{kernel.group.name}.cu",
        "entry": source.entry,
        "grid": source.grid,
        "block": source.block,
        "shared_bytes": source.shared_bytes,
        "launches": [one.to_launch() for one in source.launches],
        "tensor_cores": bool(kernel.tile.intrinsic),
        "stages": {"shared": kernel.tile.stages, "register": kernel.tile.register_stages},
        "parameters": _parameters(kernel),
        "workspaces": [
            {
                "name": w.name, "parameter": w.parameter, "dtype": w.dtype, "elements": w.elements, "bytes": w.bytes,
                "alignment": w.alignment, "zeroed": w.zeroed,
            }
            for w in source.workspaces
        ],
        "compiled": {
            name: {"registers": found.registers, "spill_bytes": found.spill_bytes, "runs_on": ARCHITECTURES[name]}
            for name, found in compiled.items()
        },
        "relaxed": _relaxations(kernel),
    }


def _cpu_row(kernel: CpuKernel) -> dict[str, Any]:
    """What the manifest says of a kernel for a CPU: a function, and how a compiler makes it."""
    return {
        "group": kernel.group.name,
        "file": f"{kernel.group.name}.cpp",
        "entry": kernel.source.entry,
        "launches": [
            {"entry": kernel.source.entry, "grid": (kernel.facts.tasks,), "block": (1,), "shared_bytes": 0}
        ],
        "family": kernel.family,
        "config": dict(kernel.made.config),
        "parameters": _parameters(kernel),
        "workspaces": [],
        "compiled": {},
        "flags": flags_of(kernel.target),
        "relaxed": _relaxations(kernel),
    }


def _parameters(kernel: AnyKernel) -> list[dict[str, Any]]:
    return [
        {
            "name": b.array, "parameter": b.parameter, "dtype": b.dtype, "elements": b.elements,
            "shape": kernel.group.program.arrays[b.array].shape, "read": b.read, "written": b.written,
            "alignment": b.alignment,
        }
        for b in kernel.source.buffers
    ]  # fmt: skip


def _relaxations(kernel: AnyKernel) -> list[dict[str, str]]:
    return [
        {"author": v.placed.author, "entry": str(v.placed.entry), "because": v.because}
        for v in kernel.verdicts
        if v.outcome == "relaxed"
    ]


def _buffers(graph: OperatorGraph, plan: FusionPlan, host: HostProgram) -> list[dict[str, Any]]:
    """Every tensor in global memory with its role: the graph's, and what operators need in between."""
    used: dict[str, tuple[str, tuple[int, ...]]] = {}
    for group in plan.groups:
        for instance in group.instances:
            for name in (*group.program.inputs, *group.program.outputs):
                array, part, tensor = group.program.arrays[name], instance.parts.get(name), instance.arrays[name]
                known = graph.tensors.get(tensor)
                shape = known.shape if known else (part.whole,) if part else array.shape
                used.setdefault(tensor, (array.dtype, shape))
    for run in host.runs:
        tensors = [graph.tensors[name] for name in (*run.operator.inputs, *run.operator.outputs) if name]
        used = {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors} | used
    # In this order: what is both an input and an output of the graph counts as an output.
    roles = dict.fromkeys(used, "intermediate")
    roles |= {name: "constant" for name in used if name in graph.constants}
    roles |= {name: "input" for name in used if name in graph.inputs}
    roles |= {name: "output" for name in used if name in graph.outputs}
    return [{"name": n, "role": roles[n], "dtype": dtype, "shape": shape} for n, (dtype, shape) in used.items()]


def _launches(plan: FusionPlan, host: HostProgram, compiled: set[str]) -> list[dict[str, Any]]:
    """Launches in order, with the tensor behind each parameter's array, and its first element there if not 0.

    `when`: tensors of one element that have to be true, or false; else nobody reads what the launch writes.
    """
    rows = []
    for launch, conditions in zip(plan.launches, host.conditions, strict=True):
        if launch.group in compiled:
            group = plan.group(launch.group)
            outside = {*group.program.inputs, *group.program.outputs}
            own = group.instances[launch.instance]
            arrays = {a: t for a, t in own.arrays.items() if a in outside}
            first = {array: part.first for array, part in own.parts.items()}
            when = [{"tensor": one.tensor, "holds": one.holds} for one in conditions]
            rows.append(
                {"group": launch.group, "instance": launch.instance, "arrays": arrays, "first": first, "when": when}
            )
    return rows


def _host_rows(plan: FusionPlan, host: HostProgram, compiled: set[str]) -> list[dict[str, Any]]:
    """What the host runs, in order: after how many launches, on which tensors, and the sizes that kernels are for."""
    rows = []
    for run in host.runs:
        op = run.operator
        before = [launch for launch in plan.launches[: run.after] if launch.group in compiled]
        plain = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in op.attributes.items()}
        attributes = {name: value for name, value in plain.items() if isinstance(value, int | float | tuple | list)}
        rows.append(
            {
                **host_row(run), "after": len(before), "inputs": op.inputs, "outputs": op.outputs,
                "attributes": attributes,
            }
        )  # fmt: skip
    return rows
