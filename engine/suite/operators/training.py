"""Rows of a training step: gradients with their column sums, and the optimiser."""

from __future__ import annotations

from engine.suite.operators.elementwise import gelu_slope
from engine.suite.operators.rows import centre
from engine.suite.operators.sketch import GraphSketch, operator


@operator("softmax-backward")
def softmax_backward(s: GraphSketch, m: int, n: int) -> str:
    """(dy - sum(dy y)) y over rows of n."""
    dy, y = s.input("dy", m, n), s.input("y", m, n, between=(0.0, 1.0))
    total = s.node("ReduceSum", s.node("Mul", dy, y), s.integers(1))
    return s.node("Mul", s.node("Sub", dy, total), y, to="dx")


@operator("layernorm-backward")
def layernorm_backward(s: GraphSketch, m: int, n: int) -> tuple[str, str, str]:
    """The gradients of `layernorm`: rows of dx, and the columns' sums for gain and shift in float32."""
    dy, x = s.input("dy", m, n), s.input("x", m, n)
    columns = s.integers(1)
    centred, deviation = centre(s, x, columns)
    normal = s.node("Div", centred, deviation)
    scaled = s.node("Mul", dy, s.input("gain", n))
    along = s.node("ReduceMean", s.node("Mul", scaled, normal), columns)
    kept = s.node("Sub", s.node("Sub", scaled, s.node("ReduceMean", scaled, columns)), s.node("Mul", normal, along))
    s.node("Div", kept, deviation, to="dx")
    rows = s.integers(0)
    s.node("ReduceSum", s.cast(s.node("Mul", dy, normal), "float32"), rows, to="dgain", keepdims=0)
    s.node("ReduceSum", s.cast(dy, "float32"), rows, to="dshift", keepdims=0)
    return "dx", "dgain", "dshift"


@operator("gelu-backward-bias")
def gelu_backward_bias(s: GraphSketch, m: int, n: int) -> tuple[str, str]:
    """The gradient through GELU, and its sum over rows in float32: that of the bias before it."""
    dx = s.node("Mul", s.input("dy", m, n), gelu_slope(s, s.input("x", m, n)), to="dx")
    s.node("ReduceSum", s.cast(dx, "float32"), s.integers(0), to="dbias", keepdims=0)
    return "dx", "dbias"


@operator("adam")
def adam(s: GraphSketch, parameters: int) -> tuple[str, str, str]:
    """One step of Adam without its bias correction: parameters and both moments, old and new."""
    p, g, m = (s.input(name, parameters) for name in ("p", "g", "m"))
    v = s.input("v", parameters, between=(0.0, 1.0))
    first = _blend(s, m, g, 0.9, "m_new")
    second = _blend(s, v, s.node("Mul", g, g), 0.999, "v_new")
    step = s.node("Div", first, s.node("Add", s.node("Sqrt", second), s.number(1e-8)))
    return s.node("Sub", p, s.node("Mul", step, s.number(1e-3)), to="p_new"), first, second


def _blend(s: GraphSketch, old: str, new: str, share: float, to: str) -> str:
    """share old + (1 - share) new."""
    return s.node("Add", s.node("Mul", old, s.number(share)), s.node("Mul", new, s.number(1 - share)), to=to)
