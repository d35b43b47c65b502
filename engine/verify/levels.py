"""What of a kernel is executed: its CUDA text, or the PTX that NVRTC compiles it to.

"source": g++ compiles the text with stand-ins for the GPU's functions (engine.execution.emulate).  "ptx": the compiled
code is interpreted (engine.execution.ptx), which shares nothing with those stand-ins: fragments of tensor cores,
packing of halves and parameters, predicates and address arithmetic are the compiler's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import Check, Emulation
from engine.execution.nvrtc import compile_ptx_and_cubin, nvrtc_version
from engine.execution.ptx.execute import execute
from engine.kernels.nodes import Kernel
from engine.support.errors import BadInput
from engine.tile.source import CudaSource

AUTO, BOTH, SOURCE, PTX = "auto", "both", "source", "ptx"
LEVELS = (SOURCE, PTX)
NOT_RUN = "not run"
LINE_TABLE = ("-lineinfo",)
"""NVRTC's option for the lines of the CUDA text in the PTX."""

PTX_WORK = 4_000_000
"""Operations and bytes of a kernel up to which its compiled code is run too where nobody chose a level: a second."""

Arrays = dict[str, np.ndarray]


class KernelRun(Protocol):
    """Runs some blocks of a kernel; arguments and results as of `emulate`."""

    def __call__(
        self, source: CudaSource, arrays: Mapping[str, np.ndarray], *, blocks: Sequence[int] | None = None,
        order: str = "late", timeout: float = 120,
    ) -> tuple[Emulation, Arrays, Arrays]: ...  # fmt: skip


def work_of(kernel: Kernel) -> float:
    """What one run of all blocks costs: operations, and bytes of global and shared memory."""
    facts = kernel.facts
    return facts.flops + facts.tensor_flops + 8 * facts.special + facts.l2_bytes + facts.shared_bytes_moved


def choose_levels(level: str, kernel: AnyKernel) -> tuple[str, ...]:
    """The levels that a word stands for: "both", or "auto": the compiled code's, too, where it costs little to run.

    A CPU's kernel has one, which is executed.
    """
    if isinstance(kernel, CpuKernel):
        return (SOURCE,)
    if level == AUTO:
        return LEVELS if work_of(kernel) <= PTX_WORK and nvrtc_version() else (SOURCE,)
    return levels_of(level)


def levels_of(word: str) -> tuple[str, ...]:
    """All levels for "both", else the one of that name; BadInput where there is none."""
    if word not in (*LEVELS, BOTH):
        raise BadInput("check", f"level {word!r}", f"is not one of {', '.join((*LEVELS, BOTH, AUTO))}")
    return LEVELS if word == BOTH else (word,)


def join_levels(checks: Mapping[str, Check]) -> Check:
    """The worst of the checks of one kernel or output, with what each level came to.  checks: by level."""
    if all(check.levels for check in checks.values()):  # of a kernel that has one level, which its check names
        return next(iter(checks.values()))
    worst = min(checks.values(), key=lambda check: ("fail", "pass", "unsupported").index(check.status))
    return replace(worst, levels={level: _outcome(checks.get(level)) for level in LEVELS})


def _outcome(check: Check | None) -> str:
    status = check.status if check else NOT_RUN
    return f"{status}: {check.message}" if check and status == "unsupported" else status


def find_run(level: str, kernel: Kernel, ptx: str | None = None, checked: bool = True) -> KernelRun:
    """How kernels run at a level, for the target of `kernel`.

    ptx: text in place of what NVRTC makes of this kernel.  checked: whether CUDA text runs with all checks, which the
    compiled code always does.  Raises BadInput for an unknown level, and for PTX at another.
    """
    if level not in LEVELS:
        raise BadInput("check", f"level {level!r}", f"is not one of {', '.join(LEVELS)}")
    if level == SOURCE:
        if ptx is not None:
            raise BadInput("check", f"level {level!r}", "runs the CUDA text, and PTX is given", f"level={PTX!r}")
        return partial(emulate, checked=checked)

    def run(
        source: CudaSource, arrays: Mapping[str, np.ndarray], *, blocks: Sequence[int] | None = None,
        order: str = "late", timeout: float = 120,
    ) -> tuple[Emulation, Arrays, Arrays]:  # fmt: skip
        given = ptx if source == kernel.source else None
        text = given or compile_ptx_and_cubin(source.text, kernel.target.architecture, LINE_TABLE)
        return execute(source, text, arrays, blocks=blocks, order=order, timeout=timeout)

    return run
