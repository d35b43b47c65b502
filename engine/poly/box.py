"""Closed-form generators of dependences between affine accesses over boxes.

Every regular dependence of a tensor program has this shape: the sink's box is free, and the source's iterators follow
from it through the indices.  The polyhedron is then the image of a box, and its generators are the images of the box's
generators, in closed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

from engine.poly.nodes import Dependence, Generator

SYMBOLIC = 4
"""Smallest extent treated as a symbol.  A symbolic dimension has 1 + 2k generators with entries 0 and 1; k constant
dimensions have 2^k vertices with large entries."""

Dimension = tuple[int, bool]
"""(size, last): a value in 0 .. size-1, or fixed at size-1 when `last`."""


@dataclass(frozen=True, slots=True)
class AffineForm:
    """An affine function of the dimensions of a `DependenceBox`."""

    terms: tuple[tuple[int, int], ...] = ()
    """(dimension, coefficient)."""
    constant: int = 0

    def plus(self, by: int) -> AffineForm:
        return AffineForm(self.terms, self.constant + by)


@dataclass(slots=True)
class DependenceBox:
    """The free dimensions of one dependence, collected while its iterators are described."""

    dimensions: list[Dimension] = field(default_factory=list)

    def free(self, size: int) -> AffineForm:
        """Add a dimension with values 0 .. size-1; the form that selects it."""
        return self._add(size, last=False)

    def last(self, size: int) -> AffineForm:
        """The form of the constant size-1, symbolic where the size is."""
        return self._add(size, last=True)

    def _add(self, size: int, last: bool) -> AffineForm:
        # A single value needs no dimension; neither does the last value of a constant size.
        if size == 1 or (last and size < SYMBOLIC):
            return AffineForm((), size - 1 if last else 0)
        self.dimensions.append((size, last))
        return AffineForm(((len(self.dimensions) - 1, 1),))

    def generators(self, source: Iterable[AffineForm], sink: Iterable[AffineForm]) -> tuple[Generator, ...]:
        """Vertices and rays of {(source, sink)}; equal patterns give the same tuple object."""
        # Sizes above the threshold are all symbols, so they share one cache entry.
        shape = tuple((min(size, SYMBOLIC), last) for size, last in self.dimensions)
        return _generators(shape, tuple(source), tuple(sink))

    @property
    def symbols(self) -> tuple[int, ...]:
        """The actual size behind each symbol of the generators."""
        return tuple(size for size, _ in self.dimensions if size >= SYMBOLIC)


@lru_cache(maxsize=4096)
def _generators(
    shape: tuple[Dimension, ...], source: tuple[AffineForm, ...], sink: tuple[AffineForm, ...]
) -> tuple[Generator, ...]:
    """A symbolic dimension gives the rays y = N = 1 and N = 1; a constant one doubles the vertices."""
    symbolic = [d for d, (size, _) in enumerate(shape) if size >= SYMBOLIC]
    constant = [(d, size) for d, (size, _) in enumerate(shape) if size < SYMBOLIC]
    ones = (1,) * len(symbolic)
    found: dict[Generator, None] = {}
    # Vertices of the symbolic part are y = 0, N = 1; constant dimensions contribute their corners.
    for corner in product(*((0, size - 1) for _, size in constant)):
        at = dict(zip((d for d, _ in constant), corner, strict=True))
        found[Generator(_values(source, at, 1), _values(sink, at, 1), ones, 1)] = None
    for number, dimension in enumerate(symbolic):
        unit = tuple(int(k == number) for k in range(len(symbolic)))
        at = {dimension: 1}
        found[Generator(_values(source, at, 0), _values(sink, at, 0), unit, 0)] = None
        # A dimension fixed at its last value has only the ray along which it grows with N.
        if not shape[dimension][1]:
            found[Generator((0,) * len(source), (0,) * len(sink), unit, 0)] = None
    return tuple(found)


def _values(forms: Sequence[AffineForm], at: dict[int, int], one: int) -> tuple[int, ...]:
    return tuple(one * form.constant + sum(c * at.get(d, 0) for d, c in form.terms) for form in forms)


def at_actual_sizes(dependence: Dependence) -> tuple[Generator, ...]:
    """The vertices of a dependence with every symbol replaced by its actual size: concrete instance pairs, smallest
    first.

    With N_k - 1 to spend on the rays of symbol k, each vertex spends all of it on one ray.
    """
    vertices = [g for g in dependence.generators if g.one]
    for number, size in enumerate(dependence.symbols):
        rays = [g for g in dependence.generators if not g.one and g.sizes[number]]
        vertices = [_move_along(v, ray, size - 1) for v in vertices for ray in rays]
    distinct = {Generator(v.source, v.sink, (), v.one) for v in vertices}
    return tuple(sorted(distinct, key=lambda v: (sum(v.source) + sum(v.sink), v.source, v.sink)))


def _move_along(vertex: Generator, ray: Generator, by: int) -> Generator:
    return Generator(
        tuple(a + by * b for a, b in zip(vertex.source, ray.source, strict=True)),
        tuple(a + by * b for a, b in zip(vertex.sink, ray.sink, strict=True)),
        vertex.sizes,
        vertex.one,
    )
