"""What of a kernel is executed: its CUDA text, or the PTX that NVRTC compiles it to.

"source": g++ compiles the text with stand-ins for the GPU's functions (engine.execution.emulate).  "ptx": the compiled
code is interpreted (engine.execution.ptx), which shares nothing with those stand-ins: fragments of tensor cores,
packing of halves and parameters, predicates and address arithmetic are the compiler's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import Emulation
from engine.execution.nvrtc import compile_ptx
from engine.execution.ptx.execute import execute
from engine.kernels.nodes import Kernel
from engine.support.errors import BadInput
from engine.tile.source import CudaSource

SOURCE, PTX = "source", "ptx"
LEVELS = (SOURCE, PTX)
LINE_TABLE = ("-lineinfo",)
"""NVRTC's option for the lines of the CUDA text in the PTX."""

Arrays = dict[str, np.ndarray]


class Run(Protocol):
    """Runs some blocks of a kernel; arguments and results as of `emulate`."""

    def __call__(
        self, source: CudaSource, arrays: Mapping[str, np.ndarray], *, blocks: Sequence[int] | None = None,
        order: str = "late", timeout: float = 120,
    ) -> tuple[Emulation, Arrays, Arrays]: ...  # fmt: skip


def find_run(level: str, kernel: Kernel, ptx: str | None = None) -> Run:
    """How kernels run at a level, for the target of `kernel`.

    ptx: text in place of what NVRTC makes of this kernel.  Raises BadInput for an unknown level.
    """
    if level not in LEVELS:
        raise BadInput("check", f"level {level!r}", f"is not one of {', '.join(LEVELS)}")
    if level == SOURCE:
        return emulate

    def run(
        source: CudaSource, arrays: Mapping[str, np.ndarray], *, blocks: Sequence[int] | None = None,
        order: str = "late", timeout: float = 120,
    ) -> tuple[Emulation, Arrays, Arrays]:  # fmt: skip
        given = ptx if source == kernel.source else None
        text = given or compile_ptx(source.text, kernel.target.architecture, LINE_TABLE)
        return execute(source, text, arrays, blocks=blocks, order=order, timeout=timeout)

    return run
