"""Quasi-affine index arithmetic: sums of iterators, floor divisions and remainders, with exact simplification.

An `Index` is `constant + sum(coefficient * atom)`.  An atom is an iterator name, a floor division or remainder of an
index by a positive number, or an element of an array (an indirect read).  Bounds come from iterator extents: an
iterator `i` with extent `n` takes the values 0 .. n-1.

    >>> i, j = Index.of("i"), Index.of("j")
    >>> extents = {"i": 128, "j": 768}
    >>> str((i * 768 + j).floordiv(768, extents)), str((i * 768 + j).mod(768, extents))
    ('i', 'j')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.support.values import value


@value(frozen=True, slots=True)
class Quotient:
    """floor(`of` / `by`), `by` positive."""

    of: Index
    by: int

    def __str__(self) -> str:
        return f"({self.of}) / {self.by}"


@value(frozen=True, slots=True)
class Remainder:
    """`of` modulo `by`, in 0 .. by-1, `by` positive."""

    of: Index
    by: int

    def __str__(self) -> str:
        return f"({self.of}) % {self.by}"


@value(frozen=True, slots=True)
class Element:
    """An indirect read: the integer at `indices` of `array`, known to lie in `low` .. `high`."""

    array: str
    indices: tuple[Index, ...]
    low: int
    high: int
    wraps: int = 0
    """The size of the axis whose end negative integers count from: added to them where they are read, before they are
    in `low` .. `high`.  0: none is negative."""

    def __str__(self) -> str:
        read = f"{self.array}[{', '.join(map(str, self.indices))}]"
        return f"wrap({read}, {self.wraps})" if self.wraps else read


Atom = str | Quotient | Remainder | Element
Extents = Mapping[str, int]


@value(frozen=True, slots=True)
class Index:
    """`constant + sum(coefficient * atom)`; terms are sorted by their text and have non-zero coefficients."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: Atom | int) -> Index:
        """An index that is one atom, or one number."""
        return Index((), value) if isinstance(value, int) else Index(((value, 1),))

    @staticmethod
    def sum(terms: Iterable[tuple[Atom, int]], constant: int = 0) -> Index:
        """Collect equal atoms and drop the ones that cancel."""
        collected: dict[Atom, int] = {}
        for atom, coefficient in terms:
            if atom in collected:
                collected[atom] += coefficient
            else:
                collected[atom] = coefficient
        kept = [term for term in collected.items() if term[1]]
        if len(kept) > 1:
            kept.sort(key=_text_of_atom)
        return Index(tuple(kept), constant)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        if not self.terms or not other.terms:
            return Index(self.terms or other.terms, self.constant + other.constant)
        return Index.sum((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        if not self.terms or not factor:
            return Index((), self.constant * factor)
        return Index(tuple([(a, c * factor) for a, c in self.terms]), self.constant * factor)

    def floordiv(self, by: int, extents: Extents) -> Index:
        """floor(self / by), simplified: multiples of `by` are divided exactly, a remainder below `by` is dropped."""
        whole, rest = self._split(by, extents)
        low, high = rest.bounds(extents)
        if low // by == high // by:
            return whole + low // by
        unit, coarse, _ = rest._coarsen(by, extents)
        return whole + Index.of(Quotient(coarse, by // unit))

    def mod(self, by: int, extents: Extents) -> Index:
        """self mod by, simplified."""
        _, rest = self._split(by, extents)
        low, high = rest.bounds(extents)
        if low // by == high // by:
            return rest - by * (low // by)
        unit, coarse, fine = rest._coarsen(by, extents)
        return Index.of(Remainder(coarse, by // unit)) * unit + fine

    def _split(self, by: int, extents: Extents) -> tuple[Index, Index]:
        """self = by * whole + rest, with every multiple of `by` moved into `whole` and `rest` never negative.

        So C's division, which truncates, agrees with the floor division that is meant.
        """
        if by <= 0:
            raise ValueError(f"division of an index by {by}")
        # Some of the terms of an index, and their multiples, stay sorted.
        whole = Index(tuple([(a, c // by) for a, c in self.terms if c % by == 0]), self.constant // by)
        rest = Index(tuple([(a, c) for a, c in self.terms if c % by]), self.constant % by)
        # C truncates toward zero: a negative rest would give another quotient.
        below = min(0, rest.bounds(extents)[0] // by)
        return whole + below, rest - below * by

    def _coarsen(self, by: int, extents: Extents) -> tuple[int, Index, Index]:
        """self = unit * coarse + fine with `unit` the largest divisor of `by` for which 0 <= fine < unit.

        So (8*c + v) / 64 becomes c / 8 when v < 8: an aligned vector never straddles the division.
        """
        # Only divisors of `by` keep the division exact: (unit * x + fine) / by = x / (by / unit).
        for unit in sorted({abs(c) for _, c in self.terms if c and by % c == 0}, reverse=True):
            fine = Index(tuple([(a, c) for a, c in self.terms if c % unit]), self.constant % unit)
            low, high = fine.bounds(extents)
            if low >= 0 and high < unit:
                coarse = Index(tuple([(a, c // unit) for a, c in self.terms if c % unit == 0]), self.constant // unit)
                return unit, coarse, fine
        return 1, self, Index()

    def substitute(self, values: Mapping[str, Index], extents: Extents) -> Index:
        """Substitute an index for each named iterator; `extents` are those of the iterators in the result."""
        if self.is_affine and values.keys().isdisjoint([atom for atom, _ in self.terms]):
            return self

        def leaf(atom: str | Element) -> Index | None:
            if isinstance(atom, str):
                return values.get(atom)
            return Index.of(replace(atom, indices=tuple(i.substitute(values, extents) for i in atom.indices)))

        return self.rebuild(leaf, extents)

    def rebuild(self, leaf: Callable[[str | Element], Index | None], extents: Extents) -> Index:
        """Put `leaf(atom)` for every iterator and indirect read, and simplify the divisions again; None leaves one."""
        terms: list[tuple[Atom, int]] = []
        constant = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, Quotient):
                new = atom.of.rebuild(leaf, extents).floordiv(atom.by, extents)
            elif isinstance(atom, Remainder):
                new = atom.of.rebuild(leaf, extents).mod(atom.by, extents)
            else:
                leaves = leaf(atom)
                if leaves is None:
                    terms.append((atom, coefficient))
                    continue
                new = leaves
            terms += new.terms if coefficient == 1 else [(a, c * coefficient) for a, c in new.terms]
            constant += new.constant * coefficient
        if len(terms) < 2:
            return Index(tuple(terms), constant)
        return Index.sum(terms, constant).merge_divisions()

    def evaluate(self, leaf: Callable[[str | Element], Any]) -> Any:
        """The value where iterators and indirect reads have the values `leaf(atom)`: numbers or NumPy arrays."""
        total: Any = self.constant
        for atom, coefficient in self.terms:
            match atom:
                case Quotient(of, by):
                    value = of.evaluate(leaf) // by
                case Remainder(of, by):
                    value = of.evaluate(leaf) % by
                case _:
                    value = leaf(atom)
            total = total + value * coefficient
        return total

    def merge_divisions(self) -> Index:
        """Merge `c * q * (x / q) + c * (x % q)` back into `c * x`."""
        if Remainder not in [type(atom) for atom, _ in self.terms]:  # as nearly always: no divisions are hashed
            return self
        parts = dict(self.terms)
        for atom, coefficient in self.terms:
            if isinstance(atom, Remainder):
                whole = Quotient(atom.of, atom.by)
                if parts.get(whole) == coefficient * atom.by and atom in parts:
                    rest = Index.sum((a, c) for a, c in parts.items() if a not in (atom, whole))
                    return (rest + atom.of * coefficient + self.constant).merge_divisions()
        return self

    def bounds(self, extents: Extents) -> tuple[int, int]:
        """Lower and upper bound over the box by interval arithmetic: sound, not always tight."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            a, b = (0, extents[atom] - 1) if isinstance(atom, str) else atom_bounds(atom, extents)
            if (coefficient > 0) == (a <= b):
                low += a * coefficient
                high += b * coefficient
            else:
                low += b * coefficient
                high += a * coefficient
        return low, high

    @property
    def is_affine(self) -> bool:
        return {str}.issuperset([type(atom) for atom, _ in self.terms])

    @property
    def is_variable(self) -> bool:
        """Whether it is one iterator, as it is."""
        if self.constant or len(self.terms) != 1:
            return False
        atom, coefficient = self.terms[0]
        return coefficient == 1 and isinstance(atom, str)

    @property
    def is_indirect(self) -> bool:
        return any(isinstance(atom, Element) for atom in self.atoms())

    @property
    def divisions(self) -> int:
        """Number of floor divisions, remainders and indirect reads, nested ones included."""
        return sum(not isinstance(atom, str) for atom in self.atoms())

    def atoms(self) -> Iterator[Atom]:
        """Every atom in order of appearance, each before those inside it."""
        for atom, _ in self.terms:
            yield atom
            match atom:
                case Quotient(of, _) | Remainder(of, _):
                    yield from of.atoms()
                case Element(_, indices, _, _):
                    for index in indices:
                        yield from index.atoms()

    def coefficient(self, iterator: str) -> int:
        """The factor of an iterator outside divisions."""
        return next((c for a, c in self.terms if a == iterator), 0)

    def iterators(self) -> tuple[str, ...]:
        """Every iterator that appears, also inside divisions and indirect reads, in order of appearance."""
        names = tuple([atom for atom, _ in self.terms if isinstance(atom, str)])
        if len(names) == len(self.terms):  # nearly all indices are affine, and name an iterator once
            return names
        return tuple(dict.fromkeys([atom for atom in self.atoms() if isinstance(atom, str)]))

    def elements(self) -> tuple[Element, ...]:
        """The indirect reads inside."""
        if not self.terms or {str}.issuperset([type(atom) for atom, _ in self.terms]):  # as nearly always
            return ()
        return tuple(atom for atom in self.atoms() if isinstance(atom, Element))

    def __str__(self) -> str:
        if not self.terms:
            return str(self.constant)
        text = ""
        for atom, c in self.terms:
            name = atom if isinstance(atom, str) else str(atom)
            name = f"({name})" if isinstance(atom, Quotient | Remainder) and abs(c) != 1 else name
            piece = name if abs(c) == 1 else f"{abs(c)}*{name}"
            text += (" - " if c < 0 else " + ") + piece if text else ("-" if c < 0 else "") + piece
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


def _text_of_atom(term: tuple[Atom, int]) -> str:
    """What the terms of an index are sorted by."""
    atom = term[0]
    return atom if isinstance(atom, str) else str(atom)


def atom_bounds(atom: Atom, extents: Extents) -> tuple[int, int]:
    """Smallest and largest value of an atom; KeyError for an iterator without extent."""
    match atom:
        case str():
            return 0, extents[atom] - 1
        case Quotient(of, by):
            low, high = of.bounds(extents)
            return low // by, high // by
        case Remainder(of, by):
            low, high = of.bounds(extents)
            return (low % by, high % by) if low // by == high // by else (0, by - 1)
        case Element(_, _, low, high):
            return low, high


def with_axis(indices: Sequence[Index], axis: int, index: Index) -> tuple[Index, ...]:
    """The indices with another one along an axis."""
    return (*indices[:axis], index, *indices[axis + 1 :])


def linear(indices: Iterable[Index], shape: Iterable[int]) -> Index:
    """Row-major position of `indices` in an array of `shape`, with split divisions joined again."""
    position = Index()
    for index, size in zip(indices, shape, strict=True):
        position = position * size + index
    return position.merge_divisions()


def delinearize(position: Index, shape: tuple[int, ...], extents: Extents) -> tuple[Index, ...]:
    """The indices of a row-major position: the inverse of `linear`."""
    result: list[Index] = []
    stride = 1
    for axis in reversed(range(len(shape))):
        index = position.floordiv(stride, extents)
        result.append(index if axis == 0 else index.mod(shape[axis], extents))
        stride *= shape[axis]
    return tuple(reversed(result))
