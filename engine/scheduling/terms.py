"""Entries about coefficients: `terms`, `equal` and `objective`, resolved against the program.

terms (i, 2)                                    the coefficient of i is 2 in the rows of the entry's statements
terms (S0, const, 1)                            the constant of S0's row is 1
terms (((1, S0, i), (-1, S1, i)), "<=", 0)      a sum of coefficients, compared with "=", "<=" or ">="
terms ((i, 1), (j, 1))                          several of these
terms skew      terms shift                     rows may be sums of iterators; may be moved by a constant
equal S0, S1                                    equal coefficients for iterators of equal names (else: positions)
objective j                                     prefer j to every other iterator, before anything else
objective ((S0, i, 2), (j, 1))                  the smallest sum of coefficients with these weights
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.recipe import Entry, Value
from engine.scheduling.problem import AffineRow, Row, ScheduleProblem

COEFFICIENT_FIELDS = ("terms", "equal", "objective")
"""Fields about coefficients; they need the linear solver."""

SKEW, SHIFT = "skew", "shift"
CONST = "const"
"""The name of a row's constant in an entry."""
CONSTANT = -1
"""Stands for the constant of a row where an iterator's number is expected."""

RELATIONS = ("=", "<=", ">=")
_LARGEST = 2**20
_FORMS = "write (ITERATOR, NUMBER), (STATEMENT, ITERATOR, NUMBER), (((FACTOR, STATEMENT, ITERATOR), ...), “<=”, NUMBER)"

Term = tuple[int, int, int]
"""(factor, statement, iterator or CONSTANT)."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A sum of coefficients of one schedule dimension compared with a number."""

    terms: tuple[Term, ...]
    relation: str
    number: int

    @property
    def statements(self) -> frozenset[int]:
        return frozenset(statement for _, statement, _ in self.terms)

    def holds(self, total: int) -> bool:
        """Whether the constraint is true when its sum is `total`."""
        match self.relation:
            case "=":
                return total == self.number
            case "<=":
                return total <= self.number
            case _:
                return total >= self.number


@dataclass(frozen=True, slots=True)
class Demand:
    """What an entry asks of the coefficients of one dimension."""

    constraints: tuple[Constraint, ...] = ()
    objective: tuple[Term, ...] = ()
    freedom: frozenset[str] = frozenset()
    """SKEW, SHIFT: what rows may do beyond being one iterator each."""
    named: frozenset[int] = frozenset()
    """Statements of a freedom."""

    @property
    def statements(self) -> frozenset[int]:
        inside = {s for constraint in self.constraints for s in constraint.statements}
        return self.named | inside | {s for _, s, _ in self.objective}

    def among(self, statements: frozenset[int]) -> Demand:
        """The demand restricted to fewer statements."""
        return Demand(
            tuple(c for c in self.constraints if c.statements <= statements),
            tuple(term for term in self.objective if term[1] in statements),
            self.freedom,
            self.named & statements,
        )


class _UnclearError(Exception):
    """An entry that cannot be resolved; the message says why."""


def demand_of(problem: ScheduleProblem, entry: Entry) -> Demand | str:
    """What an entry of `COEFFICIENT_FIELDS` asks for; the reason as text when nothing can be made of it."""
    reader = _TermReader(problem, entry)
    try:
        match entry.field:
            case "equal":
                return Demand(reader.equal(entry.value))
            case "objective":
                return Demand(objective=reader.objective(entry.value))
            case _:
                return reader.terms(entry.value)
    except _UnclearError as unclear:
        return str(unclear)


def evaluate(terms: Sequence[Term], rows: dict[int, Row]) -> int:
    """The sum of coefficients under the statements' rows."""
    return sum(factor * _coefficient(rows[statement], iterator) for factor, statement, iterator in terms)


def _coefficient(row: Row, iterator: int) -> int:
    if isinstance(row, AffineRow):
        return row.constant if iterator == CONSTANT else row.coefficients[iterator]
    return int(row == iterator)


def sum_text(problem: ScheduleProblem, terms: Sequence[Term]) -> str:
    """A sum of coefficients for people, "S0.i - 2 S1.const"."""
    text = ""
    for factor, statement, iterator in terms:
        name = CONST if iterator == CONSTANT else problem.names[statement][iterator]
        size = "" if abs(factor) == 1 else f"{abs(factor)} "
        sign = ("- " if factor < 0 else "+ ") if text else ("-" if factor < 0 else "")
        text += f"{' ' if text else ''}{sign}{size}{problem.statements[statement].name}.{name}"
    return text


def matching(problem: ScheduleProblem, first: int, second: int) -> tuple[tuple[int, int], ...]:
    """Pairs of iterators of two statements that `equal` compares: by name if they share one, else by position."""
    left, right = problem.names[first], problem.names[second]
    if set(left) & set(right):
        return tuple((k, right.index(name)) for k, name in enumerate(left) if name in right)
    return tuple(zip(range(len(left)), range(len(right)), strict=False))


@dataclass(frozen=True, slots=True)
class _TermReader:
    """Reads the value of one entry."""

    problem: ScheduleProblem
    entry: Entry

    def statement_numbers(self) -> list[int]:
        """The statements that the entry speaks of."""
        number = self.problem.number
        if not self.entry.statements:
            return list(range(len(self.problem.statements)))
        return [number[name] for name in self.entry.statements if name in number]

    def equal(self, value: Value) -> tuple[Constraint, ...]:
        number = self.problem.number
        names = value if isinstance(value, tuple) else (value,)
        statements = list(dict.fromkeys(number[n] for n in names if isinstance(n, str) and n in number))
        if len(statements) < 2:
            raise _UnclearError("it names fewer than two statements of this group")
        found: list[Constraint] = []
        for first, second in pairwise(statements):
            pairs = [*matching(self.problem, first, second), (CONSTANT, CONSTANT)]
            found += [Constraint(((1, first, a), (-1, second, b)), "=", 0) for a, b in pairs]
        return tuple(found)

    def objective(self, value: Value) -> tuple[Term, ...]:
        if isinstance(value, str):
            return tuple((-1, s, k) for s, k in self.places(value))
        if _is_term(value):
            return self.weighted_terms(value)
        if not isinstance(value, tuple) or not value:
            raise _UnclearError("an objective is an iterator, (ITERATOR, WEIGHT), or (STATEMENT, ITERATOR, WEIGHT)")
        return tuple(term for part in value for term in self.objective(part))

    def terms(self, value: Value) -> Demand:
        if value in (SKEW, SHIFT):
            return Demand(freedom=frozenset((str(value),)), named=frozenset(self.statement_numbers()))
        if _is_term(value):
            terms = self.weighted_terms(value)
            return Demand(tuple(Constraint(((1, s, k),), "=", number) for number, s, k in terms))
        if not isinstance(value, tuple) or not value:
            raise _UnclearError(_FORMS)
        if len(value) == 3 and value[1] in RELATIONS:
            return Demand((self.relation(*value),))
        parts = [self.terms(part) for part in value]
        return Demand(
            tuple(constraint for part in parts for constraint in part.constraints),
            freedom=frozenset(word for part in parts for word in part.freedom),
            named=frozenset(s for part in parts for s in part.named),
        )

    def relation(self, total: Value, relation: Value, number: Value) -> Constraint:
        terms: list[Term] = []
        for part in total if isinstance(total, tuple) else ():
            if not isinstance(part, tuple) or len(part) != 3:
                raise _UnclearError(_FORMS)
            factor, statement, name = part
            terms += self.weighted_terms((statement, name, factor))
        if not terms:
            raise _UnclearError(_FORMS)
        return Constraint(tuple(terms), str(relation), _check_number(number))

    def weighted_terms(self, value: Value) -> tuple[Term, ...]:
        """(ITERATOR, NUMBER) or (STATEMENT, ITERATOR, NUMBER) as terms with that number as factor."""
        assert isinstance(value, tuple)
        *names, number = value
        if not all(isinstance(name, str) for name in names):
            raise _UnclearError(_FORMS)
        statement = str(names[0]) if len(names) == 2 else None
        return tuple((_check_number(number), s, k) for s, k in self.places(str(names[-1]), statement))

    def places(self, name: str, statement: str | None = None) -> list[tuple[int, int]]:
        """(statement, iterator) wherever `name` is one, in one statement or in all that the entry speaks of."""
        if statement is not None and statement not in self.problem.number:
            raise _UnclearError(f"the group has no statement {statement}")
        among = self.statement_numbers() if statement is None else [self.problem.number[statement]]
        if not among:
            raise _UnclearError(f"the group has no statement {', '.join(self.entry.statements)}")
        if name == CONST:
            return [(s, CONSTANT) for s in among]
        found = [(s, self.problem.names[s].index(name)) for s in among if name in self.problem.names[s]]
        if not found:
            raise _UnclearError(f"no iterator {name} in {', '.join(self.problem.statements[s].name for s in among)}")
        return found


def _is_term(value: Value) -> bool:
    """(NAME, number) or (NAME, NAME, number), not a relation."""
    if not isinstance(value, tuple) or len(value) not in (2, 3) or isinstance(value[-1], str | tuple):
        return False
    return all(isinstance(name, str) for name in value[:-1]) and value[1] not in RELATIONS


def _check_number(number: Value) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise _UnclearError(f"{number} is not a whole number")
    if abs(number) > _LARGEST:
        raise _UnclearError(f"{number} is too large; coefficients go up to {_LARGEST}")
    return number
