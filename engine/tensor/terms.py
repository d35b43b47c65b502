"""Operator overloading for scalar expressions: `x * sigmoid(x)` builds the `Apply` nodes with their element types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from engine.graph.nodes import FLOAT8
from engine.tensor.index import Index
from engine.tensor.nodes import Apply, Literal, Position, Scalar

HALVES = ("float16", "bfloat16")
"""Floating types of two bytes, which tensor cores multiply."""
NARROW = (*HALVES, *FLOAT8)
"""Floating types that are computed in float32, because rounding after every step would lose too much."""


@dataclass(frozen=True, slots=True)
class Term:
    """A scalar expression with the element type of its value.  Python numbers beside it take that type."""

    scalar: Scalar
    dtype: str

    def __add__(self, other: Term | float) -> Term:
        return apply("add", self, other)

    def __radd__(self, other: float) -> Term:
        return apply("add", number(other, self.dtype), self)

    def __sub__(self, other: Term | float) -> Term:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Term:
        return apply("sub", number(other, self.dtype), self)

    def __mul__(self, other: Term | float) -> Term:
        return apply("mul", self, other)

    def __rmul__(self, other: float) -> Term:
        return apply("mul", number(other, self.dtype), self)

    def __truediv__(self, other: Term | float) -> Term:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return apply("div", number(other, self.dtype), self)

    def __neg__(self) -> Term:
        return apply("neg", self)


def number(value: float | int | bool, dtype: str) -> Term:
    """A literal of an element type."""
    if dtype == "bool":
        return Term(Literal(bool(value), dtype), dtype)
    return Term(Literal(float(value) if "float" in dtype else int(value), dtype), dtype)


def apply(function: str, first: Term, *others: Term | float) -> Term:
    """A scalar function whose result has the type of its first operand."""
    operands = [first, *(o if isinstance(o, Term) else number(o, first.dtype) for o in others)]
    return Term(Apply(function, tuple(o.scalar for o in operands), first.dtype), first.dtype)


def compare(function: str, a: Term, b: Term | float) -> Term:
    """A comparison or test of two operands: bool."""
    other = b if isinstance(b, Term) else number(b, a.dtype)
    return Term(Apply(function, (a.scalar, other.scalar), "bool"), "bool")


def both(*conditions: Term) -> Term:
    """Whether all conditions hold."""
    return reduce(lambda a, b: compare("and", a, b), conditions)


def either(a: Term, b: Term) -> Term:
    """Whether one of two conditions holds."""
    return compare("or", a, b)


def test(function: str, x: Term) -> Term:
    """A predicate of one operand: bool."""
    return Term(Apply(function, (x.scalar,), "bool"), "bool")


def select(condition: Term, a: Term | float, b: Term | float) -> Term:
    """`a if condition else b`; at least one of them is a term and gives the type."""
    dtype = a.dtype if isinstance(a, Term) else b.dtype if isinstance(b, Term) else "float32"
    a, b = (x if isinstance(x, Term) else number(x, dtype) for x in (a, b))
    return Term(Apply("select", (condition.scalar, a.scalar, b.scalar), dtype), dtype)


def wrap(index: Term, size: int) -> Term:
    """The index with `size` added to negative values."""
    return select(compare("less", index, 0), index + size, index)


def cast(x: Term, dtype: str) -> Term:
    """The value in another element type; itself where the type is the same."""
    return x if x.dtype == dtype else Term(Apply("cast", (x.scalar,), dtype), dtype)


def reinterpret(x: Term, dtype: str) -> Term:
    """The bits of a value as a number of another type of the same size; itself where the type is the same."""
    if "float" not in x.dtype and "float" not in dtype:
        return cast(x, dtype)
    return x if x.dtype == dtype else Term(Apply("bits", (x.scalar,), dtype), dtype)


def wide(x: Term) -> Term:
    """The value in a type fit to compute with: half precision becomes float32."""
    return cast(x, "float32") if x.dtype in NARROW else x


def position(index: Index, dtype: str = "int64") -> Term:
    """An index as a value of an integer type that holds it."""
    return Term(Position(index, dtype), dtype)


def maximum(a: Term, b: Term | float) -> Term:
    """The larger of two terms."""
    return apply("max", a, b)


def minimum(a: Term, b: Term | float) -> Term:
    """The smaller of two terms."""
    return apply("min", a, b)


def exp(x: Term) -> Term:
    """e to the power of a term."""
    return apply("exp", x)


def log(x: Term) -> Term:
    """Natural logarithm."""
    return apply("log", x)


def sqrt(x: Term) -> Term:
    """Square root."""
    return apply("sqrt", x)


def absolute(x: Term) -> Term:
    """Magnitude."""
    return apply("abs", x)


def sigmoid(x: Term) -> Term:
    """1 / (1 + exp(-x))."""
    return apply("sigmoid", x)


def tanh(x: Term) -> Term:
    """Hyperbolic tangent."""
    return apply("tanh", x)


def to_float8(value: Term, dtype: str, saturates: bool) -> Term:
    """The nearest float of 8 bits; beyond the largest it is that, or else infinity or NaN, as the type has them."""
    single = cast(value, "float32")
    if saturates:
        most = FLOAT8[dtype]
        single = minimum(maximum(single, -most), most)
    return cast(single, dtype)
