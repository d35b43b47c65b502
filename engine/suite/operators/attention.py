"""Attention: queries times keys, scaled, masked, a softmax, times values."""

from __future__ import annotations

from engine.suite.operators.sketch import GraphSketch, operator


@operator("attention")
def attention(s: GraphSketch, batch: int, heads: int, queries: int, keys: int, head: int) -> str:
    """Every head with keys and values of its own, nothing masked."""
    return _attention(s, (batch, heads, queries, keys, head), "")


@operator("masked-attention")
def masked_attention(
    s: GraphSketch, batch: int, heads: int, queries: int, keys: int, head: int, mask: tuple[int, ...]
) -> str:
    """An additive mask of shape `mask` on the scaled scores."""
    return _attention(s, (batch, heads, queries, keys, head), s.input("mask", *mask))


def _attention(s: GraphSketch, sizes: tuple[int, int, int, int, int], mask: str) -> str:
    batch, heads, queries, keys, head = sizes
    turned = s.node("Transpose", s.input("k", batch, heads, keys, head), perm=[0, 1, 3, 2])
    scores = s.node("MatMul", s.input("q", batch, heads, queries, head), turned, to="scores")
    scores = s.node("Mul", scores, s.number(head**-0.5))
    scores = s.node("Add", scores, mask) if mask else scores
    weights = s.node("Softmax", scores, to="weights", axis=-1)
    return s.node("MatMul", weights, s.input("v", batch, heads, keys, head), to="y")
