"""Index arithmetic against plain Python integers, at every point of small boxes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tensor.index import Element, Index, delinearize, linear

EXTENTS = {"i": 4, "j": 6, "k": 5}
POINTS = [dict(zip(EXTENTS, values, strict=True)) for values in product(*(range(n) for n in EXTENTS.values()))]


@st.composite
def affine(draw: st.DrawFn) -> Index:
    coefficients = {name: draw(st.integers(-12, 12)) for name in EXTENTS}
    return Index.sum(coefficients.items(), draw(st.integers(-40, 40)))


@st.composite
def quasi_affine(draw: st.DrawFn) -> Index:
    """Sums of affine indices and of their quotients and remainders, nested up to twice."""
    index = draw(affine())
    for _ in range(draw(st.integers(0, 2))):
        by = draw(st.integers(1, 9))
        inner = index.floordiv(by, EXTENTS) if draw(st.booleans()) else index.mod(by, EXTENTS)
        index = inner * draw(st.integers(1, 4)) + draw(affine())
    return index


def value(index: Index, point: dict[str, int]) -> int:
    """Evaluate by definition, term by term."""
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, str):
            total += coefficient * point[atom]
        else:
            assert not isinstance(atom, Element)
            inner = value(atom.of, point)
            total += coefficient * (inner // atom.by if type(atom).__name__ == "Quotient" else inner % atom.by)
    return total


@given(quasi_affine(), st.integers(1, 24))
@settings(max_examples=150, deadline=None)
def test_division_and_remainder_are_pythons(index: Index, by: int) -> None:
    quotient, remainder = index.floordiv(by, EXTENTS), index.mod(by, EXTENTS)
    for point in POINTS:
        assert value(quotient, point) == value(index, point) // by
        assert value(remainder, point) == value(index, point) % by


@given(quasi_affine(), quasi_affine(), st.integers(-5, 5))
@settings(max_examples=100, deadline=None)
def test_sums_differences_and_multiples(a: Index, b: Index, factor: int) -> None:
    for point in POINTS[::7]:
        assert value(a + b, point) == value(a, point) + value(b, point)
        assert value(a - b * factor, point) == value(a, point) - factor * value(b, point)


@given(quasi_affine())
@settings(max_examples=150, deadline=None)
def test_bounds_are_never_too_narrow(index: Index) -> None:
    low, high = index.bounds(EXTENTS)
    values = [value(index, point) for point in POINTS]
    assert low <= min(values) and max(values) <= high


@given(affine())
def test_bounds_of_affine_indices_are_tight(index: Index) -> None:
    values = [value(index, point) for point in POINTS]
    assert index.bounds(EXTENTS) == (min(values), max(values))


@given(quasi_affine(), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_quotient_and_remainder_join_again(index: Index, by: int) -> None:
    joined = (index.floordiv(by, EXTENTS) * by + index.mod(by, EXTENTS)).merge_divisions()
    for point in POINTS[::5]:
        assert value(joined, point) == value(index, point)


@given(quasi_affine(), quasi_affine())
@settings(max_examples=100, deadline=None)
def test_substitution_is_composition(outer: Index, inner: Index) -> None:
    low, _ = inner.bounds(EXTENTS)
    shifted = inner + max(0, -low)  # iterators are never negative
    wide = {**EXTENTS, "p": shifted.bounds(EXTENTS)[1] + 1}
    moved = outer.substitute({"i": Index.of("p")}, wide)
    result = moved.substitute({"p": shifted}, EXTENTS)
    for point in POINTS[::5]:
        assert value(result, point) == value(outer, {**point, "i": value(shifted, point)})


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.lists(st.integers(1, 7), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_delinearize_inverts_linear(shape: list[int], other: list[int]) -> None:
    names = "abcd"[: len(shape)]
    extents = dict(zip(names, shape, strict=True))
    indices = tuple(Index.of(name) if extents[name] > 1 else Index() for name in names)
    assert delinearize(linear(indices, shape), tuple(shape), extents) == indices


def test_reshape_of_heads_folds_to_iterators() -> None:
    extents = {"i": 128, "j": 12, "k": 64}
    i, j, k = (Index.of(name) for name in "ijk")
    flat = j * 64 + k
    assert flat.floordiv(64, extents) == j and flat.mod(64, extents) == k
    assert delinearize(linear((i, j, k), (128, 12, 64)), (128, 768), extents) == (i, flat)


@pytest.mark.parametrize("by", [0, -3])
def test_division_by_nothing_positive_is_refused(by: int) -> None:
    with pytest.raises(ValueError, match="division"):
        Index.of("i").floordiv(by, EXTENTS)
