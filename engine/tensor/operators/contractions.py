"""Matrix products in all their forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import CONTRADICTION, Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present, real
from engine.tensor.operators.products import ProductFactor, multiply_sum
from engine.tensor.operators.registry import operator
from engine.tensor.terms import cast


@operator("onnx.MatMul")
def matmul(op: Operator, build: StatementBuilder) -> None:
    """NumPy's matmul."""
    target = op.outputs[0]
    space, a, b = matrix_factors(build, op.inputs[0], op.inputs[1], target)
    multiply_sum(build, target, space, a, b)


def matrix_factors(build: StatementBuilder, a: str, b: str, target: str) -> tuple[Domain, ProductFactor, ProductFactor]:
    """The domain and the factors of a product: leading axes broadcast, a vector has no row (or column) axis."""
    sizes_a, sizes_b = build.shape(a), build.shape(b)
    space = box(build.shape(target), (sizes_a[-1],))
    inner = space.point[-1]
    free = list(space.point[:-1])
    column = [free.pop()] if len(sizes_b) > 1 else []
    row = [free.pop()] if len(sizes_a) > 1 else []
    if len(free) != max(len(sizes_a), len(sizes_b), 2) - 2:
        raise BadInput("tensor", "the result", f"has {len(space.written)} axes", CONTRADICTION)
    batch_a, batch_b = (_batch(free, sizes[:-2]) for sizes in (sizes_a, sizes_b))
    return space, ProductFactor(a, (*batch_a, *row, inner)), ProductFactor(b, (*batch_b, inner, *column))


def _batch(indices: list[Index], sizes: Sequence[int]) -> list[Index]:
    """Batch indices of one operand: the last ones, 0 along axes that it broadcasts."""
    aligned = indices[len(indices) - len(sizes) :]
    return [index if size > 1 else Index() for index, size in zip(aligned, sizes, strict=True)]


def _akg_matmul(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    a = np.swapaxes(x[0], -1, -2) if integer(op, "transpose_a", 0) else x[0]
    b = np.swapaxes(x[1], -1, -2) if integer(op, "transpose_b", 0) else x[1]
    product = np.matmul(a, b)
    return [product + x[2] if present(op, 2) else product]


@operator("akg.MatMul", "akg.BatchMatMul", meaning=_akg_matmul)
@operator("onnx.Gemm")
def gemm(op: Operator, build: StatementBuilder) -> None:
    """alpha A B + beta C, either operand transposed: the product, then its scaling where there is any.

    AKG's products have batches, a bias as C, and no factors.
    """
    a, b, target = op.inputs[0], op.inputs[1], op.outputs[0]
    is_akg = op.dialect == "akg"
    names = ("transpose_a", "transpose_b") if is_akg else ("transA", "transB")
    transpose_a, transpose_b = (integer(op, name, 0) for name in names)
    alpha, beta = real(op, "alpha", 1.0), real(op, "beta", 1.0)
    shape, kind = build.shape(target), accumulator("sum", build.dtype(a))
    scaled = alpha != 1.0 or present(op, 2)
    product = build.temporary(target, "product", shape, kind) if scaled else target
    space = box(shape, (build.shape(a)[-2 if transpose_a else -1],))
    *batch, m, n, k = space.point
    left = (k, m) if transpose_a else (m, k)
    right = (n, k) if transpose_b else (k, n)
    batch_a, batch_b = (_batch(batch, build.shape(name)[:-2]) for name in (a, b))
    multiply_sum(build, product, space, ProductFactor(a, (*batch_a, *left)), ProductFactor(b, (*batch_b, *right)))
    if scaled:
        space = box(shape)
        value = build.read(product, space.written)
        value = value * alpha if alpha != 1.0 else value
        if present(op, 2):
            addend = cast(build.broadcast(op.inputs[2], space), kind)
            value = value + (addend * beta if beta != 1.0 else addend)
        build.emit(target, space, value, because="bias" if is_akg else "scaled and shifted")
