"""Products and convolutions, plain and with what is fused behind them.  Weights are inputs, so that rows hold no data.

Convolutions are written as ONNX has them, channels before pixels; their bytes and operations do not depend on it.
"""

from __future__ import annotations

import math

from engine.suite.operators.elementwise import gelu, silu
from engine.suite.operators.sketch import GraphSketch, operator


@operator("matmul")
def matmul(s: GraphSketch, m: int, n: int, k: int) -> str:
    """[m, k] x [k, n]."""
    return s.node("MatMul", s.input("a", m, k), s.input("b", k, n), to="c")


@operator("gemv")
def gemv(s: GraphSketch, m: int, k: int) -> str:
    """[m, k] x [k]."""
    return s.node("MatMul", s.input("a", m, k), s.input("x", k), to="y")


@operator("scan")
def scan(s: GraphSketch, m: int, n: int, k: int) -> str:
    """Sums along rows as a product with a triangular matrix: [m, k] x the upper triangle of [k, n]."""
    triangle = s.node("Trilu", s.input("b", k, n), to="triangle", upper=1)
    return s.node("MatMul", s.input("a", m, k), triangle, to="c")


@operator("batched-matmul")
def batched_matmul(s: GraphSketch, b: int, m: int, n: int, k: int) -> str:
    """[b, m, k] x [b, k, n]."""
    return s.node("MatMul", s.input("a", b, m, k), s.input("b", b, k, n), to="c")


@operator("matmul-bias")
def matmul_bias(s: GraphSketch, m: int, n: int, k: int) -> str:
    """A product and a bias of its columns."""
    return s.node("Add", _product(s, m, n, k), s.input("bias", n), to="y")


@operator("matmul-bias-gelu")
def matmul_bias_gelu(s: GraphSketch, m: int, n: int, k: int) -> str:
    """A product, a bias, GELU by tanh."""
    biased = s.node("Add", _product(s, m, n, k, between=_unit(k)), s.input("bias", n))
    return gelu(s, biased, to="y")


@operator("matmul-bias-residual")
def matmul_bias_residual(s: GraphSketch, m: int, n: int, k: int) -> str:
    """A product, a bias, a residual of the result's shape."""
    biased = s.node("Add", _product(s, m, n, k), s.input("bias", n))
    return s.node("Add", biased, s.input("residual", m, n), to="y")


@operator("matmul-bias-gelu-cast")
def matmul_bias_gelu_cast(s: GraphSketch, m: int, n: int, k: int) -> str:
    """A product, a bias, GELU by tanh, the result in float32."""
    biased = s.node("Add", _product(s, m, n, k, between=_unit(k)), s.input("bias", n))
    return s.cast(gelu(s, biased), "float32", to="y")


@operator("matmul-swiglu")
def matmul_swiglu(s: GraphSketch, m: int, n: int, k: int) -> str:
    """silu(a b) times (a c): two products of one left operand."""
    a = s.input("a", m, k)
    gate = s.node("MatMul", a, s.input("b", k, n))
    return s.node("Mul", silu(s, gate), s.node("MatMul", a, s.input("c", k, n)), to="y")


@operator("matmul-row-scale-column-bias")
def matmul_row_scale_column_bias(s: GraphSketch, m: int, n: int, k: int) -> str:
    """A product, its rows scaled, a bias of its columns."""
    scaled = s.node("Mul", _product(s, m, n, k), s.input("scale", m, 1))
    return s.node("Add", scaled, s.input("bias", n), to="y")


def _product(s: GraphSketch, m: int, n: int, k: int, between: tuple[float, float] | None = None) -> str:
    """between: the range of the right operand's values."""
    return s.node("MatMul", s.input("a", m, k), s.input("b", k, n, between=between), to="product")


def _unit(k: int) -> tuple[float, float]:
    """The range of weights, drawn evenly, that keeps a product of depth k at the size of its left operand.

    GELU takes the cube of its operand: of sums of many hundred numbers of size 1 it leaves float16.
    """
    return -math.sqrt(3 / k), math.sqrt(3 / k)


@operator("conv")
def conv(
    s: GraphSketch, batch: int, space: tuple[int, ...], channels: int, filters: int, kernel: tuple[int, ...],
    stride: tuple[int, ...], pad: tuple[int, ...], dilation: tuple[int, ...] = (),
) -> str:  # fmt: skip
    """A convolution over one to three axes of `space`; one number each of kernel, stride, pad and dilation per axis."""
    reach = dilation or (1,) * len(space)
    return s.node(
        "Conv", s.input("x", batch, channels, *space), s.input("w", filters, channels, *kernel), to="y",
        kernel_shape=kernel, strides=stride, pads=pad * 2, dilations=reach,
    )  # fmt: skip


@operator("transposed-conv")
def transposed_conv(
    s: GraphSketch, batch: int, space: tuple[int, ...], channels: int, filters: int, kernel: tuple[int, ...],
    stride: tuple[int, ...], pad: tuple[int, ...],
) -> str:  # fmt: skip
    """A transposed convolution, the gradient of a convolution with the same kernel, stride and pad."""
    return s.node(
        "ConvTranspose", s.input("x", batch, channels, *space), s.input("w", channels, filters, *kernel), to="y",
        kernel_shape=kernel, strides=stride, pads=pad * 2,
    )  # fmt: skip
