"""Operators on the bits of integers."""

from __future__ import annotations

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box
from engine.tensor.operators.attributes import text
from engine.tensor.operators.elementwise import elementwise
from engine.tensor.operators.registry import operator
from engine.tensor.operators.standard import standard
from engine.tensor.terms import Term, apply, reinterpret

elementwise("onnx.BitwiseAnd", lambda op, a, b: apply("bit_and", a, b), lambda op, a, b: np.bitwise_and(a, b))
elementwise("onnx.BitwiseOr", lambda op, a, b: apply("bit_or", a, b), lambda op, a, b: np.bitwise_or(a, b))
elementwise("onnx.BitwiseXor", lambda op, a, b: apply("bit_xor", a, b), lambda op, a, b: np.bitwise_xor(a, b))
elementwise("onnx.BitwiseNot", lambda op, x: apply("bit_not", x), lambda op, x: np.bitwise_not(x))


def _shift(op: Operator, a: Term, b: Term) -> Term:
    return apply("shift_left" if text(op, "direction", "") == "LEFT" else "shift_right", a, b)


elementwise("onnx.BitShift", _shift, lambda op, a, b: standard(op, [a, b])[0])


@operator("onnx.BitCast", meaning=standard)
def bit_cast(op: Operator, build: StatementBuilder) -> None:
    """The same bits as a number of another type of the same size."""
    target = op.outputs[0]
    space = box(build.shape(target))
    build.emit(target, space, reinterpret(build.read(op.inputs[0], space.written), build.dtype(target)))
