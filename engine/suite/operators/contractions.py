"""Products and convolutions, plain and with what is fused behind them.  Weights are inputs, so that rows hold no data.

Convolutions are written as ONNX has them, channels before pixels; their bytes and operations do not depend on it.
"""

from __future__ import annotations

from engine.suite.operators.elementwise import gelu, silu
from engine.suite.operators.sketch import GraphSketch, operator


@operator("matmul")
def matmul(s: GraphSketch, m: int, n: int, k: int) -> None:
    """[m, k] x [k, n]."""
    s.node("MatMul", s.input("a", m, k), s.input("b", k, n), to="c")
    s.output("c", m, n)


@operator("gemv")
def gemv(s: GraphSketch, m: int, k: int) -> None:
    """[m, k] x [k]."""
    s.node("MatMul", s.input("a", m, k), s.input("x", k), to="y")
    s.output("y", m)


@operator("scan")
def scan(s: GraphSketch, m: int, n: int, k: int) -> None:
    """Sums along rows as a product with a triangular matrix: [m, k] x the upper triangle of [k, n]."""
    triangle = s.node("Trilu", s.input("b", k, n), to="triangle", upper=1)
    s.node("MatMul", s.input("a", m, k), triangle, to="c")
    s.output("c", m, n)


@operator("batched-matmul")
def batched_matmul(s: GraphSketch, b: int, m: int, n: int, k: int) -> None:
    """[b, m, k] x [b, k, n]."""
    s.node("MatMul", s.input("a", b, m, k), s.input("b", b, k, n), to="c")
    s.output("c", b, m, n)


@operator("matmul-bias")
def matmul_bias(s: GraphSketch, m: int, n: int, k: int) -> None:
    """A product and a bias of its columns."""
    s.node("Add", _product(s, m, n, k), s.input("bias", n), to="y")
    s.output("y", m, n)


@operator("matmul-bias-gelu")
def matmul_bias_gelu(s: GraphSketch, m: int, n: int, k: int) -> None:
    """A product, a bias, GELU by tanh."""
    biased = s.node("Add", _product(s, m, n, k), s.input("bias", n))
    gelu(s, biased, to="y")
    s.output("y", m, n)


@operator("matmul-bias-residual")
def matmul_bias_residual(s: GraphSketch, m: int, n: int, k: int) -> None:
    """A product, a bias, a residual of the result's shape."""
    biased = s.node("Add", _product(s, m, n, k), s.input("bias", n))
    s.node("Add", biased, s.input("residual", m, n), to="y")
    s.output("y", m, n)


@operator("matmul-bias-gelu-cast")
def matmul_bias_gelu_cast(s: GraphSketch, m: int, n: int, k: int) -> None:
    """A product, a bias, GELU by tanh, the result in float32."""
    biased = s.node("Add", _product(s, m, n, k), s.input("bias", n))
    s.cast(gelu(s, biased), "float32", to="y")
    s.output("y", m, n, dtype="float32")


@operator("matmul-swiglu")
def matmul_swiglu(s: GraphSketch, m: int, n: int, k: int) -> None:
    """silu(a b) times (a c): two products of one left operand."""
    a = s.input("a", m, k)
    gate = s.node("MatMul", a, s.input("b", k, n))
    s.node("Mul", silu(s, gate), s.node("MatMul", a, s.input("c", k, n)), to="y")
    s.output("y", m, n)


@operator("matmul-row-scale-column-bias")
def matmul_row_scale_column_bias(s: GraphSketch, m: int, n: int, k: int) -> None:
    """A product, its rows scaled, a bias of its columns."""
    scaled = s.node("Mul", _product(s, m, n, k), s.input("scale", m, 1))
    s.node("Add", scaled, s.input("bias", n), to="y")
    s.output("y", m, n)


def _product(s: GraphSketch, m: int, n: int, k: int) -> str:
    return s.node("MatMul", s.input("a", m, k), s.input("b", k, n), to="product")


@operator("conv")
def conv(
    s: GraphSketch, batch: int, space: tuple[int, ...], channels: int, filters: int, kernel: tuple[int, ...],
    stride: tuple[int, ...], pad: tuple[int, ...], dilation: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """A convolution over one to three axes of `space`; one number each of kernel, stride, pad and dilation per axis."""
    reach = dilation or (1,) * len(space)
    s.node(
        "Conv", s.input("x", batch, channels, *space), s.input("w", filters, channels, *kernel), to="y",
        kernel_shape=kernel, strides=stride, pads=pad * 2, dilations=reach,
    )  # fmt: skip
    axes = zip(space, kernel, stride, pad, reach, strict=True)
    s.output("y", batch, filters, *((size + 2 * p - d * (r - 1) - 1) // t + 1 for size, r, t, p, d in axes))


@operator("transposed-conv")
def transposed_conv(
    s: GraphSketch, batch: int, space: tuple[int, ...], channels: int, filters: int, kernel: tuple[int, ...],
    stride: tuple[int, ...], pad: tuple[int, ...],
) -> None:  # fmt: skip
    """A transposed convolution, the gradient of a convolution with the same kernel, stride and pad."""
    s.node(
        "ConvTranspose", s.input("x", batch, channels, *space), s.input("w", channels, filters, *kernel), to="y",
        kernel_shape=kernel, strides=stride, pads=pad * 2,
    )  # fmt: skip
    axes = zip(space, kernel, stride, pad, strict=True)
    s.output("y", batch, filters, *((size - 1) * t - 2 * p + r for size, r, t, p in axes))
