"""Rows with reductions: softmax and the normalisations with what stands around them, sums, statistics."""

from __future__ import annotations

from engine.suite.operators.sketch import GraphSketch, operator

EPSILON = 1e-5


@operator("softmax")
def softmax(s: GraphSketch, m: int, n: int) -> str:
    """Over rows of n."""
    return s.node("Softmax", s.input("x", m, n), to="y", axis=-1)


@operator("masked-softmax")
def masked_softmax(s: GraphSketch, batch: int, heads: int, queries: int, keys: int, mask: tuple[int, ...]) -> str:
    """Scores scaled, an additive mask of shape `mask`, softmax over the keys."""
    shape = (batch, heads, queries, keys)
    scaled = s.node("Mul", s.input("scores", *shape), s.number(0.125))
    return s.node("Softmax", s.node("Add", scaled, s.input("mask", *mask)), to="y", axis=-1)


@operator("layernorm")
def layernorm(s: GraphSketch, m: int, n: int) -> str:
    """Rows of n to mean 0 and variance 1, with gain and shift."""
    return _normal(s, s.input("x", m, n), n)


@operator("add-layernorm")
def add_layernorm(s: GraphSketch, m: int, n: int) -> tuple[str, str]:
    """A residual, then the normalisation; both the sum and the normalised rows are results."""
    total = s.node("Add", s.input("x", m, n), s.input("residual", m, n), to="sum")
    return total, _normal(s, total, n)


@operator("bias-add-layernorm")
def bias_add_layernorm(s: GraphSketch, m: int, n: int) -> str:
    """A bias and a residual, then the normalisation: BERT after attention and after its feed-forward part."""
    biased = s.node("Add", s.input("x", m, n), s.input("bias", n))
    return _normal(s, s.node("Add", biased, s.input("residual", m, n)), n)


def _normal(s: GraphSketch, x: str, n: int) -> str:
    return s.node("LayerNormalization", x, s.input("gain", n), s.input("shift", n), to="y", axis=-1, epsilon=EPSILON)


@operator("cross-entropy")
def cross_entropy(s: GraphSketch, m: int, n: int) -> str:
    """log sum exp of each row less the entry of its label."""
    x = s.input("x", m, n)
    chosen = s.node("GatherElements", x, s.input("labels", m, 1, dtype="int64"), axis=1)
    return s.node("Sub", s.node("ReduceLogSumExp", x, s.integers(1), keepdims=1), chosen, to="loss")


@operator("batch-statistics-relu")
def batch_statistics_relu(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """Normalisation of each channel with the statistics of this batch, then ReLU."""
    x = s.input("x", batch, channels, *space)
    axes = s.integers(0, *range(2, 2 + len(space)))
    centred, deviation = centre(s, x, axes)
    ones = (1,) * len(space)
    scaled = s.node("Mul", s.node("Div", centred, deviation), s.input("gain", channels, *ones))
    return s.node("Relu", s.node("Add", scaled, s.input("shift", channels, *ones)), to="y")


def centre(s: GraphSketch, x: str, axes: str) -> tuple[str, str]:
    """What x is off its mean along some axes, and its deviation there."""
    centred = s.node("Sub", x, s.node("ReduceMean", x, axes))
    variance = s.node("ReduceMean", s.node("Mul", centred, centred), axes)
    return centred, s.node("Sqrt", s.node("Add", variance, s.number(EPSILON)))


@operator("column-sum")
def column_sum(s: GraphSketch, m: int, n: int) -> str:
    """The sum over rows, in float32."""
    return s.node("ReduceSum", s.cast(s.input("x", m, n), "float32"), s.integers(0), to="y", keepdims=0)


@operator("sum")
def full_sum(s: GraphSketch, elements: int) -> str:
    """All elements into one."""
    return s.node("ReduceSum", s.input("x", elements), to="y", keepdims=0)


@operator("mean")
def mean(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """The mean of each channel."""
    axes = s.integers(0, *range(2, 2 + len(space)))
    return s.node("ReduceMean", s.input("x", batch, channels, *space), axes, to="y", keepdims=0)


@operator("variance")
def variance(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> str:
    """The variance of each channel."""
    x = s.input("x", batch, channels, *space)
    axes = s.integers(0, *range(2, 2 + len(space)))
    centred = s.node("Sub", x, s.node("ReduceMean", x, axes))
    return s.node("ReduceMean", s.node("Mul", centred, centred), axes, to="y", keepdims=0)
