"""One schedule dimension with general coefficients: a row for every statement, by (integer) linear programming.

With phi_S(x) = c_S.x + c_S0 and a dependence S -> T given by its generators g = (g_s, g_t, g_1), the difference of
the rows, delta(g) = c_T.g_t - c_S.g_s + (c_T0 - c_S0) g_1, is linear in the unknown coefficients.  It is non-negative
on the whole dependence exactly when it is so on the generators (Farkas' lemma; they are the facets of the dual cone).

    legal        delta(g) >= 0 for every generator          parallel   delta(g) = 0
    independent  R.c != 0 for some row R of the orthogonal complement of the statement's rows so far
    minimise     what entries ask for; then the dependences' distances; then the coefficients

What comes back from floating point is rounded and checked again in whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.poly.nodes import Generator
from engine.scheduling.algebra import complement, rank
from engine.scheduling.integer import Deadline, IntegerProgram
from engine.scheduling.problem import Row, Rows, ScheduleProblem, coefficients, difference, row_of
from engine.scheduling.terms import CONSTANT, Constraint, Term, evaluate

_COEFFICIENT = 4
"""Largest coefficient, unless an entry names a larger one."""
_CONSTANT = 4096
"""Largest constant, unless an entry names a larger one."""
_INFINITY = float("inf")
_DISTANCE = 2**31


@dataclass(frozen=True, slots=True)
class Cone:
    """The generators of one dependence with the constraint on them: distance zero (`zero`), or non-negative."""

    source: int
    sink: int
    generators: tuple[Generator, ...]
    weight: int
    """Weight of the distance in the objective: bytes passed along the dependence."""
    zero: bool


@dataclass(frozen=True, slots=True)
class NextDimension:
    """The problem of choosing the next row of every statement."""

    problem: ScheduleProblem
    rows: Mapping[int, Rows]
    """The statements, with the rows that the new one must be independent of."""
    support: Mapping[int, frozenset[int]]
    """Iterators whose coefficient may differ from zero."""
    cones: tuple[Cone, ...]
    constraints: tuple[Constraint, ...] = ()
    objectives: tuple[tuple[Term, ...], ...] = ()
    skew: bool = False
    """Whether rows may be sums and multiples of iterators; else each is one iterator."""
    shift: bool = False
    """Whether rows may have a constant."""
    signed: bool = False
    """Whether coefficients may be negative."""
    same_extent: bool = False
    """Whether all rows must take equally many values, as statements that share a plain loop do."""


def solve(dimension: NextDimension, deadline: Deadline) -> dict[int, Row] | None:
    """The best rows, or None where no rows within the bounds satisfy everything.  OutOfTime past the deadline."""
    # A statement without allowed iterators has no independent row: no need to build the program.
    if not all(dimension.support.values()):
        return None
    model = DimensionProgram(dimension)
    model.build()
    values = model.program.minimise(model.objectives(), deadline)
    if values is None:
        return None
    rows = {s: row_of((values[k] for k in c), values[model.constants[s]]) for s, c in model.columns.items()}
    # HiGHS works in floating point; only the exact check makes its rounded answer a result.
    return rows if satisfies(dimension, rows) else None


def is_infeasible(dimension: NextDimension, deadline: Deadline) -> bool:
    """Whether no rows satisfy everything, by the solver's word; its rounded answer is not looked at."""
    model = DimensionProgram(dimension)
    model.build()
    return model.program.minimise((), deadline) is None


def satisfies(dimension: NextDimension, rows: dict[int, Row]) -> bool:
    """Whether integer rows satisfy the problem, exactly."""
    for cone in dimension.cones:
        apart = [difference(g, rows[cone.source], rows[cone.sink]) for g in cone.generators]
        if any(apart) if cone.zero else min(apart, default=0) < 0:
            return False
    for statement, row in rows.items():
        width = dimension.problem.rank(statement)
        above = [coefficients(r, width) for r in dimension.rows[statement]]
        if rank([*above, coefficients(row, width)]) <= len(above):
            return False
    return all(constraint.holds(evaluate(constraint.terms, rows)) for constraint in dimension.constraints)


@dataclass(slots=True)
class DimensionProgram:
    """The integer linear program of one dimension."""

    dimension: NextDimension
    program: IntegerProgram = field(default_factory=IntegerProgram)
    columns: dict[int, list[int]] = field(default_factory=dict)
    """Statement -> columns of its coefficients."""
    constants: dict[int, int] = field(default_factory=dict)
    distance: dict[int, int] = field(default_factory=dict)
    """Weights of the columns that bound distances."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Weights of the columns that bound coefficients; a later iterator costs a little more."""

    def build(self) -> None:
        for statement in self.dimension.rows:
            self._columns(statement)
            self._independent(statement)
        for cone in self.dimension.cones:
            self._cone(cone)
        self._extents()
        for constraint in self.dimension.constraints:
            low = -_INFINITY if constraint.relation == "<=" else constraint.number
            high = _INFINITY if constraint.relation == ">=" else constraint.number
            self.program.require(self._terms(constraint.terms), low, high)

    def objectives(self) -> list[dict[int, int]]:
        """In order of importance."""
        wished = [self._wish(objective) for objective in self.dimension.objectives]
        return [*wished, *([self.distance] if self.distance else []), self.sizes]

    def _wish(self, terms: tuple[Term, ...]) -> dict[int, int]:
        """The weights of an objective.  Maximised coefficients are bounded by one: 4 i makes no better loop than i."""
        total: dict[int, int] = {}
        for column, factor in self._terms(terms):
            if factor < 0:
                # min(column, 1) is linear as: wanted <= column, wanted <= 1, and wanted is maximised.
                wanted = self.program.column(-_CONSTANT, 1)
                self.program.require([(column, 1), (wanted, -1)], 0, _INFINITY)
                column = wanted
            total[column] = total.get(column, 0) + factor
        return total

    def _terms(self, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
        return [(self.constants[s] if k == CONSTANT else self.columns[s][k], factor) for factor, s, k in terms]

    def _largest(self, least: int) -> int:
        return max([least, *(abs(constraint.number) for constraint in self.dimension.constraints)])

    def _columns(self, statement: int) -> None:
        dimension, program = self.dimension, self.program
        bound = self._largest(_COEFFICIENT) if dimension.skew else 1
        reduced = dimension.problem.reduced[statement]
        columns: list[int] = []
        sizes: list[int] = []
        for k in range(dimension.problem.rank(statement)):
            high = bound if k in dimension.support[statement] else 0
            column = program.column(-high if dimension.signed else 0, high)
            size = column
            if dimension.signed:
                # |coefficient| as a column: size >= c and size >= -c, and sizes are minimised.
                size = program.column(0, high)
                program.require([(size, 1), (column, -1)], 0, _INFINITY)
                program.require([(size, 1), (column, 1)], 0, _INFINITY)
            # Ties between single iterators go to the earlier one, and to parallel ones before reduced ones.
            self.sizes[size] = 1000 + k + 200 * (reduced >> k & 1)
            columns.append(column)
            sizes.append(size)
        if not dimension.skew:
            program.require([(size, 1) for size in sizes], 1, 1)
        self.columns[statement] = columns
        self._constant(statement)

    def _constant(self, statement: int) -> None:
        asked = any(s == statement and k == CONSTANT for c in self.dimension.constraints for _, s, k in c.terms)
        high = self._largest(_CONSTANT) if self.dimension.shift else 0
        # Only differences of constants matter, so those that nobody names start at zero.
        self.constants[statement] = self.program.column(-high if asked else 0, high)
        self.sizes[self.constants[statement]] = 1

    def _independent(self, statement: int) -> None:
        """Linear independence: some product with a row of the orthogonal complement is non-zero.  A disjunction over
        signs where the sign is open."""
        width = self.dimension.problem.rank(statement)
        basis = complement(tuple(coefficients(row, width) for row in self.dimension.rows[statement]), width)
        columns = self.columns[statement]
        products = [[(columns[k], c) for k, c in enumerate(vector) if c] for vector in basis]
        # Non-negative terms: their sum is positive exactly if one of them is, which needs no integer variables.
        if not self.dimension.signed and all(c > 0 for product in products for _, c in product):
            self.program.require([term for product in products for term in product], 1, _INFINITY)
            return
        # Big-M disjunction: `case` = 1 enforces sign * product >= 1, and at least one case holds.
        largest = self._largest(_COEFFICIENT)
        cases = []
        for product in products:
            bound = 1 + largest * sum(abs(c) for _, c in product)
            for sign in (1, -1):
                case = self.program.column(0, 1)
                terms = [(column, sign * c) for column, c in product]
                self.program.require([*terms, (case, -bound)], 1 - bound, _INFINITY)
                cases.append((case, 1))
        self.program.require(cases, 1, _INFINITY)

    def _cone(self, cone: Cone) -> None:
        bounds: dict[int, int] = {}
        for generator in cone.generators:
            apart = self._difference(cone, generator)
            if cone.zero:
                self.program.require(apart, 0, 0)
                continue
            self.program.require(apart, 0, _INFINITY)
            # Pluto's cost u.n + w (Bondhugula et al., PLDI 2008): one bound for all vertices, one for all rays.  A
            # distance along a ray grows with the sizes: it costs 1000 times as much.
            if generator.one not in bounds:
                bounds[generator.one] = self.program.column(0, _DISTANCE)
                self.distance[bounds[generator.one]] = cone.weight * (1 if generator.one else 1000)
            self.program.require([(bounds[generator.one], 1), *((c, -f) for c, f in apart)], 0, _INFINITY)

    def _difference(self, cone: Cone, generator: Generator) -> list[tuple[int, int]]:
        source, sink = self.columns[cone.source], self.columns[cone.sink]
        terms = [(column, x) for column, x in zip(sink, generator.sink, strict=True) if x]
        terms += [(column, -x) for column, x in zip(source, generator.source, strict=True) if x]
        if generator.one:
            terms += [(self.constants[cone.sink], generator.one), (self.constants[cone.source], -generator.one)]
        return terms

    def _extents(self) -> None:
        """Equal ranges of values: sum of coefficient * (extent - 1), exact for non-negative coefficients."""
        if not self.dimension.same_extent:
            return
        spans = [
            [(column, n - 1) for column, n in zip(columns, self.dimension.problem.extents[s], strict=True)]
            for s, columns in self.columns.items()
        ]
        for span in spans[1:]:  # equal to the first one, and so to each other
            self.program.require([*spans[0], *((column, -n) for column, n in span)], 0, 0)
