"""Matrix products in all their forms.

The product statement is `mul(cast A, cast B)` summed in float32 (or in the operands' wider type).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import CONTRADICTION, Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present, real
from engine.tensor.operators.registry import operator
from engine.tensor.terms import cast

Factor = tuple[str, Sequence[Index]]
"""A tensor and the indices of its element."""


def multiply_sum(
    build: StatementBuilder, target: str, space: Domain, a: Factor, b: Factor, because: str = "matrix product"
) -> None:
    """Append `target = sum(A[..] * B[..])` over the box."""
    kind = accumulator("sum", build.dtype(a[0]))
    left, right = (cast(build.read(*operand), kind) for operand in (a, b))
    build.emit(target, space, left * right, reduction="sum", because=because)


@operator("onnx.MatMul")
def matmul(op: Operator, build: StatementBuilder) -> None:
    """NumPy's matmul: leading axes broadcast, a vector has no row (or column) axis."""
    a, b = op.inputs[:2]
    sizes_a, sizes_b = build.shape(a), build.shape(b)
    space = box(build.shape(op.outputs[0]), (sizes_a[-1],))
    inner = space.point[-1]
    free = list(space.point[:-1])
    column = [free.pop()] if len(sizes_b) > 1 else []
    row = [free.pop()] if len(sizes_a) > 1 else []
    if len(free) != max(len(sizes_a), len(sizes_b), 2) - 2:
        raise BadInput("tensor", "the result", f"has {len(space.written)} axes", CONTRADICTION)
    batch_a, batch_b = (_batch(free, sizes[:-2]) for sizes in (sizes_a, sizes_b))
    multiply_sum(build, op.outputs[0], space, (a, (*batch_a, *row, inner)), (b, (*batch_b, inner, *column)))


def _batch(indices: list[Index], sizes: Sequence[int]) -> list[Index]:
    """Batch indices of one operand: the last ones, 0 along axes that it broadcasts."""
    aligned = indices[len(indices) - len(sizes) :]
    return [index if size > 1 else Index() for index, size in zip(aligned, sizes, strict=True)]


@operator("onnx.Gemm")
def gemm(op: Operator, build: StatementBuilder) -> None:
    """alpha A B + beta C: the product, then its scaling where there is any."""
    a, b, target = op.inputs[0], op.inputs[1], op.outputs[0]
    alpha, beta = real(op, "alpha", 1.0), real(op, "beta", 1.0)
    shape = build.shape(target)
    depth = build.shape(a)[0 if integer(op, "transA", 0) else 1]
    scaled = alpha != 1.0 or present(op, 2)
    kind = accumulator("sum", build.dtype(a))
    product = build.temporary(target, "product", shape, kind) if scaled else target
    space = box(shape, (depth,))
    m, n, k = space.point
    left = (k, m) if integer(op, "transA", 0) else (m, k)
    right = (n, k) if integer(op, "transB", 0) else (k, n)
    multiply_sum(build, product, space, (a, left), (b, right))
    if scaled:
        space = box(shape)
        value = build.read(product, space.written)
        value = value * alpha if alpha != 1.0 else value
        if present(op, 2):
            addend = cast(build.broadcast(op.inputs[2], space), kind)
            value = value + (addend * beta if beta != 1.0 else addend)
        build.emit(target, space, value, because="scaled and shifted")


def _akg_matmul(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    a = np.swapaxes(x[0], -1, -2) if integer(op, "transpose_a", 0) else x[0]
    b = np.swapaxes(x[1], -1, -2) if integer(op, "transpose_b", 0) else x[1]
    product = np.matmul(a, b)
    return [product + x[2] if present(op, 2) else product]


@operator("akg.MatMul", "akg.BatchMatMul", meaning=_akg_matmul)
def akg_matmul(op: Operator, build: StatementBuilder) -> None:
    """Batched, either operand transposed, with an optional bias."""
    a, b, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, kind = build.shape(target), accumulator("sum", build.dtype(op.inputs[0]))
    depth = build.shape(a)[-2 if integer(op, "transpose_a", 0) else -1]
    product = build.temporary(target, "product", shape, kind) if present(op, 2) else target
    space = box(shape, (depth,))
    *batch, m, n, k = space.point
    left = (k, m) if integer(op, "transpose_a", 0) else (m, k)
    right = (n, k) if integer(op, "transpose_b", 0) else (k, n)
    batch_a, batch_b = (_batch(batch, build.shape(name)[:-2]) for name in (a, b))
    multiply_sum(build, product, space, (a, (*batch_a, *left)), (b, (*batch_b, *right)))
    if present(op, 2):
        space = box(shape)
        bias = cast(build.broadcast(op.inputs[2], space), kind)
        build.emit(target, space, build.read(product, space.written) + bias, because="bias")
