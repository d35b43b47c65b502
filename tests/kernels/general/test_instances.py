"""The rows of a statement solved for its iterators, against enumeration of the whole box."""

from __future__ import annotations

import random
from itertools import product

import pytest

from engine.kernels.general.instances import Instance, solve_rows
from engine.tensor.index import Index
from engine.tensor.nodes import Iterator

BOX = (Iterator("i", 5), Iterator("j", 4), Iterator("k", 3))


def instances_at(solved: Instance, values: dict[str, int]) -> list[tuple[int, ...]]:
    """The instances that solved rows name at one point: one, or none."""

    def at(index: Index) -> int:
        return int(index.evaluate(lambda name: values[str(name)]))

    if any(at(condition) < 0 for condition in solved.conditions):
        return []
    return [tuple(at(solved.values[iterator.name]) for iterator in BOX)]


def row(*coefficients: int, constant: int = 0) -> Index:
    """A row over i, j and k."""
    return Index.sum(zip(("i", "j", "k"), coefficients, strict=True), constant)


@pytest.mark.parametrize("seed", range(12))
def test_every_point_names_the_instance_whose_rows_have_its_values(seed: int) -> None:
    draw = random.Random(seed)
    rows: list[Index] = []
    while not _is_full(rows):
        rows = [row(*(draw.randint(-2, 2) for _ in range(3)), constant=draw.randint(-3, 3)) for _ in range(4)]
    expected: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for point in product(*(range(iterator.extent) for iterator in BOX)):
        given = dict(zip("ijk", point, strict=True))
        expected.setdefault(_time(rows, given), []).append(point)
    # Counters begin at 0, as those of loops do: the rows are moved there.
    lows = [min(time[n] for time in expected) for n in range(4)]
    highs = [max(time[n] for time in expected) for n in range(4)]
    moved = [r - low for r, low in zip(rows, lows, strict=True)]
    extents = {f"c{n}": high - low + 1 for n, (low, high) in enumerate(zip(lows, highs, strict=True))}
    solved = solve_rows([(r, Index.of(name)) for r, name in zip(moved, extents, strict=True)], BOX, extents)
    box = [range(n) for n in extents.values()]
    for time in draw.sample(list(product(*box)), k=min(3000, _size(box))):
        found = instances_at(solved, dict(zip(extents, time, strict=True)))
        key = tuple(t + low for t, low in zip(time, lows, strict=True))
        assert found == expected.get(key, []), (rows, time)


def test_rows_that_settle_only_some_iterators_leave_the_others_out() -> None:
    found = solve_rows([(row(1, 0, 0), Index.of("a"))], BOX, {"a": 5})
    assert found.values == {"i": Index.of("a")}
    assert found.conditions == ()


def test_a_constant_row_is_a_condition_on_its_loop() -> None:
    rows = [(row(1, 0, 0), Index.of("a")), (row(0, 0, 0, constant=2), Index.of("b"))]
    conditions = solve_rows(rows, BOX, {"a": 5, "b": 4}).conditions
    assert {str(c) for c in conditions} == {"b - 2", "-b + 2"}


def _time(rows: list[Index], given: dict[str, int]) -> tuple[int, ...]:
    """The values of rows at a point."""
    return tuple(int(r.evaluate(lambda name: given[str(name)])) for r in rows)


def _is_full(rows: list[Index]) -> bool:
    """Whether no two points of the box have the same values."""
    if not rows:
        return False
    points = list(product(*(range(iterator.extent) for iterator in BOX)))
    times = {_time(rows, dict(zip("ijk", point, strict=True))) for point in points}
    return len(times) == len(points)


def _size(box: list[range]) -> int:
    total = 1
    for axis in box:
        total *= len(axis)
    return total
