"""How a group's accesses to global memory move with its iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.graph.nodes import DTYPES
from engine.support.values import value
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import contiguous_along, position, stride, uniform_along, vector_limit
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Statement, TensorProgram


@value(frozen=True, slots=True)
class Pattern:
    """One access to global memory: a read of an input, or a write of an output."""

    statement: str
    access: Access
    written: bool
    where: Index
    """Its row-major position."""
    element: int
    """Bytes of one element."""
    extents: Mapping[str, int]
    guards: tuple[Guard, ...]
    """Those of the access and of its statement."""
    order: tuple[str, ...]
    """Iterators in the order in which it would like to be walked, innermost first: by the length of their steps.  Empty
    where no iterator moves from one element to the next."""
    vector: int
    """Elements of one aligned access along `order[0]`; 1 for none."""

    @property
    def ideal(self) -> str | None:
        """The iterator that should be innermost."""
        return self.order[0] if self.order else None

    @property
    def moves(self) -> frozenset[str]:
        """The iterators that the access depends on."""
        return frozenset(n for i in (self.where, *(g.index for g in self.guards)) for n in i.iterators())

    @property
    def is_regular(self) -> bool:
        """Whether every element is known before anything is read, and always read."""
        return not self.guards and not self.where.is_indirect

    def can_be(self, run: tuple[str, ...], width: int) -> bool:
        """Whether `width` neighbours along a run of iterators, outermost first, are one aligned access."""
        uniform = all(uniform_along(g.index, run, width, self.extents) for g in self.guards)
        return uniform and contiguous_along(self.where, run, width, self.extents)


def patterns(program: TensorProgram) -> tuple[Pattern, ...]:
    """Every access of a group to global memory, in order; what several statements read alike is loaded once."""
    found: dict[tuple[str, Index, bool], Pattern] = {}
    for statement in program.statements:
        for access in statement.reads():
            if access.array in program.inputs:
                pattern = _pattern(access, False, statement, program)
                found.setdefault((access.array, pattern.where, False), pattern)
        if statement.write.array in program.outputs:
            pattern = _pattern(statement.write, True, statement, program)
            found[pattern.access.array, pattern.where, True] = pattern
    return tuple(found.values())


def run_limit(program: TensorProgram, run: Sequence[str], own: Mapping[str, Sequence[str]]) -> int:
    """The widest vector along a run of dimensions; 1 where a statement has only some of them.

    own: statement -> its iterators along the run.
    """
    if any(names and len(names) < len(run) for names in own.values()):
        return 1
    return vector_limit(program.statements, program, own)


def _pattern(access: Access, written: bool, statement: Statement, program: TensorProgram) -> Pattern:
    where = position(access, program.arrays)
    extents = statement.extents
    steps = {name: step for name in extents if (step := stride(where, name))}
    order = tuple(sorted(steps, key=lambda name: abs(steps[name])))
    if not order or steps[order[0]] != 1:
        order = ()
    guards = (*access.guards, *statement.guards)
    element = DTYPES[program.arrays[access.array].dtype]
    found = Pattern(statement.name, access, written, where, element, extents, guards, order, 1)
    width = VECTOR_BYTES // element if order else 1
    while width > 1 and not found.can_be(order[:1], width):
        width //= 2
    return replace(found, vector=width)


def wanted_widths(found: Sequence[Pattern], along: str) -> frozenset[int]:
    """The vector widths that the accesses which move along an iterator would have there, each by itself."""
    return frozenset(p.vector if p.ideal == along else 1 for p in found if along in p.moves)


def row_vector(program: TensorProgram, along: str) -> int:
    """Neighbouring elements of a row that one thread can load at once.  along: the innermost reduced iterator."""
    runs = {s.name: (along,) for s in program.statements if along in s.extents}
    return vector_limit(program.statements, program, runs)
