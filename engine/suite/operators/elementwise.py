"""Rows without a reduction: each element is read, computed and written."""

from __future__ import annotations

import math

from engine.suite.operators.sketch import GraphSketch, operator


def gelu(s: GraphSketch, x: str, to: str = "") -> str:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), written out."""
    return s.node("Mul", s.node("Mul", x, s.number(0.5)), s.node("Add", _gelu_tanh(s, x), s.number(1)), to=to)


def _gelu_tanh(s: GraphSketch, x: str) -> str:
    cubic = s.node("Mul", s.node("Mul", s.node("Mul", x, x), x), s.number(0.044715))
    return s.node("Tanh", s.node("Mul", s.node("Add", x, cubic), s.number(math.sqrt(2 / math.pi))))


def gelu_slope(s: GraphSketch, x: str) -> str:
    """The derivative of `gelu`."""
    t = _gelu_tanh(s, x)
    half = s.node("Mul", s.node("Add", t, s.number(1)), s.number(0.5))
    inner = s.node("Add", s.node("Mul", s.node("Mul", x, x), s.number(3 * 0.044715)), s.number(1))
    rise = s.node("Sub", s.number(1), s.node("Mul", t, t))
    outer = s.node("Mul", s.node("Mul", x, s.number(0.5 * math.sqrt(2 / math.pi))), rise)
    return s.node("Add", half, s.node("Mul", outer, inner))


def silu(s: GraphSketch, x: str) -> str:
    """x sigmoid(x)."""
    return s.node("Mul", x, s.node("Sigmoid", x))


@operator("copy")
def copy(s: GraphSketch, elements: int) -> str:
    """Read and write, the sign turned: a plain copy is no operator of any graph."""
    return s.node("Neg", s.input("x", elements), to="y")


@operator("add")
def add(s: GraphSketch, elements: int) -> str:
    """Two arrays into a third."""
    return s.node("Add", s.input("a", elements), s.input("b", elements), to="c")


@operator("bias-gelu")
def bias_gelu(s: GraphSketch, m: int, n: int) -> str:
    """A bias of the columns, then GELU by tanh."""
    return gelu(s, s.node("Add", s.input("x", m, n), s.input("bias", n)), to="y")


@operator("swiglu")
def swiglu(s: GraphSketch, m: int, n: int) -> str:
    """silu(a) b."""
    return s.node("Mul", silu(s, s.input("a", m, n)), s.input("b", m, n), to="y")


@operator("broadcast-chain")
def broadcast_chain(s: GraphSketch, m: int, n: int) -> str:
    """tanh((a b + c) row + column)."""
    inner = s.node("Add", s.node("Mul", s.input("a", m, n), s.input("b", m, n)), s.input("c", m, n))
    scaled = s.node("Mul", inner, s.input("row", n))
    return s.node("Tanh", s.node("Add", scaled, s.input("column", m, 1)), to="y")


@operator("batchnorm-relu")
def batchnorm_relu(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """Normalisation with stored statistics, then ReLU."""
    return s.node("Relu", _batchnorm(s, batch, channels, space), to="y")


@operator("batchnorm-relu-nhwc")
def batchnorm_relu_nhwc(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """As batchnorm-relu, the channels last in memory: the axes are turned around it in name alone."""
    first = (0, len(space) + 1, *range(1, len(space) + 1))
    last = (0, *range(2, len(space) + 2), 1)
    turned = s.node("Transpose", s.input("x", batch, *space, channels), perm=first)
    return s.node("Transpose", s.node("Relu", _normal(s, turned, channels)), perm=last, to="y")


@operator("batchnorm-add-relu")
def batchnorm_add_relu(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """Normalisation with stored statistics, a residual, ReLU: what follows a convolution."""
    normal = _batchnorm(s, batch, channels, space)
    return s.node("Relu", s.node("Add", normal, s.input("residual", batch, channels, *space)), to="y")


def _batchnorm(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    return _normal(s, s.input("x", batch, channels, *space), channels)


def _normal(s: GraphSketch, x: str, channels: int) -> str:
    """By stored statistics."""
    gains = [s.input(name, channels) for name in ("gain", "shift", "mean")]
    return s.node("BatchNormalization", x, *gains, s.input("variance", channels, between=(0.5, 1.5)))


@operator("qkv-split")
def qkv_split(s: GraphSketch, batch: int, sequence: int, heads: int, head: int) -> list[str]:
    """A bias, then [batch, sequence, 3 heads head] into three of [batch, heads, sequence, head]."""
    width = heads * head
    biased = s.node("Add", s.input("x", batch, sequence, 3 * width), s.input("bias", 3 * width))
    parts = s.nodes("Split", biased, to=("q_part", "k_part", "v_part"), axis=2, num_outputs=3)
    split = (s.node("Reshape", part, s.integers(batch, sequence, heads, head)) for part in parts)
    return [s.node("Transpose", part, to=name, perm=(0, 2, 1, 3)) for name, part in zip("qkv", split, strict=True)]


@operator("rope")
def rope(s: GraphSketch, batch: int, sequence: int, heads: int, head: int) -> tuple[str, str]:
    """Rotary positions of queries and keys: x cos + rotated(x) sin, the halves of a head as pairs."""
    cosine, sine = (s.input(name, sequence, 1, head) for name in ("cosine", "sine"))
    for name in ("q", "k"):
        x = s.input(name, batch, sequence, heads, head)
        first, second = s.nodes("Split", x, to=(f"{name}_first", f"{name}_second"), axis=-1, num_outputs=2)
        turned = s.node("Concat", s.node("Neg", second), first, axis=-1)
        s.node("Add", s.node("Mul", x, cosine), s.node("Mul", turned, sine), to=f"{name}_out")
    return "q_out", "k_out"
