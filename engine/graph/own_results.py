"""Shapes of the results of ONNX Runtime's own operators that have rules here: no inference of ONNX's knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.graph.contributed_quantized import DOMAIN
from engine.graph.nodes import Operator, Tensor

Results = tuple[tuple[str, tuple[int, ...]], ...]
"""(element type, shape) of each result."""


def own_results(op: Operator, operands: Sequence[Tensor | None]) -> Results | None:
    """The results of an operator that has a rule of its own; None for others and for damaged ones."""
    rule = _RULES.get(op.kind)
    return rule(op, operands) if rule else None


def _nbits_product(op: Operator, operands: Sequence[Tensor | None]) -> Results | None:
    columns, x = op.attributes.get("N", 0), operands[0] if operands else None
    if x is None or not x.shape or not isinstance(columns, int) or columns < 1 or len(op.outputs) != 1:
        return None
    return ((x.dtype, (*x.shape[:-1], columns)),)


_RULES: Mapping[str, Callable[[Operator, Sequence[Tensor | None]], Results | None]] = {
    f"{DOMAIN}::MatMulNBits": _nbits_product
}
