"""Vertices of relations without a closed form: against isl's dual cones, and around every pair."""

from __future__ import annotations

import itertools
import random

import islpy
import pytest

from engine.poly.irregular import generators

FULL = [
    "{ [i, j, k] : 0 <= i <= 6 and 0 <= j <= 9 and 0 <= k <= 4 and 2j <= 3i + k }",
    "{ [i, j] : 0 <= i <= 11 and 0 <= j <= 3 and 4j <= i <= 4j + 3 }",
    "{ [i, j, k] : 0 <= i <= 19 and 0 <= j <= 4 and 0 <= k <= 3 and k = floor(i/5) }",
]
"""Sets of full dimension, where isl tightens nothing."""
SLOW = (
    "{ [s0, s1, t0, t1, t2] : 0 <= s0 <= 2 and 0 <= s1 <= 69 and 0 <= t0 <= 4 and 0 <= t1 <= 5 and 0 <= t2 <= 6 and "
    "-1037 + 210s0 + 9s1 - 6t0 - t1 <= 30t2 <= 205 + 210s0 + 9s1 - 6t0 - t1 }"
)
"""Its dual cone takes isl five seconds: from a broken file of the fuzzer, with two more divisions 40."""


def points(text: str) -> set[tuple[float, ...]]:
    return {tuple(x / g.one for x in g.source + g.sink) for g in generators(islpy.BasicSet(text), 2)}


@pytest.mark.parametrize("text", FULL)
def test_vertices_are_those_of_the_dual_cone(text: str) -> None:
    cone = islpy.BasicSet(text).lift().flatten().coefficients()
    rows = [
        [c.get_coefficient_val(islpy.dim_type.set, k).to_python() for k in range(cone.dim(islpy.dim_type.set))]
        for c in cone.get_constraints()
    ]
    width = islpy.BasicSet(text).dim(islpy.dim_type.set)
    assert points(text) == {tuple(x / row[0] for x in row[1 : 1 + width]) for row in rows if row[0]}


@pytest.mark.parametrize("text", [*FULL, SLOW])
def test_every_pair_lies_among_the_vertices(text: str) -> None:
    """In each direction some vertex is as far out as the farthest pair, and none is outside the set's own bounds."""
    found, piece, draw = points(text), islpy.BasicSet(text), random.Random(1)
    width = piece.dim(islpy.dim_type.set)
    sizes = [range(piece.dim_max_val(k).to_python() + 1) for k in range(width)]
    inside = [p for p in itertools.product(*sizes) if draw.random() < 0.05 and _holds(piece, p)]
    assert len(inside) > 3
    for _ in range(50):
        way = [draw.randint(-9, 9) for _ in sizes]
        assert max(_along(way, v) for v in found) >= max(_along(way, p) for p in inside) - 1e-9
    assert all(0 <= x <= size[-1] + 1 for vertex in found for x, size in zip(vertex, sizes, strict=True))


def _along(way: list[int], point: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(way, point, strict=True))


def _holds(piece: islpy.BasicSet, point: tuple[int, ...]) -> bool:
    at = islpy.Point.zero(piece.get_space())
    for k, value in enumerate(point):
        at = at.set_coordinate_val(islpy.dim_type.set, k, islpy.Val.int_from_si(islpy.DEFAULT_CONTEXT, value))
    return not islpy.Set.from_point(at).intersect(islpy.Set.from_basic_set(piece)).is_empty()
