"""Operators on the bits of integers."""

from __future__ import annotations

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box
from engine.tensor.operators.attributes import text
from engine.tensor.operators.elementwise import elementwise, formula
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, reinterpret

formula("onnx.BitwiseAnd", lambda a, b: apply("bit_and", a, b))
formula("onnx.BitwiseOr", lambda a, b: apply("bit_or", a, b))
formula("onnx.BitwiseXor", lambda a, b: apply("bit_xor", a, b))
formula("onnx.BitwiseNot", lambda x: apply("bit_not", x))


def _shift(op: Operator, a: Term, b: Term) -> Term:
    return apply("shift_left" if text(op, "direction", "") == "LEFT" else "shift_right", a, b)


elementwise("onnx.BitShift", _shift)


@operator("onnx.BitCast")
def bit_cast(op: Operator, build: StatementBuilder) -> None:
    """The same bits as a number of another type of the same size."""
    target = op.outputs[0]
    space = box(build.shape(target))
    build.emit(target, space, reinterpret(build.read(op.inputs[0], space.written), build.dtype(target)))
