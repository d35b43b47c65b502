"""XLA through JAX: the row's graph, compiled, over PyTorch's memory.  Imported only where JAX is installed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

# PyTorch holds the memory of the process: without this JAX would take three quarters of the GPU at its start.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
import torch
from jax import lax
from jax import numpy as jnp
from onnx import helper

from tests.benchmarks.peers import Arrays, Case, System, walk

jax.config.update("jax_enable_x64", True)  # labels are int64

SAMPLE_MICROSECONDS = 2000.0
"""A sample holds as many runs as take this long."""
MOST_RUNS = 16
OUTPUT_BYTES = 8 << 30
"""Memory that the results of one sample may take."""


def xla_system(case: Case, copies: Sequence[Arrays]) -> System:
    """One program of XLA for the row.

    XLA has a stream of its own, which PyTorch's events do not see.  A sample is what a program that runs the row many
    times takes longer than one run does, by the host's clock: what it costs to start and to await a program is not
    counted.  Each run is held behind the one before it.
    """
    graph = walk(case.model, TABLE, _constant)
    names = list(copies[0])
    arrays = [[jax.dlpack.from_dlpack(copy[name].contiguous()) for name in names] for copy in copies]
    one = jax.jit(lambda given: graph(dict(zip(names, given, strict=True))))

    def step(copy: int) -> list[Any]:
        results = jax.block_until_ready(one(arrays[copy % len(arrays)]))
        return [torch.from_dlpack(result) for result in results]

    def sampler() -> Callable[[int], float]:
        results = jax.block_until_ready(one(arrays[0]))
        runs = 1 + _more(_seconds(lambda: one(arrays[0])) * 1e6, sum(result.nbytes for result in results))
        given = [arrays[n % len(arrays)] for n in range(runs)]
        program = jax.jit(lambda all_given: _in_turn(one, all_given)).lower(given).compile()
        jax.block_until_ready(program(given))

        def sample(number: int) -> float:
            alone = min(_seconds(lambda: one(arrays[number % len(arrays)])) for _ in range(3))
            return max(_seconds(lambda: program(given)) - alone, 1e-9) * 1e6 / (runs - 1)

        return sample

    ran = f"jax.jit on {jax.local_devices()[0].platform}; timed by the host, many runs in one program less one run"
    return System(step, lambda: ran, sampler=sampler)


def _more(once: float, size: int) -> int:
    """How many runs past the first a sample holds."""
    return max(1, min(MOST_RUNS, int(SAMPLE_MICROSECONDS / once) + 1, OUTPUT_BYTES // max(size, 1)))


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - started


def _in_turn(one: Callable[[Any], Any], all_given: Sequence[Any]) -> list[Any]:
    """Every copy's results; a run's inputs are tied to the results before it, so that none overlaps or is left out."""
    made: list[Any] = []
    for given in all_given:
        tied = lax.optimization_barrier((given, made[-1]))[0] if made else given
        made.append(one(tied))
    return made


def _constant(value: np.ndarray) -> Any:
    return value.tolist() if value.ndim else jnp.asarray(value)


def _conv(x: Any, w: Any, *, strides: Any, pads: Any, dilations: Any, kernel_shape: Any) -> Any:
    half = len(pads) // 2
    sides = list(zip(pads[:half], pads[half:], strict=True))
    letters = "DHW"[3 - half :]
    forms = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    return lax.conv_general_dilated(x, w, tuple(strides), sides, None, tuple(dilations), forms)


def _transposed(x: Any, w: Any, *, strides: Any, pads: Any, kernel_shape: Any) -> Any:
    """The gradient of a convolution: the input dilated by the stride, the kernel turned over."""
    half = len(pads) // 2
    sides = [(r - 1 - a, r - 1 - b) for r, a, b in zip(kernel_shape, pads[:half], pads[half:], strict=True)]
    letters = "DHW"[3 - half :]
    forms = (f"NC{letters}", f"IO{letters}", f"NC{letters}")
    turned = jnp.flip(w, tuple(range(2, w.ndim)))
    return lax.conv_general_dilated(x, turned, (1,) * half, sides, tuple(strides), None, forms)


def _layer_norm(x: Any, gain: Any, shift: Any, *, axis: int, epsilon: float) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean(axis, keepdims=True)
    variance = jnp.square(wide - mean).mean(axis, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + epsilon)).astype(x.dtype) * gain + shift


def _batch_norm(x: Any, gain: Any, shift: Any, mean: Any, variance: Any, epsilon: float = 1e-5) -> Any:
    form = (1, -1, *(1,) * (x.ndim - 2))
    scale = (gain.astype(jnp.float32) * lax.rsqrt(variance.astype(jnp.float32) + epsilon)).reshape(form)
    wide = (x.astype(jnp.float32) - mean.astype(jnp.float32).reshape(form)) * scale
    return (wide + shift.astype(jnp.float32).reshape(form)).astype(x.dtype)


def _log_sum_exp(x: Any, axes: Any, keepdims: int = 1) -> Any:
    wide = jax.scipy.special.logsumexp(x.astype(jnp.float32), tuple(axes), keepdims=bool(keepdims))
    return wide.astype(x.dtype)


def _matmul(a: Any, b: Any) -> Any:
    wide = jnp.matmul(a, b, preferred_element_type=jnp.float32)
    return wide.astype(a.dtype)


TABLE = {
    "MatMul": _matmul,
    "Conv": _conv,
    "ConvTranspose": _transposed,
    "Trilu": lambda x, upper=1: jnp.triu(x) if upper else jnp.tril(x),
    "Add": jnp.add, "Sub": jnp.subtract, "Mul": jnp.multiply, "Div": jnp.divide,
    "Neg": jnp.negative, "Sqrt": jnp.sqrt, "Tanh": jnp.tanh, "Sigmoid": jax.nn.sigmoid, "Relu": jax.nn.relu,
    "Softmax": lambda x, axis=-1: jax.nn.softmax(x.astype(jnp.float32), axis=axis).astype(x.dtype),
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "ReduceMean": lambda x, axes, keepdims=1: x.mean(tuple(axes), keepdims=bool(keepdims)),
    "ReduceSum": lambda x, axes=None, keepdims=1: x.sum(axes and tuple(axes), keepdims=bool(axes and keepdims)),
    "ReduceLogSumExp": _log_sum_exp,
    "GatherElements": lambda x, index, axis=0: jnp.take_along_axis(x, index, axis),
    "Cast": lambda x, to: x.astype(helper.tensor_dtype_to_np_dtype(to)),
    "Split": lambda x, axis=0, num_outputs=2: tuple(jnp.split(x, num_outputs, axis)),
    "Concat": lambda *x, axis: jnp.concatenate(x, axis),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Transpose": lambda x, perm: jnp.transpose(x, perm),
}  # fmt: skip
