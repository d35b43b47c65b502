"""Published rows as the dimensions that the linear solver sees: the quotients and remainders of one row are one.

    [1, 1, ?12] (/4)    [0, 1, ?]    [1, 1, ?12] (%4)    ->    i + j, counted in parts of 4;    j
"""

from __future__ import annotations

from collections.abc import Iterator as Iterator_
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.scheduling.published.digits import Digit, check_axis, digit_of
from engine.scheduling.published.nodes import Coefficient, Free, Published, PublishedRow
from engine.support.errors import Unsupported
from engine.tensor.nodes import Iterator

Vector = tuple[Coefficient, ...]


@dataclass(slots=True)
class AffineDimension:
    """One dimension before its quotients and remainders are taken."""

    rows: dict[str, Vector]
    """Statement -> the coefficients of its row: iterators, then the constant."""
    parts: dict[int, PublishedRow]
    """The published dimensions that count it, with their operations (those of all statements)."""
    digits: tuple[Digit, ...] = field(default=())
    """What each part counts; none for a constant."""

    @property
    def is_constant(self) -> bool:
        """Whether it only orders statements."""
        return all(not any(row[:-1]) and isinstance(row[-1], int) for row in self.rows.values())

    @property
    def lows(self) -> tuple[int, ...]:
        """How many values each part steps by, the largest first."""
        return tuple(sorted({d.low for d in self.digits}, reverse=True))


def affine_dimensions(published: Published) -> tuple[AffineDimension, ...]:
    """The dimensions in the order of their first part.

    Raises BadInput where the parts of a dimension skip or repeat some of its values, Unsupported where statements
    would be counted in different parts.
    """
    found: list[AffineDimension] = []
    for number, here in enumerate(_rows_by_dimension(published)):
        operations = {row.operations for row in here.values()}
        if len(operations) > 1:
            first, *others = here
            reason = f"{first} and {' and '.join(others)} ask for different dimensions"
            hint = "a loop is cut in the same parts for all statements that share it"
            raise Unsupported("schedule", f"advice {published.name}", reason, hint)
        _add(found, number, here)
    extents = [axis.extent for axis in published.pattern[0].axes]
    for dimension in found:
        if not dimension.is_constant:
            _count(dimension, extents, published.name)
    return tuple(found)


def orders_statements(published: Published) -> bool:
    """Whether some dimension is constants only, which say the order of the statements."""
    rows = ({s: row.coefficients for s, row in here.items()} for here in _rows_by_dimension(published))
    return any(AffineDimension(of, {}).is_constant for of in rows)


def _rows_by_dimension(published: Published) -> Iterator_[dict[str, PublishedRow]]:
    """Statement -> its row, for each dimension; below a sequence statements may have fewer than others."""
    for number in range(max(len(wish.rows) for wish in published.wishes)):
        yield {wish.statement: wish.rows[number] for wish in published.wishes if number < len(wish.rows)}


def links_between(dimensions: Sequence[AffineDimension]) -> tuple[int, ...]:
    """Links that stand in several dimensions, which no constraint on one dimension can say."""
    where: dict[int, set[int]] = {}
    for number, dimension in enumerate(dimensions):
        for c in (c for row in dimension.rows.values() for c in row):
            if isinstance(c, Free) and c.link is not None:
                where.setdefault(c.link, set()).add(number)
    return tuple(sorted(link for link, found in where.items() if len(found) > 1))


def with_values(published: Published, values: Mapping[int, int]) -> Published:
    """The file with some links replaced by numbers."""

    def fix_links(row: PublishedRow) -> PublishedRow:
        found = (values.get(c.link, c) if isinstance(c, Free) and c.link is not None else c for c in row.coefficients)
        return replace(row, coefficients=tuple(found))

    wishes = (replace(wish, rows=tuple(map(fix_links, wish.rows))) for wish in published.wishes)
    return replace(published, wishes=tuple(wishes))


def _add(found: list[AffineDimension], number: int, here: Mapping[str, PublishedRow]) -> None:
    """Add a published dimension as a part of the one that it counts further, or as one of its own."""
    part = next(iter(here.values()))
    for dimension in found if part.operations else ():
        merged = {s: merge(dimension.rows[s], row.coefficients) for s, row in here.items() if s in dimension.rows}
        rows = {s: row for s, row in merged.items() if row is not None}
        if all(p.operations for p in dimension.parts.values()) and rows.keys() == dimension.rows.keys():
            dimension.rows, dimension.parts[number] = rows, part
            return
    found.append(AffineDimension({s: row.coefficients for s, row in here.items()}, {number: part}))


def merge(first: Vector, second: Vector) -> Vector | None:
    """One row that both can be; None where fixed coefficients differ."""
    merged: list[Coefficient] = []
    for a, b in zip(first, second, strict=True):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            return None
        fixed = next((c for c in (a, b) if isinstance(c, int)), None)
        linked = next((c for c in (a, b) if isinstance(c, Free) and c.link is not None), a)
        merged.append(linked if fixed is None else fixed)
    return tuple(merged)


def _count(dimension: AffineDimension, extents: Sequence[int], name: str) -> None:
    statement, axis = max(
        ((s, _values(s, row, extents)) for s, row in dimension.rows.items()), key=lambda pair: pair[1].extent
    )
    dimension.digits = tuple(digit_of(number, row, 0, axis, name) for number, row in dimension.parts.items())
    check_axis(dimension.digits, axis, statement, name)


def _values(statement: str, row: Vector, extents: Sequence[int]) -> Iterator:
    """The values that a row counts from 0 on, or from its smallest; an open coefficient counts nothing."""
    *iterators, constant = (c if isinstance(c, int) else 0 for c in row)
    ends = [c * (n - 1) for c, n in zip(iterators, extents, strict=True)]
    low, high = (constant + sum(end for end in ends if (end > 0) == is_high) for is_high in (False, True))
    return Iterator(f"the row of {statement}", high - min(low, 0) + 1)
