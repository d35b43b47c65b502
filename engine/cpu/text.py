"""C++ text in the making: lines with what stands behind them, names, expressions over C++ variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.graph.nodes import FLOAT8
from engine.support.errors import Unsupported
from engine.tensor.index import Element, Index, linear
from engine.tensor.nodes import Access, Apply, Array, Literal, Position, Scalar, map_leaves
from engine.tile.nodes.expressions import HELD, ROUND, STORED, condition_text, index_text, scalar_text
from engine.tile.source import NOWHERE, Line

Where = Mapping[str, Index]
"""Iterator of a statement -> its value over C++ variables."""
Place = Callable[[str, Sequence[Index]], str]
"""Array and indices over C++ variables -> the element in C++."""
MAX_INT = 2**31 - 1
NARROW = 2**16
"""Beyond all limits of codes."""


def stored_type(dtype: str) -> str:
    """The element type in memory.  Unsupported for types that kernels of a CPU do not have."""
    if dtype in FLOAT8 or dtype not in STORED:
        raise Unsupported("codegen", f"type {dtype}", "is not compiled for CPUs", "use a GPU target")
    return STORED[dtype]


def held_type(dtype: str) -> str:
    """The type of a variable."""
    stored_type(dtype)
    return HELD[dtype]


class Text:
    """Lines of C++ with their links, and the names that are taken."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.lines: list[tuple[str, Line]] = []
        self._depth = 0
        self._taken = set(taken)

    def add(self, text: str, link: Line = NOWHERE) -> None:
        """One line, indented by the blocks around it."""
        self.lines.append(("    " * self._depth + text if text else "", link))

    def pragma(self, text: str, link: Line = NOWHERE) -> None:
        """A line for the preprocessor."""
        self.add(f"#pragma {text}", link)

    @contextmanager
    def block(self, head: str, link: Line = NOWHERE) -> Iterator[None]:
        """What is added inside stands in braces after `head`; a head of "" adds none."""
        if not head:  # no block
            yield
            return
        self.add(f"{head} {{", link)
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    def name(self, wish: str) -> str:
        """A name that nothing else has."""
        plain = re.sub(r"\W", "_", wish, flags=re.ASCII)
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        self._taken.add(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are taken inside are free again afterwards."""
        before = set(self._taken)
        yield
        self._taken = before


def literal(value: float | int | bool, dtype: str) -> str:
    """A number in C++."""
    return scalar_text(Literal(value, dtype))


def element(name: str, array: Array, indices: Sequence[Index]) -> str:
    """An element of a whole array."""
    position = linear(indices, array.shape)
    return f"{name}[{index_text(position, array.elements > MAX_INT)}]"


def round_text(text: str, dtype: str) -> str:
    """What is stored: narrow integers wrap; narrow floats are rounded by their type."""
    return f"{ROUND[dtype]}({text})" if dtype in ROUND and "int" in dtype else text


def _in_quick_forms(value: Scalar) -> Scalar:
    """An expression with multiplications in place of divisions by numbers (a unit in the last place off),
    numbers as first operands of extrema, where they need no look at whether they are NaN, and one function for what
    becomes a code."""
    if not isinstance(value, Apply):
        return value
    operands = tuple([_in_quick_forms(operand) for operand in value.operands])
    match value.function, operands:
        case "div", (dividend, Literal(number, "float32")) if value.dtype == "float32" and _has_inverse(number):
            return Apply("mul", (dividend, Literal(1.0 / number, "float32")), "float32")
        case ("max" | "min"), (first, Literal() as second) if not isinstance(first, Literal):
            operands = (second, first)
        case "cast", (Apply("min", (Literal(most), Apply("max", (Literal(least), steps)))),) if "int" in value.dtype:
            if -NARROW <= least <= most <= NARROW:
                operands = (_code(steps, int(least), int(most)) or operands[0],)
    return Apply(value.function, operands, value.dtype)


def _code(steps: Scalar, least: int, most: int) -> Scalar | None:
    """A rounded number of steps from a zero point that is a code itself, within two limits; None for other numbers."""
    zero: Scalar = Literal(0, "int32")
    match steps:
        case Apply("add", (first, Apply("cast", (Literal() | Apply("cast", (Access() | Literal(),)) as second,)))):
            steps, zero = (first, second) if second.dtype == "int32" else (steps, zero)
    if not isinstance(steps, Apply) or steps.function != "round":
        return None
    return Apply("code", (*steps.operands, zero, Literal(least, "int32"), Literal(most, "int32")), "int32")


def _has_inverse(number: float) -> bool:
    """Whether a number and its inverse are ordinary ones."""
    return bool(number) and 1e-30 < abs(number) < 1e30


class Expressions:
    """Expressions of statements over C++ variables."""

    def __init__(self, arrays: Mapping[str, Array], extents: dict[str, int], place: Place) -> None:
        """extents: of the variables; looked-up indices are added.  place: how an element of an array is read."""
        self._arrays, self.extents, self._place = arrays, extents, place
        self.known: Mapping[str, str] = {}
        """Array -> the variable that holds the element that the present statement reads."""

    def value(self, expression: Scalar, where: Where, known: Mapping[str, str] | None = None) -> str:
        """An expression in C++.  known: array -> the variable that holds the element that is read."""
        names = self.known = known or {}

        def leaf(one: Literal | Access | Position) -> Scalar:
            match one:
                case Access(array) if array in names:
                    return Access(names[array], ())
                case Access():
                    return Access(self._read(one, where), ())
                case Position(index, dtype):
                    return Position(self.index(index, where), dtype)
            return one

        return scalar_text(map_leaves(_in_quick_forms(expression), leaf))

    def index(self, index: Index, where: Where) -> Index:
        """An index over C++ variables; what it looks up is read in place."""

        def leaf(atom: str | Element) -> Index:
            if isinstance(atom, str):
                return where[atom]
            found = self.known.get(atom.array) or self._place(atom.array, [self.index(i, where) for i in atom.indices])
            found = f"wrapped(int({found}), {atom.wraps})" if atom.wraps else f"int({found})"
            self.extents[found] = atom.high + 1
            return Index.of(found)

        return index.rebuild(leaf, self.extents)

    def conditions(self, indices: Sequence[Index]) -> str:
        """ "a && b" of those that are not always >= 0; "" where all are."""
        open_ones = [i for i in dict.fromkeys(indices) if i.bounds(self.extents)[0] < 0]
        return " && ".join(condition_text(i) for i in open_ones)

    def _read(self, access: Access, where: Where) -> str:
        array = self._arrays[access.array]
        text = self._place(access.array, [self.index(i, where) for i in access.indices])
        text = f"{held_type(array.dtype)}({text})" if array.dtype in ("float16", "bfloat16", "bool") else text
        condition = self.conditions([self.index(g.index, where) for g in access.guards])
        if not condition:
            return text
        return f"({condition} ? {text} : {literal((access.otherwise or Literal(0, array.dtype)).value, array.dtype)})"
