"""Published advice as recipe entries of the user: coefficients, splits, elements of a block, threads, vector width.

[1, 0, ?] -> grid, [0, 1, ?] (/4) -> threads, [0, 1, ?] (%4) -> vector,   over 4096 x 3072
  S3 @ depth 0: terms ((i, 1), (j, 0))
  S3 @ depth 1: terms ((i, 0), (j, 1))
  all @ i: mark block 1            one row a block, 4096 blocks
  all @ innermost: mark thread 768
  all @ innermost: mark vector 4

Coefficients become constraints of the scheduler's linear program, whatever rows they ask for.  Where the parts of the
rows count the elements of the axes one after the other, their sizes become marks that every element-wise kernel reads;
otherwise they become splits, with marks on the dimensions themselves.  A coefficient that is linked across dimensions
becomes an alternative for each of its values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator as Iterator_
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from engine.fusion.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.compose import MAX_SCENARIOS
from engine.scheduling.published.digits import Digit, digits_of
from engine.scheduling.published.dimensions import (
    AffineDimension,
    Vector,
    affine_dimensions,
    links_between,
    merge,
    orders_statements,
    with_values,
)
from engine.scheduling.published.inject import entries_at, open_row, plain_name, solver_rows
from engine.scheduling.published.match import Runs, match, written_statements
from engine.scheduling.published.nodes import Free, Published
from engine.support.errors import Unsupported
from engine.tensor.nodes import Iterator

FLAGS_LEFT_OUT = " (without {})"
"""Ends the label of advice whose compiler flags our kernels are compiled without."""


def translate(published: Published, group: FusionGroup) -> tuple[Advice, ...]:
    """The advice of a file for a group, as the user's.

    Raises BadInput for advice of another operator or that contradicts itself, Unsupported for an order of elements that
    no kernel here has.
    """
    runs = match(published, group)
    label = published.name + (FLAGS_LEFT_OUT.format(", ".join(published.flags)) if published.flags else "")
    if not orders_statements(published):
        try:
            return (Advice("user", Scenario(tuple(_counted_in_order(published, group, runs)), label=label)),)
        except Unsupported:
            pass  # these rows count no elements in turn: they are followed as they are
    joined = links_between(affine_dimensions(published))
    if not joined:
        return (Advice("user", Scenario(tuple(_as_they_are(published, group, runs)), label=label)),)
    if 2 ** len(joined) > MAX_SCENARIOS:
        reason = f"{len(joined)} coefficients have one value in several dimensions"
        raise Unsupported("schedule", f"advice {published.name}", reason, "write their values")
    choices = (dict(zip(joined, values, strict=True)) for values in product((0, 1), repeat=len(joined)))
    offered = tuple(
        Scenario(
            tuple(_as_they_are(with_values(published, values), group, runs)),
            label=", ".join(f"?{link} = {value}" for link, value in values.items()),
        )
        for values in choices
    )
    return (Advice("user", Scenario((), offered, label=label)),)


def _counted_in_order(published: Published, group: FusionGroup, runs: Runs) -> list[Entry]:
    """The entries of advice that counts elements of the axes one after the other; Unsupported for other advice."""
    digits = digits_of(published)
    strip = _strip(published, digits)
    walked = _in_order(published, digits, strip)
    axes = published.pattern[0].axes
    order = tuple(dict.fromkeys(d.axis for d in walked))
    order += tuple(k for k in range(len(axes)) if k not in order)
    iterators = tuple(i for axis in order for i in runs[axis])
    entries = _coefficients_of_axes(published, digits, order, runs, names_of(published, group))
    owner = runs[strip.axis][-1] if strip else None
    if strip and owner:
        if owner.extent % strip.size:
            raise _refusal(published, f"{strip.size} values of {owner.name} do not divide its {owner.extent}")
        reason = f"dimension {strip.dimension} is inside the threads' loops: a thread owns its {strip.size} values"
        entries.append(_published_entry(published.name, reason, split=strip.size, at=owner.name))
    return entries + _marks(published, digits, axes, iterators, owner.name if owner else "innermost")


def names_of(published: Published, group: FusionGroup) -> dict[str, str]:
    """Statement of the file -> the group's."""
    written = written_statements(group)
    return {loops.statement: ours.name for loops, ours in zip(published.pattern, written, strict=True)}


def _coefficients_of_axes(
    published: Published, digits: Sequence[Digit], order: Sequence[int], runs: Runs, names: Mapping[str, str]
) -> list[Entry]:
    """The coefficients of rows that each count a part of one axis, the axes in `order`."""
    entries: list[Entry] = []
    depth = 0
    across = _links_across(published, digits)
    for axis in order:
        numbers = [d.dimension for d in digits if d.axis == axis]
        rows: dict[str, Vector] = {}
        for wish in published.wishes if numbers else ():
            row = wish.rows[numbers[0]].coefficients
            for number in numbers[1:]:
                row = merge(row, wish.rows[number].coefficients) or row
            # A link that joins several dimensions has the value that was chosen for it.
            *iterators, constant = row
            chosen = [int(k == axis) if c in across else c for k, c in enumerate(iterators)]
            rows[names[wish.statement]] = (*chosen, 0 if constant in across else constant)
        because = f"published advice {published.name}: {_numbers_text(numbers)}"
        is_open = any(isinstance(row[axis], Free) for row in rows.values())
        counted = solver_rows(rows, runs) if rows and not is_open else ()
        if counted and len(counted) < len(runs[axis]):
            # Statements that are shifted against each other along the axis are not so along each of its iterators.
            raise _refusal(published, f"{_numbers_text(numbers)} count all of {published.pattern[0].axes[axis].name}")
        for rank, owner in enumerate(runs[axis]):
            if is_open:
                named = {s: open_row(row, runs, axis) for s, row in rows.items()}
            else:
                named = dict(counted[rank].rows) if counted else {}
            entries += entries_at(depth, named, f"{because}, along {owner.name}" if len(runs[axis]) > 1 else because)
            depth += 1
    return entries


def _links_across(published: Published, digits: Sequence[Digit]) -> frozenset[Free]:
    """Links that stand in the rows of several axes."""
    axes: dict[Free, set[int]] = {}
    for wish in published.wishes:
        for digit in digits:
            for c in wish.rows[digit.dimension].coefficients:
                if isinstance(c, Free) and c.link is not None:
                    axes.setdefault(c, set()).add(digit.axis)
    return frozenset(link for link, found in axes.items() if len(found) > 1)


def _numbers_text(numbers: Sequence[int]) -> str:
    return f"dimension{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


@dataclass(frozen=True, slots=True)
class _MappedPart:
    """A published dimension in ours: `size` steps of `low` values of the dimension at an address."""

    at: str
    low: int
    size: int


def _as_they_are(published: Published, group: FusionGroup, runs: Runs) -> list[Entry]:
    """The entries of any other rows: coefficients and orders of statements, then splits, then what is mapped."""
    names = names_of(published, group)
    entries: list[Entry] = []
    tail: list[Entry] = []
    mapped: dict[int, _MappedPart] = {}
    depth = 0
    for dimension in affine_dimensions(published):
        numbers = _numbers_text(tuple(dimension.parts))
        because = f"published advice {published.name}: {numbers}"
        if dimension.is_constant:
            entries += _cut(dimension, depth, names, because)
            continue
        for row in solver_rows({names[s]: row for s, row in dimension.rows.items()}, runs, dimension.lows):
            entries += entries_at(depth, row.rows, f"{because}, {next(iter(dimension.parts.values()))}")
            at = plain_name(row.rows.values()) or f"depth {depth}"
            tail += [entry(split=n, at=at, because=because) for n in row.parts.values() if n > 1]
            here = (d for d in dimension.digits if d.low in row.parts)
            mapped |= {d.dimension: _MappedPart(at, row.parts[d.low], d.size) for d in here}
            depth += 1
    return entries + tail + _launch_marks(published, mapped)


def _cut(dimension: AffineDimension, depth: int, names: Mapping[str, str], because: str) -> Iterator_[Entry]:
    """Rows without iterators order the statements."""
    values = {names[s]: row[-1] if isinstance(row[-1], int) else 0 for s, row in dimension.rows.items()}
    parts = tuple(tuple(s for s in values if values[s] == value) for value in sorted(set(values.values())))
    if len(parts) > 1:
        yield entry(cut=parts, at=f"depth {depth}", because=because)


def _launch_marks(published: Published, mapped: Mapping[int, _MappedPart]) -> list[Entry]:
    """Marks for the grid, the threads and the vector, each on the dimensions that it takes a part of."""

    def sizes(numbers: Sequence[int]) -> int:
        return math.prod(mapped[n].size for n in numbers if n in mapped)

    name = published.name
    entries: list[Entry] = []
    inner: dict[str, int] = {}
    for number in sorted(mapped.keys() & set(published.blocks)):
        at, low = mapped[number].at, mapped[number].low
        inner[at] = min(low, inner.pop(at, low))
    for at, low in inner.items():
        # A block of one value of the innermost has one value of those outside it, too.
        if low > 1 or at == list(inner)[-1]:
            reason = f"{low} value{'s' if low > 1 else ''} of it a block"
            entries.append(_published_entry(name, reason, mark=("block", low), at=at))
    if published.threads:
        threads = sizes(published.threads)
        reason = f"{threads} thread{'s' if threads > 1 else ''} of a block"
        entries.append(_published_entry(name, reason, mark=("thread", threads), at="innermost"))
    if vectors := [n for n in published.vectors if n in mapped]:
        width = sizes(vectors)
        at = mapped[vectors[-1]].at
        entries.append(_published_entry(name, f"accesses of {width} elements", mark=("vector", width), at=at))
    return entries


def _strip(published: Published, digits: Sequence[Digit]) -> Digit | None:
    """The vector's dimension where the rest of its axis stands further out, loops of other axes between: a strip."""
    ordered = _sort_by_role(published, digits)
    vector = [d for d in ordered if d.dimension in published.vectors]
    before = [d for d in ordered if d not in vector]
    if len(vector) != 1 or vector[0].low != 1 or not before or before[-1].axis == vector[0].axis:
        return None
    return vector[0] if any(d.axis == vector[0].axis for d in before) else None


def _sort_by_role(published: Published, digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """The digits that count anything: grid, loops of a thread, threads, vector."""
    ranks = [published.blocks, (), published.threads, published.vectors]

    def rank(digit: Digit) -> tuple[int, int]:
        return next((k for k, dimensions in enumerate(ranks) if digit.dimension in dimensions), 1), digit.dimension

    return tuple(sorted((d for d in digits if d.size > 1), key=rank))


def _in_order(published: Published, digits: Sequence[Digit], strip: Digit | None) -> tuple[Digit, ...]:
    """The digits as a kernel counts its elements, but for a strip, which each thread counts for itself.

    Kernels here count the elements of the axes, in some order, one after the other; Unsupported for other ways.
    """
    ordered = tuple(d for d in _sort_by_role(published, digits) if d != strip)
    axes = published.pattern[0].axes
    seen: list[Digit] = []
    for digit in ordered:
        before = [d for d in seen if d.axis == digit.axis]
        if before and (seen[-1].axis != digit.axis or before[-1].low < digit.low):
            inner, outer = f"dimension {digit.dimension}", f"dimension {before[-1].dimension}"
            raise _refusal(published, f"{inner} goes on with {axes[digit.axis].name} of {outer}, out of turn")
        seen.append(digit)
    for axis in dict.fromkeys(d.axis for d in ordered[1:] if d.axis != ordered[0].axis):
        counted = math.prod(d.size for d in (*ordered, strip) if d and d.axis == axis)
        if counted != axes[axis].extent:
            reason = f"{axes[axis].name} has {axes[axis].extent} values and is counted up to {counted}"
            raise _refusal(published, f"{reason}, which only the outermost may")
    return ordered


def _refusal(published: Published, reason: str) -> Unsupported:
    hint = "one axis after the other, in the order grid, loops, threads, vector"
    return Unsupported("schedule", f"advice {published.name}", reason, hint)


def _marks(
    published: Published, digits: Sequence[Digit], axes: Sequence[Iterator], iterators: Sequence[Iterator], along: str
) -> list[Entry]:
    """What a block takes, its threads, and the width of a thread's accesses, which run along a dimension."""

    def product(dimensions: Sequence[int]) -> int:
        return math.prod(d.size for d in digits if d.dimension in dimensions)

    name = published.name
    entries: list[Entry] = []
    if published.blocks:
        blocks = product(published.blocks)
        elements = math.prod(d.size for d in digits if d.dimension not in published.blocks)
        if blocks != -(-published.pattern[0].points // elements):
            raise _refusal(published, f"some of the {blocks} blocks have nothing to do")
        values, dimension = _block(elements, iterators)
        reason = f"{blocks} block{'s' if blocks > 1 else ''}, of {elements} elements each"
        entries.append(_published_entry(name, reason, mark=("block", values), at=dimension))
    if published.threads:
        threads = product(published.threads)
        reason = f"{threads} thread{'s' if threads > 1 else ''} of a block"
        entries.append(_published_entry(name, reason, mark=("thread", threads), at="innermost"))
    if published.vectors:
        width = product(published.vectors)
        entries.append(_published_entry(name, f"accesses of {width} elements", mark=("vector", width), at=along))
    return entries


def _block(elements: int, iterators: Sequence[Iterator]) -> tuple[int, str]:
    """(values, iterator): so many neighbouring values of the outermost iterator that divides the elements evenly."""
    position = len(iterators) - 1
    while position > 0 and elements % iterators[position].extent == 0:
        elements //= iterators[position].extent
        position -= 1
    return elements, iterators[position].name if iterators else ""


def _published_entry(
    name: str, reason: str, *, at: str, mark: tuple[str, int | str] | None = None, split: int | None = None
) -> Entry:
    return entry(mark=mark, split=split, at=at, because=f"published advice {name}: {reason}")
