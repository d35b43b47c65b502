"""Which of the kernels in `triton_kernels` a row is, and how it is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import triton

from engine.support.errors import Unsupported
from tests.benchmarks import triton_kernels as kernels
from tests.benchmarks.peers import Arrays, Case, System

LONGEST_ROW = 1 << 16
"""Elements of a row that one program holds."""
EPSILON = 1e-5
"""Of the suites' normalisations."""

Launch = Callable[[Arrays, Any], None]
"""Queues a kernel on inputs and on the memory of its result."""


def triton_system(case: Case, copies: Sequence[Arrays]) -> System:
    """One launch of a kernel that was written for this operator; results have memory of their own for each copy."""
    operator = case.row.operator
    if operator not in LAUNCHES:
        raise Unsupported("benchmark", operator, "no kernel was written in Triton for it")
    kernel, launch = LAUNCHES[operator]
    (output,) = case.model.graph.output
    shape = [dim.dim_value for dim in output.type.tensor_type.shape.dim]
    longest = shape[-1] if kernel in (kernels.softmax, kernels.layer_norm) else 0
    if longest > LONGEST_ROW:
        raise Unsupported("benchmark", operator, f"its rows of {longest:,} elements are too long for one program")
    made = [torch.empty(shape, dtype=next(iter(copy.values())).dtype, device=case.device) for copy in copies]

    def step(copy: int) -> list[Any]:
        number = copy % len(copies)
        launch(copies[number], made[number])
        return [made[number]]

    def ran() -> str:
        best = getattr(kernel, "best_config", None)
        return f"a kernel written by hand, {len(kernel.configs)} configurations tried; {best or 'the only one'}"

    return System(step, ran)


def _product(bias: bool, gelu: bool) -> Launch:
    def launch(given: Arrays, out: Any) -> None:
        a, b = given["a"], given["b"]
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = a.shape[0] if a.dim() == 3 else 1

        def grid(sizes: Mapping[str, int]) -> tuple[int, int]:
            return triton.cdiv(m, sizes["TILE_M"]) * triton.cdiv(n, sizes["TILE_N"]), batch

        kernels.product[grid](
            a, b, given["bias"] if bias else a, out, m, n, k, m * k, k * n, m * n, HAS_BIAS=bias, GELU=gelu
        )

    return launch


def _softmax(given: Arrays, out: Any) -> None:
    rows, n = out.shape
    kernels.softmax[(rows,)](given["x"], out, n, ROW=triton.next_power_of_2(n))


def _layer_norm(given: Arrays, out: Any) -> None:
    rows, n = out.shape
    row = triton.next_power_of_2(n)
    kernels.layer_norm[(rows,)](given["x"], given["gain"], given["shift"], out, n, EPSILON, ROW=row)


def _element_wise(kernel: Any, *names: str, columns: bool = False) -> Launch:
    def launch(given: Arrays, out: Any) -> None:
        count = out.numel()
        sizes = (count, out.shape[-1]) if columns else (count,)
        kernel[lambda found: (triton.cdiv(count, found["WIDTH"]),)](*(given[name] for name in names), out, *sizes)

    return launch


LAUNCHES: Mapping[str, tuple[Any, Launch]] = {
    "matmul": (kernels.product, _product(bias=False, gelu=False)),
    "batched-matmul": (kernels.product, _product(bias=False, gelu=False)),
    "matmul-bias": (kernels.product, _product(bias=True, gelu=False)),
    "matmul-bias-gelu": (kernels.product, _product(bias=True, gelu=True)),
    "softmax": (kernels.softmax, _softmax),
    "layernorm": (kernels.layer_norm, _layer_norm),
    "add": (kernels.add, _element_wise(kernels.add, "a", "b")),
    "copy": (kernels.negate, _element_wise(kernels.negate, "x")),
    "bias-gelu": (kernels.bias_gelu, _element_wise(kernels.bias_gelu, "x", "bias", columns=True)),
    "swiglu": (kernels.swiglu, _element_wise(kernels.swiglu, "a", "b")),
}
"""Row's operator -> its kernel and how that is launched."""
