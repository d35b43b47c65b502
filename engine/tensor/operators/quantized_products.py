"""Matrix products and convolutions of codes: sums in int32, or codes of the results."""

from __future__ import annotations

from dataclasses import replace

from engine.graph.nodes import Operator
from engine.support.errors import Unsupported
from engine.tensor.build import StatementBuilder, box
from engine.tensor.operators.attributes import present
from engine.tensor.operators.contractions import matrix_factors
from engine.tensor.operators.convolution import image_factors, pad_image
from engine.tensor.operators.products import product_of_codes
from engine.tensor.operators.quantization import Quantization
from engine.tensor.operators.registry import operator
from engine.tensor.terms import apply, cast


@operator("onnx.MatMulInteger")
def matmul_integer(op: Operator, build: StatementBuilder) -> None:
    """sum (a - za) (b - zb); zero points for all of a tensor, a row of the first or a column of the second."""
    _multiply_matrices(op, build, op.outputs[0], (0, 1), (2, 3))


@operator("onnx.QLinearMatMul")
def qlinear_matmul(op: Operator, build: StatementBuilder) -> None:
    """A product as codes.  Operands: codes, scale, zero point of both factors; scale, zero point of the result."""
    shape = build.shape(op.outputs[0])
    total = build.temporary(op.outputs[0], "sum", shape, "int32")
    _multiply_matrices(op, build, total, (0, 3), (2, 5))
    rank = max(len(shape), 1)
    scales = Quantization(op.inputs[1], axis=-2 % rank), Quantization(op.inputs[4], axis=-1 % rank)
    _requantize(op, build, total, scales, 6)


@operator("onnx.ConvInteger")
def conv_integer(op: Operator, build: StatementBuilder) -> None:
    """A convolution of (x - zx) with (w - zw)."""
    _convolve(op, build, op.outputs[0], (0, 1), (2, 3))


@operator("onnx.QLinearConv")
def qlinear_conv(op: Operator, build: StatementBuilder) -> None:
    """A convolution of what codes stand for, as codes.  The bias is added to the sums of codes."""
    target = op.outputs[0]
    shape = build.shape(target)
    total = build.temporary(target, "sum", shape, "int32")
    _convolve(op, build, total, (0, 3), (2, 5))
    if present(op, 8):
        cells, unbiased = box(shape), total
        total = build.temporary(target, "biased", shape, "int32")
        bias = build.read(op.inputs[8], [cells.written[1]])
        build.emit(total, cells, build.read(unbiased, cells.written) + bias, because="bias")
    scales = Quantization(op.inputs[1]), Quantization(op.inputs[4], axis=1)
    _requantize(op, build, total, scales, 6)


def _multiply_matrices(
    op: Operator, build: StatementBuilder, target: str, codes: tuple[int, int], zeros: tuple[int, int]
) -> None:
    """codes, zeros: the places of both factors among the operands, and of their zero points."""
    space, *plain = matrix_factors(build, op.inputs[codes[0]], op.inputs[codes[1]], target)
    a, b = (
        replace(factor, quantization=_zero(op, build, at, len(factor.indices), axis))
        for factor, at, axis in zip(plain, zeros, (-2, -1), strict=True)
    )
    product_of_codes(build, target, space, a, b, "matrix product")


def _convolve(
    op: Operator, build: StatementBuilder, target: str, codes: tuple[int, int], zeros: tuple[int, int]
) -> None:
    """As `_multiply_matrices`."""
    space, pixels, weights = image_factors(op, build, op.inputs[codes[0]], op.inputs[codes[1]])
    pixels = replace(pixels, quantization=_zero(op, build, zeros[0], 1, 0))
    weights = replace(weights, quantization=_zero(op, build, zeros[1], 1, 0))
    pixels = pad_image(build, pixels, target, space)
    product_of_codes(build, target, space, pixels, weights, "convolution")


def _zero(op: Operator, build: StatementBuilder, at: int, rank: int, axis: int) -> Quantization:
    """The zero point of a factor of `rank` axes: operand `at`, for all of it or along one axis."""
    if not present(op, at):
        return Quantization()
    shape = build.shape(op.inputs[at])
    if len(shape) > 1 and any(size != 1 for size in shape):
        reason = f"has zero points {op.inputs[at]} of {len(shape)} axes"
        raise Unsupported("tensor", f"operator {op.name}", reason, "one, or one for each row or column, is compiled")
    return Quantization(zero=op.inputs[at], axis=axis % max(rank, 1))


def _requantize(
    op: Operator, build: StatementBuilder, total: str, scales: tuple[Quantization, Quantization], result: int
) -> None:
    """Sums of codes, scaled, as codes of the operator's result, whose scale and zero point are operands `result` on.

    One factor, as ONNX Runtime has it: it is the same for all of a channel.
    """
    target = op.outputs[0]
    cells = box(build.shape(target))
    zero = op.inputs[result + 1] if present(op, result + 1) else ""
    codes = Quantization(op.inputs[result], zero)
    a, b, c = (found.scale_at(build, cells, cells.written) for found in (*scales, codes))
    steps = apply("round", cast(build.read(total, cells.written), "float32") * (a * b / c))
    code = codes.code_of(build, cells, steps, build.dtype(target))
    build.emit(target, cells, code, because="codes of the scaled sums")
