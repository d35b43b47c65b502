"""Products of a matrix with few vectors: bound by reading the matrix, and too narrow for tiles of a product.

    z[b, n] = sum(k) x[b, k] * w[n, k]  with b < 4     a block for each n reads a row of w, as memory-bound kernels do
"""

from __future__ import annotations

import math

from engine.fusion.shape import is_contraction, product_operands
from engine.tensor.nodes import Statement, accesses

FEW = 8
"""Vectors that a matrix is multiplied with up to which a block for each of its rows is no slower than tiles."""


def has_few_vectors(product: Statement) -> bool:
    """Whether a statement multiplies one matrix with few vectors."""
    factors = product_operands(product.expression) if is_contraction(product) else None
    if factors is None:
        return False
    left, right = ({n for a in accesses(f) for i in a.indices for n in i.iterators()} for f in factors)
    return any(
        math.prod(i.extent for i in product.parallel if i.name in own) <= FEW for own in (left - right, right - left)
    )
