"""Dependences as generators.

A dependence S -> T is the set of pairs (instance of S, instance of T) that must keep their order.  It is stored as the
generators of its polyhedron: vertices and rays over (source iterators, sink iterators).  A schedule row is legal when
its difference (sink row minus source row) is non-negative on every generator: Farkas' lemma with the dual already in
constraint form (research: isl's `coefficients()` has exactly these rows).

Sizes of 4 and more are symbols: a box dimension [0, N) gives the vertex y = 0, N = 1 and the rays y = N = 1 and N = 1.
`sizes` holds the coefficient of each symbol in a generator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generator:
    """One vertex (`one` = 1) or ray (`one` = 0)."""

    source: tuple[int, ...]
    """Value of each iterator of the source statement, in its order."""
    sink: tuple[int, ...]
    sizes: tuple[int, ...]
    """Value of each size symbol of the dependence."""
    one: int


@dataclass(frozen=True, slots=True)
class Dependence:
    """Pairs of instances whose order must be kept, because of one array."""

    kind: str
    """"flow" (write then read), "anti" (read then overwrite), "output" (write then write), "reduction" (the order of
    the terms of a reduction that is not associative)."""
    source: str
    """Statement whose instance must come first."""
    sink: str
    array: str
    generators: tuple[Generator, ...]
    symbols: tuple[int, ...] = ()
    """The actual size behind each symbol."""
    exact: bool = True
    """False when the polyhedron was widened (a box around an indirect read); then a violation may be spurious."""
    weight: int = 1
    """Bytes passed along the dependence; fusion takes heavy dependences first."""

    def __str__(self) -> str:
        return f"{self.kind} of {self.array}: {self.source} -> {self.sink}"
