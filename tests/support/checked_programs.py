"""Kernels of programs that come from no graph, emulated against the interpreter of tensor programs."""

from __future__ import annotations

import zlib

import numpy as np

from engine.kernels.nodes import Kernel
from engine.tensor.evaluate import evaluate
from engine.verify.kernel import Check, check_kernel


def check_program(kernel: Kernel, timeout: float = 120.0) -> Check:
    """Emulate a kernel with seeded inputs of its own program, and compare with its exact values."""
    program = kernel.group.program
    draw = np.random.default_rng(zlib.crc32(program.name.encode()))
    arrays = [program.arrays[name] for name in program.inputs]
    inputs = {a.name: draw.standard_normal(a.shape).astype(a.dtype) for a in arrays}
    values = evaluate(program, inputs, exact=True)
    found = {name: np.asarray(values[name]).astype(program.arrays[name].dtype) for name in program.outputs}
    return check_kernel(kernel, {**inputs, **found}, inputs, timeout)
