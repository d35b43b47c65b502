"""Check the layout of compiled machine code against its launch: what the driver would refuse or answer with a fault.

The emulator and the PTX interpreter allocate what a kernel asks for themselves.  Neither sees where the compiler put a
variable, how a launch has to pack its parameters, or whether a block's threads fit in the registers of an SM.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from engine.execution.cubin import CubinLayout, EntryLayout, ModuleVariable, read_cubin
from engine.execution.nodes import Check, Compiled, Finding
from engine.execution.nvrtc import compile_cuda
from engine.kernels.nodes import Kernel
from engine.support.errors import Unsupported
from engine.target.hardware import VECTOR_BYTES
from engine.target.nodes import Target
from engine.target.occupancy import occupancy
from engine.tile.source import CudaSource, KernelLaunch
from engine.verify.levels import LINE_TABLE

POINTER_BYTES = 8
"""Every parameter of a kernel is a pointer, and all launchers pack nothing else."""
LAYOUT = "layout"
"""Kind of a finding: a launch that cannot be."""


def check_layout(kernel: Kernel, found: Check) -> Check:
    """A check of a kernel with what is wrong with the layout of its machine code.  Raises as `compile_cuda` does."""
    compiled = compile_cuda(kernel.source.text, kernel.target.architecture, LINE_TABLE)  # that of the PTX that ran
    faults = layout_faults(kernel.source, compiled, kernel.target)
    if not faults:
        return found
    message = found.message or f"{faults[0].kind}: {faults[0].message}"
    return replace(found, status="fail", findings=(*found.findings, *faults), message=message)


def layout_faults(source: CudaSource, compiled: Compiled, target: Target) -> tuple[Finding, ...]:
    """Everything in a cubin that contradicts how its kernel is launched on a target."""
    layout = read_cubin(compiled.cubin)
    found = [*_variable_faults(source, layout)]
    entries = {entry.name: entry for entry in layout.entries}
    for launch in source.launches:
        line = _line_of(source.text, launch.entry)
        entry = entries.get(launch.entry)
        reasons = (
            [f"there is no entry {launch.entry}"]
            if entry is None
            else [*_parameter_faults(source, entry), *_resource_faults(launch, entry, compiled, target)]
        )
        found += [Finding(LAYOUT, line, reason) for reason in reasons]
    return tuple(found)


def _variable_faults(source: CudaSource, layout: CubinLayout) -> Iterator[Finding]:
    """Variables of the module: launches on two streams would race for them."""
    for variable in layout.variables:
        line = _line_of(source.text, variable.name)
        yield Finding(LAYOUT, line, f"{variable.name} is memory of the module, which all launches share")
        if _is_misaligned(variable):
            where = f"{variable.name} begins at byte {variable.offset} of the module's memory"
            yield Finding("misaligned", line, f"{where}, and {VECTOR_BYTES} bytes are accessed at once")


def _is_misaligned(variable: ModuleVariable) -> bool:
    """Whether an access of the widest kind would fault; what is smaller than that has none."""
    return variable.size >= VECTOR_BYTES and variable.offset % VECTOR_BYTES != 0


def _parameter_faults(source: CudaSource, entry: EntryLayout) -> Iterator[str]:
    """Parameters that lie elsewhere than where the launchers pack their pointers, one after the other."""
    names = [each.parameter for each in source.buffers] + [each.parameter for each in source.workspaces]
    if len(entry.parameters) != len(names):
        yield f"{entry.name} takes {len(entry.parameters)} parameters, the launch packs {len(names)}"
        return
    for number, (name, slot) in enumerate(zip(names, entry.parameters, strict=True)):
        if slot != (number * POINTER_BYTES, POINTER_BYTES):
            yield f"{name} is packed at byte {number * POINTER_BYTES}, {entry.name} reads {slot.size} at {slot.offset}"
    packed = POINTER_BYTES * len(names)
    if entry.parameter_bytes != packed:
        yield f"{entry.name} takes {entry.parameter_bytes} bytes of parameters, the launch packs {packed}"


def _resource_faults(launch: KernelLaunch, entry: EntryLayout, compiled: Compiled, target: Target) -> Iterator[str]:
    """Threads, registers and shared memory that the driver would refuse."""
    threads = math.prod(launch.block)
    if entry.most_threads and threads > entry.most_threads:
        yield f"{threads} threads are launched, {entry.name} is compiled for {entry.most_threads}"
    if entry.registers > compiled.registers:
        yield f"{entry.name} needs {entry.registers} registers a thread, ptxas remarked {compiled.registers}"
    try:
        occupancy(threads, launch.shared_bytes + compiled.static_shared_bytes, entry.registers, target)
    except Unsupported as refused:
        yield f"{entry.name} cannot be launched: {refused.reason}"
    if compiled.spill_bytes and not entry.stack_bytes:
        yield f"{entry.name} spills registers, but no stack is reserved for them"
    if launch.shared_bytes and 0 < entry.shared_alignment < VECTOR_BYTES:
        where = f"shared memory begins at a multiple of {entry.shared_alignment}"
        yield f"{where}, {VECTOR_BYTES} bytes are accessed at once"


def _line_of(text: str, name: str) -> int:
    """The first line that declares a name; 0 where none does."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return next((number for number, line in enumerate(text.splitlines(), 1) if word.search(line)), 0)
