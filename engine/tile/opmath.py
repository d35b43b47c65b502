"""Arithmetic in float32 between loads and stores, in place of a rounding to 16 bits behind every operator ("opmath").

    float s = round_f16(x[v] + b[v]);               float s = x[v] + b[v];
    y[v] = round_f16(fn_tanh(s));              ->   y[v] = fn_tanh_approx(s);
    y.store(p, to_f16(y[v]));                       y.store(p, to_f16(y[v]));

A register of 16-bit floats is a float variable, so nothing has to be converted back; what is stored, to shared or to
global memory, is rounded there, as are the operands of tensor cores.  What an operator compares or rounds to a whole
number is rounded first, as the graph says: a value next to an edge would else fall on its other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.tensor.nodes import Access, Apply, Scalar, accesses
from engine.tensor.terms import HALVES
from engine.tile.approximations import approximation
from engine.tile.dead_code import without_unused
from engine.tile.nodes import Declare, Load, Rewrite, TileProgram, operations

OF_ROUNDED = frozenset(
    "equal not_equal less less_equal greater greater_equal isinf floor ceil round sign mod bits".split()
)
"""Functions whose result jumps: operands that the graph rounds are rounded before them, as they are before a conversion
to integers or to floats of 8 bits."""


def compute_in_float32(program: TileProgram, approximates: bool) -> TileProgram:
    """The program without the roundings of 16-bit floats between its operators, in all of its launches.

    approximates: whether functions give way to their approximations, too.
    """
    first, *later = (_compute_launch(one, approximates) for one in program.launches)
    return replace(first, later=tuple(later))


def _compute_launch(program: TileProgram, approximates: bool) -> TileProgram:
    body = without_unused(_Float32(program, approximates).body(program.body))
    return replace(program, body=body)


class _Float32(Rewrite):
    """Expressions over float variables that are not rounded."""

    def __init__(self, program: TileProgram, approximates: bool) -> None:
        ops = tuple(operations(program.body))
        self._buffers, self._approximates = program.buffers, approximates
        self._computed = {name for op in ops if not isinstance(op, Load) for name in op.buffers_written} | {
            op.buffer for op in ops if isinstance(op, Declare) and op.value is not None
        }
        """Registers that hold more than what was loaded."""
        self._values = _definitions(program)

    def scalar(self, value: Scalar) -> Scalar:
        if not isinstance(value, Apply):
            return value
        function, dtype = value.function, "float32" if value.dtype in HALVES else value.dtype
        if function in OF_ROUNDED or (function == "cast" and dtype != "float32"):
            return Apply(function, tuple(map(self._round_operand, value.operands)), dtype)
        operands = tuple(map(self.scalar, value.operands))
        if function == "cast" and "float" in self._dtype_of(operands[0]):
            return operands[0]
        changed = Apply(function, operands, dtype)
        return approximation(changed, self._value_of) if self._approximates and dtype == "float32" else changed

    def _value_of(self, operand: Scalar) -> Scalar:
        """The expression behind a variable that has one value, without its roundings; any other operand itself."""
        known = self._values.get(operand.array) if isinstance(operand, Access) else None
        return operand if known is None else self.scalar(known)

    def _round_operand(self, value: Scalar) -> Scalar:
        """An operand as the graph rounds it."""
        is_computed = isinstance(value, Apply) or (isinstance(value, Access) and value.array in self._computed)
        dtype = self._dtype_of(value)
        changed = self.scalar(value)
        return Apply("cast", (changed,), dtype) if is_computed and dtype in HALVES else changed

    def _dtype_of(self, value: Scalar) -> str:
        """Element type of a value; "" of a variable that is no register, as masks are."""
        if not isinstance(value, Access):
            return value.dtype
        return self._buffers[value.array].dtype if value.array in self._buffers else ""


def _definitions(program: TileProgram) -> Mapping[str, Scalar]:
    """Variables that are set once, to what is computed from others that are: name -> expression."""
    ops = tuple(operations(program.body))
    changed = {name for op in ops if not isinstance(op, Load | Declare) for name in op.buffers_written}
    return {
        op.buffer: op.value
        for op in ops
        if isinstance(op, Declare) and isinstance(op.value, Apply) and op.buffer not in changed
        and changed.isdisjoint(access.array for access in accesses(op.value))
    }  # fmt: skip
