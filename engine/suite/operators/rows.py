"""Rows with reductions: softmax and the normalisations with what stands around them, sums, statistics."""

from __future__ import annotations

from engine.suite.operators.sketch import GraphSketch, operator

EPSILON = 1e-5


@operator("softmax")
def softmax(s: GraphSketch, m: int, n: int) -> None:
    """Over rows of n."""
    s.node("Softmax", s.input("x", m, n), to="y", axis=-1)
    s.output("y", m, n)


@operator("masked-softmax")
def masked_softmax(s: GraphSketch, batch: int, heads: int, queries: int, keys: int, mask: tuple[int, ...]) -> None:
    """Scores scaled, an additive mask of shape `mask`, softmax over the keys."""
    shape = (batch, heads, queries, keys)
    scaled = s.node("Mul", s.input("scores", *shape), s.number(0.125))
    s.node("Softmax", s.node("Add", scaled, s.input("mask", *mask)), to="y", axis=-1)
    s.output("y", *shape)


@operator("layernorm")
def layernorm(s: GraphSketch, m: int, n: int) -> None:
    """Rows of n to mean 0 and variance 1, with gain and shift."""
    _normal(s, s.input("x", m, n), n)
    s.output("y", m, n)


@operator("add-layernorm")
def add_layernorm(s: GraphSketch, m: int, n: int) -> None:
    """A residual, then the normalisation; both the sum and the normalised rows are results."""
    total = s.node("Add", s.input("x", m, n), s.input("residual", m, n), to="sum")
    _normal(s, total, n)
    s.output("sum", m, n)
    s.output("y", m, n)


@operator("bias-add-layernorm")
def bias_add_layernorm(s: GraphSketch, m: int, n: int) -> None:
    """A bias and a residual, then the normalisation: BERT after attention and after its feed-forward part."""
    biased = s.node("Add", s.input("x", m, n), s.input("bias", n))
    _normal(s, s.node("Add", biased, s.input("residual", m, n)), n)
    s.output("y", m, n)


def _normal(s: GraphSketch, x: str, n: int) -> None:
    s.node("LayerNormalization", x, s.input("gain", n), s.input("shift", n), to="y", axis=-1, epsilon=EPSILON)


@operator("cross-entropy")
def cross_entropy(s: GraphSketch, m: int, n: int) -> None:
    """log sum exp of each row less the entry of its label."""
    x = s.input("x", m, n)
    chosen = s.node("GatherElements", x, s.input("labels", m, 1, dtype="int64"), axis=1)
    s.node("Sub", s.node("ReduceLogSumExp", x, s.integers(1), keepdims=1), chosen, to="loss")
    s.output("loss", m, 1)


@operator("batch-statistics-relu")
def batch_statistics_relu(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> None:
    """Normalisation of each channel with the statistics of this batch, then ReLU."""
    x = s.input("x", batch, channels, *space)
    axes = s.integers(0, *range(2, 2 + len(space)))
    centred = s.node("Sub", x, s.node("ReduceMean", x, axes))
    variance = s.node("ReduceMean", s.node("Mul", centred, centred), axes)
    deviation = s.node("Sqrt", s.node("Add", variance, s.number(EPSILON)))
    ones = (1,) * len(space)
    scaled = s.node("Mul", s.node("Div", centred, deviation), s.input("gain", channels, *ones))
    s.node("Relu", s.node("Add", scaled, s.input("shift", channels, *ones)), to="y")
    s.output("y", batch, channels, *space)


@operator("column-sum")
def column_sum(s: GraphSketch, m: int, n: int) -> None:
    """The sum over rows, in float32."""
    s.node("ReduceSum", s.cast(s.input("x", m, n), "float32"), s.integers(0), to="y", keepdims=0)
    s.output("y", n, dtype="float32")


@operator("sum")
def full_sum(s: GraphSketch, elements: int) -> None:
    """All elements into one."""
    s.node("ReduceSum", s.input("x", elements), to="y", keepdims=0)
    s.output("y")


@operator("mean")
def mean(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> None:
    """The mean of each channel."""
    axes = s.integers(0, *range(2, 2 + len(space)))
    s.node("ReduceMean", s.input("x", batch, channels, *space), axes, to="y", keepdims=0)
    s.output("y", channels)


@operator("variance")
def variance(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...]) -> None:
    """The variance of each channel."""
    x = s.input("x", batch, channels, *space)
    axes = s.integers(0, *range(2, 2 + len(space)))
    centred = s.node("Sub", x, s.node("ReduceMean", x, axes))
    s.node("ReduceMean", s.node("Mul", centred, centred), axes, to="y", keepdims=0)
    s.output("y", channels)
