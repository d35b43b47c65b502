"""What the search needs to know of a program, prepared once: which iterators may share a dimension.

Statements are numbers here (their textual position), iterators too (their position in the statement's box).  Two
statements may share a dimension only at distance zero: every dependence between them joins instances with equal values
of the chosen iterators.  `Edge` keeps that relation as bit masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.poly.nodes import Dependence, Generator
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(slots=True)
class Edge:
    """The dependences between two statements, the first one earlier in the text."""

    source: int
    sink: int
    forward: tuple[int, ...]
    """Iterator of the source -> mask of the sink's iterators at distance zero."""
    backward: tuple[int, ...]
    weight: int
    dependences: list[Dependence]


Rows = tuple[int, ...]
"""Iterators of a statement already used as rows, outermost first."""


@dataclass(slots=True)
class Problem:
    """The statements of one group with their dependences, indexed for the search."""

    program: TensorProgram
    statements: tuple[Statement, ...]
    number: Mapping[str, int]
    names: tuple[tuple[str, ...], ...]
    """Iterator names of each statement."""
    extents: tuple[tuple[int, ...], ...]
    reduced: tuple[int, ...]
    """Mask of each statement's reduction iterators."""
    edges: dict[tuple[int, int], Edge]
    neighbours: tuple[tuple[int, ...], ...]
    """Statements joined to each by an edge, either way."""
    own: tuple[tuple[Dependence, ...], ...]
    """Dependences of each statement on itself."""
    _faces: dict[tuple[int, int, Rows], tuple[Generator, ...]] = field(default_factory=dict)

    def rank(self, statement: int) -> int:
        """Number of rows that a statement needs."""
        return len(self.names[statement])

    def face(self, statement: int, own: int, rows: Rows) -> tuple[Generator, ...]:
        """Generators of a self-dependence that `rows` leave at equal time; empty when it is satisfied."""
        key = (statement, own, rows)
        if key not in self._faces:
            kept = self.own[statement][own].generators
            for row in rows:
                kept = tuple(g for g in kept if g.sink[row] == g.source[row])
            self._faces[key] = kept if any(g.one for g in kept) else ()
        return self._faces[key]

    def distance(self, statement: int, rows: Rows, row: int) -> int:
        """What `row` after `rows` does to the self-dependences: -1 breaks one, 1 carries one, 0 none of both."""
        result = 0
        for own in range(len(self.own[statement])):
            for generator in self.face(statement, own, rows):
                difference = generator.sink[row] - generator.source[row]
                if difference < 0:
                    return -1
                result = max(result, min(difference, 1))
        return result


def prepare(program: TensorProgram, dependences: Iterable[Dependence]) -> Problem:
    """Index a program and its dependences.  Dependences must join statements of the program in textual order."""
    statements = program.statements
    number = {s.name: k for k, s in enumerate(statements)}
    edges: dict[tuple[int, int], Edge] = {}
    own: list[list[Dependence]] = [[] for _ in statements]
    tables: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
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
            edges[source, sink] = Edge(source, sink, forward, backward, dependence.weight, [dependence])
        else:
            edge.forward = tuple(a & b for a, b in zip(edge.forward, forward, strict=True))
            edge.backward = tuple(a & b for a, b in zip(edge.backward, backward, strict=True))
            edge.weight += dependence.weight
            edge.dependences.append(dependence)
    neighbours: list[list[int]] = [[] for _ in statements]
    for source, sink in edges:
        neighbours[source].append(sink)
        neighbours[sink].append(source)
    return Problem(
        program=program,
        statements=statements,
        number=number,
        names=tuple(tuple(i.name for i in s.iterators) for s in statements),
        extents=tuple(tuple(i.extent for i in s.iterators) for s in statements),
        reduced=tuple(_mask(k for k, i in enumerate(s.iterators) if i in s.reduced) for s in statements),
        edges=edges,
        neighbours=tuple(map(tuple, neighbours)),
        own=tuple(map(tuple, own)),
    )


def _mask(bits: Iterable[int]) -> int:
    return sum(1 << bit for bit in bits)


def _distance_zero(
    generators: tuple[Generator, ...], source: int, sink: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which iterators agree on every generator, from both sides; a row at such a pair has distance zero everywhere."""
    left = [tuple(g.source[k] for g in generators) for k in range(source)]
    right = [tuple(g.sink[k] for g in generators) for k in range(sink)]
    forward = tuple(_mask(k for k, column in enumerate(right) if column == wanted) for wanted in left)
    backward = tuple(_mask(k for k, column in enumerate(left) if column == wanted) for wanted in right)
    return forward, backward
