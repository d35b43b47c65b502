"""Quantised tensors: integers (codes) that stand for real numbers, real = (code - zero point) * scale.

A scale or a zero point is one number, one for each place on an axis, or one for each block of places on it.  Products
of codes are sums of integers, scaled once they are complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.graph.nodes import FLOAT8, Operator
from engine.tensor.build import Domain, StatementBuilder, box, over
from engine.tensor.index import Index, linear
from engine.tensor.operators.attributes import axis_of, integer, present
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, cast, compare, maximum, minimum, number, position, select, to_float8, wide


@dataclass(frozen=True, slots=True)
class Quantization:
    """The scale and the zero point of a tensor's elements, by their names; "" for the scale 1 and the zero point 0."""

    scale: str = ""
    zero: str = ""
    axis: int = 0
    """Along which they differ, where they are no single number."""
    block: int = 0
    """Places on the axis that share one; 0 where each has its own."""
    saturates: bool = True
    """Whether what is beyond the largest float of 8 bits becomes that."""

    def is_single(self, build: StatementBuilder) -> bool:
        """Whether all elements share the scale and the zero point."""
        return all(math.prod(build.shape(name)) == 1 for name in (self.scale, self.zero) if name)

    def is_symmetric(self, build: StatementBuilder) -> bool:
        """Whether the zero point is known to be 0 everywhere."""
        value = build.value(self.zero) if self.zero else np.zeros(())
        return value is not None and not value.any()

    def known_zero(self, build: StatementBuilder) -> int | None:
        """The zero point that all elements share, where it is known."""
        value = build.value(self.zero) if self.zero else np.zeros(())
        return int(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def scale_at(self, build: StatementBuilder, space: Domain, at: Sequence[Index]) -> Term:
        """The scale of an element, in float32."""
        turned = build.transpose_of(self.scale) if self.block else None
        if turned is not None:
            return wide(build.read(turned, self._at(build, self.scale, space, at)[::-1]))
        return wide(build.read(self.scale, self._at(build, self.scale, space, at)))

    def zero_at(self, build: StatementBuilder, space: Domain, at: Sequence[Index]) -> Term:
        """The zero point of an element, as int32."""
        if not self.zero:
            return number(0, "int32")
        turned = build.transpose_of(self.zero) if self.block else None
        if turned is not None:
            return cast(build.read(turned, self._at(build, self.zero, space, at)[::-1]), "int32")
        return read_code(build, self.zero, space, self._at(build, self.zero, space, at))

    def _at(self, build: StatementBuilder, name: str, space: Domain, at: Sequence[Index]) -> list[Index]:
        """Where an element's scale or zero point stands."""
        shape = build.shape(name)
        if math.prod(shape) == 1:
            return [Index()] * len(shape)
        if len(shape) == 1:
            return [self._place(space, at)]
        return [self._place(space, at) if n == self.axis else index for n, index in enumerate(at)]

    def _place(self, space: Domain, at: Sequence[Index]) -> Index:
        place = at[self.axis]
        return place.floordiv(self.block, space.extents) if self.block else place

    def quantize(self, build: StatementBuilder, space: Domain, value: Term, dtype: str) -> Term:
        """The nearest code of a value at the written element, half to even, within the type's range."""
        scaled = wide(cast_to_float(value)) / self.scale_at(build, space, space.written)
        if dtype in FLOAT8:
            return to_float8(scaled, dtype, self.saturates)
        return self.code_of(build, space, apply("round", scaled), dtype)

    def code_of(self, build: StatementBuilder, space: Domain, steps: Term, dtype: str) -> Term:
        """The code of a whole number of steps from the zero point, within the type's range."""
        zero = self.zero_at(build, space, space.written)
        return saturate(steps + cast(zero, "float32") if self.zero else steps, dtype)

    def dequantize(self, build: StatementBuilder, space: Domain, code: Term, at: Sequence[Index]) -> Term:
        """What a code stands for, in float32."""
        if code.dtype in FLOAT8:  # whose zero point is 0
            return cast(code, "float32") * self.scale_at(build, space, at)
        steps = cast(code, "int32")
        if self.zero:
            steps = steps - self.zero_at(build, space, at)
        return cast(steps, "float32") * self.scale_at(build, space, at)


def codes_behind(build: StatementBuilder, name: str) -> tuple[str, Quantization] | None:
    """The codes that a tensor is dequantised from, and what they stand for; None for every other tensor."""
    op = build.producer(name)
    if op is None or op.dialect != "onnx" or op.kind != "DequantizeLinear":
        return None
    if build.dtype(op.inputs[0]) in FLOAT8:
        return None
    return op.inputs[0], _of_operator(op, build)


def cast_to_float(value: Term) -> Term:
    """Integers are quantised as float32."""
    return value if "float" in value.dtype else cast(value, "float32")


def read_code(build: StatementBuilder, name: str, space: Domain, at: Sequence[Index]) -> Term:
    """A code as an integer of 32 bits; half of a byte, where two lie in one; a float of 8 bits as it is."""
    pairs = build.pairs(name)
    if build.dtype(name) in FLOAT8:
        return build.read(name, at)
    if pairs is None:
        return cast(build.read(name, at), "int32")
    shape = build.shape(name)
    if len(build.shape(pairs)) != len(shape) or not shape or shape[-1] % 2:
        at = [linear(at, shape)]
    byte = cast(build.read(pairs, [*at[:-1], at[-1].floordiv(2, space.extents)]), "int32")
    place = cast(position(at[-1].mod(2, space.extents), "int32"), "int32")
    half = apply("bit_and", apply("shift_right", byte, place * 4), 15)
    # The sign is the fourth bit: -8 to 7.
    return apply("bit_xor", half, 8) - 8 if build.dtype(name) == "int4" else half


def saturate(value: Term, dtype: str) -> Term:
    """A whole float32 number as an integer of a type, the nearest one there is."""
    limits = np.iinfo(dtype)
    return cast(minimum(maximum(value, limits.min), limits.max), dtype)


def _of_operator(op: Operator, build: StatementBuilder) -> Quantization:
    """The quantisation of the operand of QuantizeLinear or DequantizeLinear: axis 1 where nothing else is said."""
    rank = len(build.shape(op.inputs[0]))
    is_single = math.prod(build.shape(op.inputs[1])) == 1
    axis = 0 if is_single else axis_of(op, integer(op, "axis", 1), rank)
    zero = op.inputs[2] if present(op, 2) else ""
    block = 0 if is_single else integer(op, "block_size", 0)
    return Quantization(op.inputs[1], zero, axis, block, bool(integer(op, "saturate", 1)))


@operator("onnx.QuantizeLinear")
def quantize_linear(op: Operator, build: StatementBuilder) -> None:
    """saturate(round(x / scale) + zero point)."""
    space = box(build.shape(op.outputs[0]))
    value = build.read(op.inputs[0], space.written)
    codes = _of_operator(op, build).quantize(build, space, value, build.dtype(op.outputs[0]))
    build.emit(op.outputs[0], space, codes)


@operator("onnx.DequantizeLinear")
def dequantize_linear(op: Operator, build: StatementBuilder) -> None:
    """(code - zero point) * scale."""
    space = box(build.shape(op.outputs[0]))
    code = read_code(build, op.inputs[0], space, space.written)
    build.emit(op.outputs[0], space, _of_operator(op, build).dequantize(build, space, code, space.written))


@operator("onnx.DynamicQuantizeLinear")
def dynamic_quantize_linear(op: Operator, build: StatementBuilder) -> None:
    """Codes of 8 bits over the range of the values, 0 included, with the scale and the zero point that give it."""
    source, (target, scale, zero) = op.inputs[0], op.outputs
    shape = build.shape(source)
    every = over(shape, range(len(shape)))
    value = build.read(source, every.point)
    low = build.define(target, "lowest", every, value, reduction="min", because="smallest value")
    high = build.define(target, "highest", every, value, reduction="max", because="largest value")
    one = box(())
    first = [Index()] * len(shape)
    least, most = minimum(build.read(low, first), 0), maximum(build.read(high, first), 0)
    step = select(compare("equal", most, least), number(1.0, "float32"), (most - least) / 255)
    build.emit(scale, one, step, because="255 steps over the range")
    steps = apply("round", minimum(maximum(-least / build.read(scale, ()), 0), 255))
    build.emit(zero, one, cast(steps, "uint8"), because="the code of 0")
    space = box(shape)
    codes = Quantization(scale, zero).quantize(build, space, build.read(source, space.written), "uint8")
    build.emit(target, space, codes)
