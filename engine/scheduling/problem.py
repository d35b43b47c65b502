"""A program indexed for the scheduler: which iterators of which statements may share a dimension.

Statements are numbers here (their textual position), iterators too (their position in the statement's box).  Two
statements may share a dimension only at distance zero: every dependence between them joins instances with equal values
of the chosen iterators.  `DependenceEdge` keeps that relation as bit masks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from engine.poly.nodes import Dependence, Generator
from engine.scheduling.algebra import rank
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram

Masks = tuple[int, ...]
"""Iterator of one statement -> mask of the iterators of another."""


@dataclass(slots=True)
class DependenceEdge:
    """The dependences between two statements, the first one earlier in the text."""

    source: int
    sink: int
    forward: Masks
    """Iterator of the source -> mask of the sink's iterators at distance zero."""
    backward: Masks
    weight: int
    dependences: list[Dependence]


@dataclass(frozen=True, slots=True)
class AffineRow:
    """A row with general coefficients over a statement's iterators."""

    coefficients: tuple[int, ...]
    constant: int = 0


Row = int | AffineRow
"""One dimension of a statement's time stamp; the row that is one iterator is that iterator's number."""

Rows = tuple[Row, ...]
"""A statement's rows so far, outermost first; they are linearly independent."""


def row_of(coefficients: Iterable[int], constant: int = 0) -> Row:
    """The row with these coefficients in its simplest form: an iterator's number if it is one iterator."""
    line = AffineRow(tuple(coefficients), constant)
    used = [k for k, c in enumerate(line.coefficients) if c]
    return used[0] if len(used) == 1 and line.coefficients[used[0]] == 1 and not constant else line


def coefficients(row: Row, width: int) -> tuple[int, ...]:
    """Coefficients of a row over `width` iterators."""
    return row.coefficients if isinstance(row, AffineRow) else tuple(int(k == row) for k in range(width))


def value(row: Row, point: tuple[int, ...], one: int) -> int:
    """The row at a generator's end: `one` is the generator's homogeneous coordinate."""
    if isinstance(row, int):
        return point[row]
    return sum(c * x for c, x in zip(row.coefficients, point, strict=True)) + row.constant * one


def difference(generator: Generator, source: Row, sink: Row) -> int:
    """Sink's row minus source's row."""
    return value(sink, generator.sink, generator.one) - value(source, generator.source, generator.one)


@dataclass(slots=True)
class ScheduleProblem:
    """The statements of one group with their dependences, indexed for the search."""

    program: TensorProgram
    statements: tuple[Statement, ...]
    number: Mapping[str, int]
    names: tuple[tuple[str, ...], ...]
    """Iterator names of each statement."""
    extents: tuple[tuple[int, ...], ...]
    reduced: tuple[int, ...]
    """Mask of each statement's reduction iterators."""
    edges: dict[tuple[int, int], DependenceEdge]
    links: tuple[tuple[tuple[int, Masks], ...], ...]
    """Statement -> (statement joined to it by an edge, own iterator -> mask of the other's at distance zero)."""
    sizes: tuple[Mapping[int, int], ...]
    """Statement -> extent -> mask of the iterators that have it."""
    own: tuple[tuple[Dependence, ...], ...]
    """Dependences of each statement on itself."""
    next_rows: dict[Hashable, Mapping[int, Row] | None] = field(default_factory=dict)
    """What a linear program was asked for -> the rows that it gave, None where it has none."""
    _faces: dict[tuple[int, int, int, Rows, Rows], tuple[Generator, ...]] = field(default_factory=dict)
    _distances: dict[tuple[int, Rows], Mapping[int, int]] = field(default_factory=dict)

    def rank(self, statement: int) -> int:
        """Number of rows that a statement needs."""
        return len(self.names[statement])

    def unused_iterators(self, statement: int, rows: Rows) -> list[int]:
        """Iterators that are linearly independent of the rows so far, in order."""
        width = self.rank(statement)
        if not rows:
            return list(range(width))
        if all(isinstance(row, int) for row in rows):
            return [k for k in range(width) if k not in rows]
        matrix = [coefficients(row, width) for row in rows]
        return [k for k in range(width) if rank([*matrix, coefficients(k, width)]) > len(rows)]

    def distances(self, statement: int, rows: Rows) -> Mapping[int, int]:
        """The unused iterators of a statement, each with its `distance` as the next row."""
        key = (statement, rows)
        if key not in self._distances:
            unused = self.unused_iterators(statement, rows)
            self._distances[key] = {k: self.distance(statement, rows, k) for k in unused}
        return self._distances[key]

    def leading(self, statement: int, rows: Rows) -> int:
        """The iterator that names the last row: the first in it that no earlier row has."""
        last = rows[-1]
        if isinstance(last, int):
            return last
        width = self.rank(statement)
        before = {k for row in rows[:-1] for k, c in enumerate(coefficients(row, width)) if c}
        used = [k for k, c in enumerate(last.coefficients) if c]
        return next((k for k in used if k not in before), used[0])

    def index(self, statement: int, row: Row) -> Index:
        """A row as an index over the statement's iterators."""
        names = self.names[statement]
        if isinstance(row, int):
            return Index.of(names[row])
        return Index.sum(zip(names, row.coefficients, strict=True), row.constant)

    def row(self, statement: int, index: Index) -> Row:
        """The row of an index; inverse of `index`."""
        match index:
            case Index(((str(name), 1),), 0):  # the usual row
                return self.names[statement].index(name)
        return row_of((index.coefficient(name) for name in self.names[statement]), index.constant)

    def face(self, dependence: Dependence, number: int, rows: Rows, others: Rows) -> tuple[Generator, ...]:
        """Generators of a dependence that its two ends' rows leave at equal time; empty when it is satisfied.

        number: which one it is among those of its two statements.
        """
        key = (self.number[dependence.source], self.number[dependence.sink], number, rows, others)
        if key not in self._faces:
            kept = dependence.generators
            for source, sink in zip(rows, others, strict=True):
                kept = tuple(g for g in kept if difference(g, source, sink) == 0)
            self._faces[key] = kept if any(g.one for g in kept) else ()
        return self._faces[key]

    def distance(self, statement: int, rows: Rows, row: Row) -> int:
        """Effect of appending `row` on the self-dependences: -1 breaks one, 1 carries one, 0 neither."""
        return self._effect(self.own[statement], (rows, rows), (row, row))

    def between(self, edge: DependenceEdge, rows: Rows, others: Rows, row: Row, other: Row) -> int:
        """The same for an edge whose ends have `rows` and `others`, under their next rows `row` and `other`."""
        if isinstance(row, int) and isinstance(other, int) and edge.forward[row] >> other & 1:
            return 0
        return self._effect(edge.dependences, (rows, others), (row, other))

    def _effect(self, dependences: Iterable[Dependence], above: tuple[Rows, Rows], ends: tuple[Row, Row]) -> int:
        result = 0
        for number, dependence in enumerate(dependences):
            for generator in self.face(dependence, number, *above):
                apart = difference(generator, *ends)
                if apart < 0:
                    return -1
                result = max(result, min(apart, 1))
        return result

    def dependences(self) -> Iterator[Dependence]:
        """All dependences, those of statements on themselves first."""
        yield from chain(*self.own, *(edge.dependences for edge in self.edges.values()))


def prepare(program: TensorProgram, dependences: Iterable[Dependence]) -> ScheduleProblem:
    """Index a program and its dependences.  Dependences must join statements of the program in textual order."""
    statements = program.statements
    number = {s.name: k for k, s in enumerate(statements)}
    edges: dict[tuple[int, int], DependenceEdge] = {}
    own: list[list[Dependence]] = [[] for _ in statements]
    tables: dict[int, tuple[Masks, Masks]] = {}
    for dependence in dependences:
        source, sink = number[dependence.source], number[dependence.sink]
        if source == sink:
            own[source].append(dependence)
            continue
        key = id(dependence.generators)
        if key not in tables:
            widths = (len(statements[source].iterators), len(statements[sink].iterators))
            tables[key] = _distance_zero(dependence.generators, *widths)
        forward, backward = tables[key]
        edge = edges.get((source, sink))
        if edge is None:
            edges[source, sink] = DependenceEdge(source, sink, forward, backward, dependence.weight, [dependence])
        else:
            edge.forward = tuple(a & b for a, b in zip(edge.forward, forward, strict=True))
            edge.backward = tuple(a & b for a, b in zip(edge.backward, backward, strict=True))
            edge.weight += dependence.weight
            edge.dependences.append(dependence)
    links: list[list[tuple[int, Masks]]] = [[] for _ in statements]
    for (source, sink), edge in edges.items():
        links[source].append((sink, edge.forward))
        links[sink].append((source, edge.backward))
    return ScheduleProblem(
        program=program,
        statements=statements,
        number=number,
        names=tuple(tuple(i.name for i in s.iterators) for s in statements),
        extents=tuple(tuple(i.extent for i in s.iterators) for s in statements),
        reduced=tuple(_mask(k for k, i in enumerate(s.iterators) if i in s.reduced) for s in statements),
        edges=edges,
        links=tuple(map(tuple, links)),
        sizes=tuple(map(_by_size, statements)),
        own=tuple(map(tuple, own)),
    )


def _by_size(statement: Statement) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for k, iterator in enumerate(statement.iterators):
        found[iterator.extent] = found.get(iterator.extent, 0) | 1 << k
    return found


def _mask(bits: Iterable[int]) -> int:
    return sum(1 << bit for bit in bits)


def _distance_zero(generators: tuple[Generator, ...], source: int, sink: int) -> tuple[Masks, Masks]:
    """Which iterators agree on every generator, from both sides; a row at such a pair has distance zero everywhere."""
    left = [tuple(g.source[k] for g in generators) for k in range(source)]
    right = [tuple(g.sink[k] for g in generators) for k in range(sink)]
    forward = tuple(_mask(k for k, column in enumerate(right) if column == wanted) for wanted in left)
    backward = tuple(_mask(k for k, column in enumerate(left) if column == wanted) for wanted in right)
    return forward, backward
