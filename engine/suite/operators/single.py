"""Operators that stand alone in published tables of times and in no suite, and graphs of one operator."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from engine.graph.nodes import OperatorGraph
from engine.graph.onnx import load_onnx
from engine.suite.operators.sketch import Draw, GraphSketch

Size = int | tuple[int, ...]


def graph_of_operator(name: str, draw: Draw, dtype: str, sizes: Mapping[str, Size]) -> OperatorGraph:
    """The operator graph of one operator at one size.  name: of the graph."""
    sketch = GraphSketch(dtype)
    outputs = draw(sketch, **sizes)
    model = sketch.model(name, (outputs,) if isinstance(outputs, str) else outputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        return load_onnx(path, {})


def _unary(kind: str, **attributes: float) -> Draw:
    """An operator of every element."""
    return lambda s, elements: s.node(kind, s.input("x", elements), to="y", **attributes)


def _with_scalar(kind: str, value: float) -> Draw:
    """An operator with a constant."""
    return lambda s, elements: s.node(kind, s.input("x", elements), s.number(value), to="y")


def _binary(kind: str) -> Draw:
    """An operator of two tensors of one shape."""
    between = (0.5, 2.0)
    return lambda s, elements: s.node(
        kind, s.input("a", elements, between=between), s.input("b", elements, between=between), to="y"
    )


def _log_softmax(s: GraphSketch, m: int, n: int) -> str:
    """Over rows of n."""
    return s.node("LogSoftmax", s.input("x", m, n), to="y", axis=-1)


SINGLE: Mapping[str, Draw] = {
    "relu": _unary("Relu"), "tanh": _unary("Tanh"), "gelu": _unary("Gelu"), "sigmoid": _unary("Sigmoid"),
    "leaky-relu": _unary("LeakyRelu", alpha=0.01), "selu": _unary("Selu"), "elu": _unary("Elu"),
    "hard-sigmoid": _unary("HardSigmoid"), "softplus": _unary("Softplus"), "softsign": _unary("Softsign"),
    "hard-tanh": _unary("Clip"),
    "add-scalar": _with_scalar("Add", 1.5), "mul-scalar": _with_scalar("Mul", 1.5),
    "div-scalar": _with_scalar("Div", 1.5), "pow-scalar": _with_scalar("Pow", 3.0),
    "mul": _binary("Mul"), "div": _binary("Div"), "pow": _binary("Pow"),
    "log-softmax": _log_softmax,
}  # fmt: skip
"""By name, as `OPERATORS`: the keyword arguments are the sizes."""
