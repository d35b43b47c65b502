"""Sums of a CPU's kernel: a variable, or one for each lane, that collects the terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cpu.text import Text, Where, held_type, literal
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Reduction, Statement, TensorProgram
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
    is_ordered: bool = False
    """Whether it is an integer in the order of the floats whose extremum it is."""

    @staticmethod
    def begin(text: Text, statement: Statement, lanes: int, link: Line) -> Sum:
        """A variable with the neutral value, one for each of the lanes of a strip."""
        reduction = _reduction(statement)
        if reduction.operation not in _FUNCTION:
            reason = f"{statement.name} is a {reduction.operation}, which kernels of a CPU do not collect"
            raise Unsupported("codegen", statement.name, reason, "leave out the rewrite `online`")
        name, dtype = text.name(statement.write.array), held_type(reduction.accumulate)
        identity = literal(reduction.identity, reduction.accumulate)
        is_ordered = reduction.accumulate == "float32" and reduction.operation in ("max", "min")
        if is_ordered:
            dtype, identity = "int", f"order_of({identity})"
        if lanes:
            text.add(f"alignas(64) {dtype} {name}[{lanes}];", link)
            text.add(f"for (int lane = 0; lane < {lanes}; ++lane) {name}[lane] = {identity};", link)
        else:
            text.add(f"{dtype} {name} = {identity};", link)
        return Sum(text, statement, (name,), is_ordered)

    @property
    def clause(self) -> str:
        """What tells a vector loop that its lanes collect parts."""
        reduction = _reduction(self.statement)
        return f"reduction({_CLAUSE[reduction.operation]} : {self.names[0]})"

    def add(self, term: str, lane: str, link: Line) -> None:
        """Add one term."""
        reduction, name = _reduction(self.statement), f"{self.names[0]}{lane}"
        function = _FUNCTION[reduction.operation]
        if self.is_ordered:
            least = ", true" if function == "min" else ""
            self.text.add(f"{name} = fn_{function}({name}, order_of(float({term}){least}));", link)
            return
        called = f"fn_{function}({name}, {held_type(reduction.accumulate)}({term}))"
        joined = f"{name} {INFIX[function]} {term}" if function in INFIX else called
        self.text.add(f"{name} = {joined};", link)

    def result(self, dtype: str, lane: str) -> str:
        """The sum as the array's type has it."""
        name, accumulate = f"{self.names[0]}{lane}", _reduction(self.statement).accumulate
        if self.is_ordered:
            name = f"of_order({name})"
        if dtype == accumulate:
            return name
        value = f"bool({name} != 0)" if dtype == "bool" else f"{held_type(dtype)}({name})"
        return f"{ROUND[dtype]}({value})" if dtype in ROUND else value


def sums_of_exponentials(program: TensorProgram) -> set[str]:
    """Arrays of them: none is so small that it has no inverse."""
    exponentials = {
        s.write.array for s in program.statements if isinstance(s.expression, Apply) and s.expression.function == "exp"
    }
    return {
        s.write.array for s in program.statements
        if s.reduction and s.reduction.operation == "sum" and isinstance(s.expression, Access)
        and s.expression.array in exponentials
    }  # fmt: skip


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
