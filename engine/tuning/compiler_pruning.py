"""Prune compiled kernels by NVRTC's figures (errors, spills, occupancy) before they are measured."""

from __future__ import annotations

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.nvrtc import CompileError, compile_cuda
from engine.support.errors import MissingCapability, Unsupported
from engine.target.occupancy import occupancy

REFUSED, SPILLS, ROOM = "refused by the compiler", "spilled registers", "no room on an SM"
"""Rules that drop compiled kernels."""
MOST_SPILLED = 128
"""Spilled bytes of a thread that are tolerated: so few are spilled outside the innermost loop, at little cost."""
COMPILED_RULES = {
    REFUSED: "there is nothing to run",
    SPILLS: "what does not fit the registers goes to memory and back in the innermost loop",
    ROOM: "not one block would ever start",
}
"""Rule -> why it drops."""


def compiled_limits(kernel: AnyKernel) -> str:
    """Why a kernel is not worth measuring, "RULE: FIGURES" with a rule of `COMPILED_RULES`; "" where it is.

    Nothing is said where there is no NVRTC, and of kernels for CPUs.
    """
    if isinstance(kernel, CpuKernel):
        return ""
    try:
        found = compile_cuda(kernel.source.text, kernel.target.architecture)
    except MissingCapability:
        return ""
    except CompileError as error:
        return f"{REFUSED}: {error.reason}"
    if found.spill_bytes > MOST_SPILLED:
        return f"{SPILLS}: {found.spill_bytes} bytes of a thread, which has {found.registers} registers"
    threads = kernel.tile.threads
    try:
        occupancy(threads, kernel.source.shared_bytes, found.registers, kernel.target)
    except Unsupported as error:
        return f"{ROOM}: {error.reason}"
    return ""


def rule_of(reason: str) -> str:
    """The rule that a reason of `compiled_limits` names."""
    return reason.partition(": ")[0]
