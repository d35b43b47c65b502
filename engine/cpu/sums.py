"""Sums of a CPU's kernel: a variable, or one for each lane, that collects the terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cpu.text import Text, Where, held_type, literal
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Reduction, Statement
from engine.tile.nodes.expressions import INFIX, ROUND
from engine.tile.source import Line

_CLAUSE = {"sum": "+", "prod": "*", "any": "||", "all": "&&", "max": "max", "min": "min"}
_FUNCTION = {"sum": "add", "prod": "mul", "any": "or", "all": "and", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class Sum:
    """The variable of one sum."""

    text: Text
    statement: Statement
    names: tuple[str, ...]

    @staticmethod
    def begin(text: Text, statement: Statement, lanes: int, link: Line) -> Sum:
        """A variable with the neutral value, one for each of the lanes of a strip."""
        reduction = _reduction(statement)
        if reduction.operation not in _FUNCTION:
            reason = f"{statement.name} is a {reduction.operation}, which kernels of a CPU do not collect"
            raise Unsupported("codegen", statement.name, reason, "leave out the rewrite `online`")
        name, dtype = text.name(statement.write.array), held_type(reduction.accumulate)
        identity = literal(reduction.identity, reduction.accumulate)
        if lanes:
            text.add(f"alignas(64) {dtype} {name}[{lanes}];", link)
            text.add(f"for (int lane = 0; lane < {lanes}; ++lane) {name}[lane] = {identity};", link)
        else:
            text.add(f"{dtype} {name} = {identity};", link)
        return Sum(text, statement, (name,))

    @property
    def clause(self) -> str:
        """What tells a vector loop that its lanes collect parts."""
        reduction = _reduction(self.statement)
        kind = _CLAUSE[reduction.operation]
        if "float" in reduction.accumulate and kind in ("max", "min"):
            kind = {"max": "largest", "min": "smallest"}[kind]  # a NaN among the terms is the result
        return f"reduction({kind} : {self.names[0]})"

    def add(self, term: str, lane: str, link: Line) -> None:
        """Add one term."""
        reduction, name = _reduction(self.statement), f"{self.names[0]}{lane}"
        function = _FUNCTION[reduction.operation]
        called = f"fn_{function}({name}, {held_type(reduction.accumulate)}({term}))"
        joined = f"{name} {INFIX[function]} {term}" if function in INFIX else called
        self.text.add(f"{name} = {joined};", link)

    def result(self, dtype: str, lane: str) -> str:
        """The sum as the array's type has it."""
        name, accumulate = f"{self.names[0]}{lane}", _reduction(self.statement).accumulate
        if dtype == accumulate:
            return name
        value = f"bool({name} != 0)" if dtype == "bool" else f"{held_type(dtype)}({name})"
        return f"{ROUND[dtype]}({value})" if dtype in ROUND else value


def distance_from_first(statement: Statement, rows: Sequence[Index], where: Where) -> Index:
    """0 at the first term of a sum in the order of the loops, more at all others."""
    return _distance(statement, rows, where, from_first=True)


def distance_from_last(statement: Statement, rows: Sequence[Index], where: Where) -> Index:
    """0 at the last term of a sum in the order of the loops, more at all others."""
    return _distance(statement, rows, where, from_first=False)


def _distance(statement: Statement, rows: Sequence[Index], where: Where, from_first: bool) -> Index:
    """The loops meet an iterator's values in the direction of the first row that moves it."""
    total = Index()
    for iterator in statement.reduced:
        value = where.get(iterator.name, Index())
        ascends = next((c for row in rows if (c := row.coefficient(iterator.name))), 1) > 0
        total = total + (value if ascends == from_first else Index((), iterator.extent - 1) - value)
    return total


def _reduction(statement: Statement) -> Reduction:
    assert statement.reduction is not None
    return statement.reduction
