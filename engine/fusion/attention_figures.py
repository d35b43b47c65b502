"""What one kernel for an attention comes to by the models of the search, beside kernels of other kinds."""

from __future__ import annotations

from engine.fusion.attention import attention_of
from engine.fusion.attention_cost import LAUNCHES, gain
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes


def attention_figures(program: TensorProgram, target: Target) -> tuple[int, float]:
    """(bytes of global memory, microseconds) of a program that is one attention.

    As of every kernel with a product the launch and the moving count, and besides them what arithmetic and idle
    multiprocessors add to one kernel more than to separate ones: the products by themselves count for both.
    """
    moved = sum(compulsory_bytes(program))
    saved = gain(program, attention_of(program), target)
    launch, bandwidth = target.launch_overhead.value, target.dram_bandwidth.value
    together = launch + saved.outside / bandwidth
    apart = LAUNCHES * launch + (saved.outside + saved.between) / bandwidth
    more = (saved.fused - together) - (saved.separate - apart)
    return moved, (launch + moved / bandwidth + more) * MICROSECONDS
