"""A tensor program as isl sees it: a union of boxes, unions of affine accesses, and the textual order as a tree.

Statements, iterators and arrays are called by their numbers (S0, i0, A0), since isl has words of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.tensor.index import Element, Index, Quotient, Remainder
from engine.tensor.nodes import Access, Guard, Statement, TensorProgram

SYMBOLIC = 4
"""Sizes from here on may be parameters, as in `engine.poly`."""

Request = Mapping[str, str]
"""What isl is told of a program: isl texts by name."""


def request(program: TensorProgram, symbolic: bool) -> Request:
    """The texts of a program.  Equal for programs that differ in names and in what their statements compute.

    A statement that reduces reads and writes its accumulator in every instance.  symbolic: sizes are parameters.
    """
    sizes = Sizes.of(program, symbolic)
    spoken = [_Spoken(f"S{k}", s, sizes) for k, s in enumerate(program.statements)]
    arrays = {array: f"A{k}" for k, array in enumerate(_arrays(program))}
    writers = Counter(s.write.array for s in program.statements)
    again = {array for array, count in writers.items() if count > 1 or array in program.inputs}

    def union(pieces: Iterable[str]) -> str:
        return f"{sizes.declared}{{ {'; '.join(pieces)} }}"

    domain = union(s.domain() for s in spoken)
    order = ", ".join(f'{{ filter: "{union([s.tuple])}"{s.loops()} }}' for s in spoken)
    return {
        "context": sizes.context,
        "domain": domain,
        "order": f'{{ domain: "{domain}", child: {{ sequence: [ {order} ] }} }}',
        "writes": union(s.access(s.statement.write, arrays) for s in spoken),
        "reads": union(s.access(read, arrays) for s in spoken for read in _reads(s.statement)),
        "rewrites": union(s.access(s.statement.write, arrays) for s in spoken if s.statement.write.array in again),
    }


def _arrays(program: TensorProgram) -> dict[str, None]:
    """The arrays in the order in which the statements name them."""
    return dict.fromkeys(a.array for s in program.statements for a in (*s.reads(), s.write))


def _reads(statement: Statement) -> Iterable[Access]:
    yield from dict.fromkeys(statement.reads())
    if statement.reduction:
        yield statement.write


@dataclass(frozen=True, slots=True)
class Sizes:
    """How a size is written: as a number, or through the parameter that stands for it or for a size close by."""

    parameters: Mapping[int, tuple[str, int]]
    """Size -> (parameter, what to add)."""

    @staticmethod
    def of(program: TensorProgram, symbolic: bool) -> Sizes:
        """The sizes of a program's boxes.  A padded size is the size it came from plus a constant."""
        found: dict[int, tuple[str, int]] = {}
        base = 0
        if symbolic and all(_is_affine(s) for s in program.statements):
            for size in sorted({i.extent for s in program.statements for i in s.iterators if i.extent >= SYMBOLIC}):
                if size - base >= SYMBOLIC:
                    base = size
                found[size] = (f"N{base}", size - base)
        return Sizes(found)

    def text(self, size: int) -> str:
        """The size in isl's notation."""
        parameter, more = self.parameters.get(size, ("0", size))
        return f"{parameter} + {more}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.parameters.values()))

    @property
    def declared(self) -> str:
        """How an isl text begins; empty without parameters, for isl takes "[] -> [...]" for something else."""
        return f"[{', '.join(self.names)}] -> " if self.names else ""

    @property
    def context(self) -> str:
        """What is known of the parameters."""
        return f"{self.declared}{{ : {' and '.join(f'{name} >= {SYMBOLIC}' for name in self.names) or 'true'} }}"


def _is_affine(statement: Statement) -> bool:
    accesses = (*statement.reads(), statement.write)
    guards = (*statement.guards, *(g for a in accesses for g in a.guards))
    return all(i.is_affine for i in (*(i for a in accesses for i in a.indices), *(g.index for g in guards)))


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A statement in isl's notation."""

    name: str
    statement: Statement
    sizes: Sizes

    @property
    def iterators(self) -> dict[str, str]:
        """Iterator -> its name for isl."""
        return {i.name: f"i{k}" for k, i in enumerate(self.statement.iterators)}

    @property
    def tuple(self) -> str:
        return f"{self.name}[{', '.join(self.iterators.values())}]"

    def domain(self) -> str:
        bounds = [f"0 <= {self.iterators[i.name]} < {self.sizes.text(i.extent)}" for i in self.statement.iterators]
        guards = self._guards(self.statement.guards, [])
        return f"{self.tuple} : {' and '.join([*bounds, *guards]) or 'true'}"

    def loops(self) -> str:
        """The band of the statement's own loops, where it has any."""
        rows = ", ".join(f"{{ {self.tuple} -> [({i})] }}" for i in self.iterators.values())
        return f', child: {{ schedule: "{self.sizes.declared}[{rows}]" }}' if rows else ""

    def access(self, access: Access, arrays: Mapping[str, str]) -> str:
        """The element that each instance touches, or every element that an indirect index may name."""
        unknown: list[str] = []
        elements = [f"e{k}" for k in range(len(access.indices))]
        indices = [self._text(index, unknown) for index in access.indices]
        equal = [f"{element} = {index}" for element, index in zip(elements, indices, strict=True)]
        guards = self._guards(access.guards, unknown)
        body = " and ".join([*equal, *guards, *unknown]) or "true"
        if unknown:
            body = f"exists ({', '.join(f'u{k}' for k in range(len(unknown)))} : {body})"
        return f"{self.tuple} -> {arrays[access.array]}[{', '.join(elements)}] : {body}"

    def _guards(self, guards: Iterable[Guard], unknown: list[str]) -> list[str]:
        return [f"{self._text(guard.index, unknown)} >= 0" for guard in guards]

    def _text(self, index: Index, unknown: list[str]) -> str:
        """An index; an indirect read in it becomes an unknown, whose bounds go to `unknown`."""
        pieces = [str(index.constant)]
        for atom, coefficient in index.terms:
            match atom:
                case str():
                    value = self.iterators[atom]
                case Quotient(of, by):
                    value = f"floor(({self._text(of, unknown)})/{by})"
                case Remainder(of, by):
                    value = f"(({self._text(of, unknown)}) mod {by})"
                case Element(_, _, low, high):
                    value = f"u{len(unknown)}"
                    unknown.append(f"{low} <= {value} <= {high}")
            pieces.append(f"{coefficient}*{value}")
        return " + ".join(pieces)
