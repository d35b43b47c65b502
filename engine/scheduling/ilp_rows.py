"""Rows by integer linear programming: which programs are tried for a dimension, and in which order.

A dimension that carries nothing is wanted first, then one that carries dependences of statements on themselves (the
loops of different statements still meet at distance zero).  Distances between statements are opened only where
skewing or shifting is allowed.  A skewed row also keeps the dependences that rows of the same band already carry, so
that the band stays permutable; the longest such band is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from engine.scheduling.integer import Deadline
from engine.scheduling.linear import Cone, NextDimension, is_infeasible, solve
from engine.scheduling.nodes import Options
from engine.scheduling.problem import Row, Rows, ScheduleProblem
from engine.scheduling.rules import ScheduleRule, support
from engine.scheduling.terms import CONSTANT, SHIFT, SKEW, Constraint, evaluate

Next = Mapping[int, Row]
"""Statement -> its next row."""

Freedom = tuple[tuple[int, ...], tuple[str, ...], tuple[bool, ...]]
"""What is tried for a dimension: starts of its band, levels of its dependences, whether coefficients are signed."""

PARALLEL, ALIGNED, LEGAL = "parallel", "aligned", "legal"
_WEIGHTS = 16
"""Weights of distances, from light to heavy dependences; bytes themselves would span too many orders of magnitude for
the solver."""


@dataclass(slots=True)
class General:
    """The linear part of one solve."""

    problem: ScheduleProblem
    rules: Sequence[ScheduleRule]
    options: Options
    deadline: Deadline
    chosen: dict[tuple[tuple[int, ...], int], tuple[int, Row]] = field(default_factory=dict)
    """(path of an entry, statement) -> depth and row of the dimension it speaks of, for links between loops."""

    def rules_by_position(self, rows: Mapping[int, Rows]) -> tuple[ScheduleRule, ...]:
        """Rules about coefficients whose address selects, by position, the next dimension of `rows`."""
        return tuple(r for r in self.rules if r.demand and r.reaches_any(self.problem, rows))

    def rules_by_name(self, choice: Mapping[int, int]) -> tuple[ScheduleRule, ...]:
        """Rules about coefficients whose address selects, by an iterator's name, the dimension of this choice."""
        return tuple(
            rule for rule in self.rules if rule.demand and rule.address.kind == "name" and self._at_name(rule, choice)
        )

    def _at_name(self, rule: ScheduleRule, choice: Mapping[int, int]) -> frozenset[int]:
        """Statements of a rule whose choice is the iterator that addresses it."""
        names = self.problem.names
        return frozenset(s for s in rule.statements if s in choice and names[s][choice[s]] == rule.address.name)

    def rows(
        self,
        rows: Mapping[int, Rows],
        inside: bool,
        since: int,
        here: Sequence[ScheduleRule] = (),
        choice: Mapping[int, int] | None = None,
    ) -> Next | None:
        """The best next rows under the rules `here`; None where there are none.

        rows: of the component's statements.  since: number of rows outside the innermost sequence, where no band can
        begin earlier.  choice: the iterators of the dimension when its rules address it by name.
        """
        dimension = self._dimension(rows, inside, here, choice)
        freedom = self._freedom(dimension, rows, since, here)
        asked = (
            tuple(rows.items()), tuple(dimension.support.items()), dimension.constraints, dimension.objectives,
            dimension.skew, dimension.shift, freedom,
        )  # fmt: skip
        # Fusion asks for the same groups under one set of rules after the other: most programs were solved before.
        known = self.problem.next_rows
        if asked not in known:
            known[asked] = self._first_rows(list(self._attempts(dimension, rows, freedom)))
        return known[asked]

    def _first_rows(self, attempts: Sequence[NextDimension]) -> Next | None:
        """The rows of the first attempt that has any.  The last one allows whatever another does: where it is
        infeasible, all are."""
        for number, attempt in enumerate(attempts):
            if number == 1 and len(attempts) > 2 and is_infeasible(attempts[-1], self.deadline):
                return None
            found = solve(attempt, self.deadline)
            if found is not None:
                return found
        return None

    def remember(self, rows: Mapping[int, Rows], found: Next, here: Sequence[ScheduleRule]) -> None:
        """Record the rows that rules `here` constrain, for constraints that relate them to later loops."""
        for rule in here:
            for s in rule.statements & found.keys():
                if rule.address.kind == "name" or rule.reaches(self.problem, s, rows[s]):
                    self.chosen[rule.placed.path, s] = len(rows[s]), found[s]

    def forget(self, statements: Sequence[int], depth: int) -> None:
        """Drop recorded rows of statements whose rows from `depth` on are chosen anew."""
        for key, (chosen, _) in list(self.chosen.items()):
            if key[1] in statements and chosen >= depth:
                del self.chosen[key]

    def _dimension(
        self, rows: Mapping[int, Rows], inside: bool, here: Sequence[ScheduleRule], choice: Mapping[int, int] | None
    ) -> NextDimension:
        demands = [rule.demand for rule in here if rule.demand]
        constraints = [c for rule in here for c in self._constraints(rule, rows, choice)]
        if choice is not None:
            anchors = {s: choice[s] for rule in here for s in sorted(self._at_name(rule, choice))}
            # The rule addresses the dimension by this iterator, so the row must use it.
            constraints += [Constraint(((1, s, k),), ">=", 1) for s, k in anchors.items() if _open(s, k, constraints)]
        skew = self.options.skew or any(SKEW in d.freedom for d in demands)
        # A `terms` entry with several coefficients needs rows that are sums.
        skew = skew or any(rule.field == "terms" and d.constraints for rule in here if (d := rule.demand))
        moved = any(k == CONSTANT and s in rows for c in constraints if c.number for _, s, k in c.terms)
        return NextDimension(
            problem=self.problem,
            rows=rows,
            support=support(self.problem, self.rules, rows, inside, skew),
            cones=(),
            constraints=tuple(constraints),
            objectives=tuple(
                tuple(t for t in d.objective if t[1] in rows) for d in demands if any(t[1] in rows for t in d.objective)
            ),
            skew=skew,
            shift=self.options.shift or moved or any(SHIFT in d.freedom for d in demands),
        )

    def _constraints(
        self, rule: ScheduleRule, rows: Mapping[int, Rows], choice: Mapping[int, int] | None
    ) -> Iterator[Constraint]:
        """A rule's constraints on the next dimension; rows of statements that are already scheduled are constants."""
        for constraint in rule.demand.constraints if rule.demand else ():
            here = {s for s in constraint.statements & rows.keys() if choice or rule.reaches(self.problem, s, rows[s])}
            chosen = ((s, self.chosen.get((rule.placed.path, s))) for s in sorted(constraint.statements - here))
            known = {s: found[1] for s, found in chosen if found is not None}
            if not here or not constraint.statements <= here | known.keys():
                continue
            fixed = tuple(term for term in constraint.terms if term[1] not in here)
            left = tuple(term for term in constraint.terms if term[1] in here)
            yield Constraint(left, constraint.relation, constraint.number - evaluate(fixed, known))

    def _freedom(
        self, dimension: NextDimension, rows: Mapping[int, Rows], since: int, here: Sequence[ScheduleRule]
    ) -> Freedom:
        """What may be tried for the next dimension."""
        depth = len(next(iter(rows.values())))
        words = {word for rule in here if rule.demand for word in rule.demand.freedom}
        opened = bool(words) or self.options.skew or self.options.shift
        skewed = SKEW in words or self.options.skew
        parallel = any(r.field == "parallel" and r.reaches_any(self.problem, rows) for r in self.rules)
        # LEGAL opens distances between statements, which only skewing or shifting can use.
        levels = (PARALLEL,) if parallel else (PARALLEL, ALIGNED, LEGAL) if opened else (PARALLEL, ALIGNED)
        signs = (False, True) if self.options.reverse or dimension.constraints else (False,)
        if any(len(c.terms) == 1 and c.relation == "=" and c.terms[0][0] * c.number < 0 for c in dimension.constraints):
            signs = (True,)  # an entry asks for a negative coefficient
        # An earlier start keeps more dependences in the new row, so a longer band stays permutable.
        return tuple(range(since, depth + 1) if skewed else (depth,)), levels, signs

    def _attempts(
        self, dimension: NextDimension, rows: Mapping[int, Rows], freedom: Freedom
    ) -> Iterator[NextDimension]:
        starts, levels, signs = freedom
        for start, level in product(starts, levels):
            cones = tuple(self._cones(rows, start, level))
            for same in (True, False) if dimension.skew or dimension.shift else (True,):
                for signed in signs:
                    yield replace(dimension, cones=cones, same_extent=same, signed=signed)

    def _cones(self, rows: Mapping[int, Rows], start: int, level: str) -> Iterator[Cone]:
        """Cones of the dependences that the first `start` rows leave open."""
        problem = self.problem
        edges = [e for e in problem.edges.values() if e.source in rows and e.sink in rows]
        heaviest = max((e.weight for e in edges), default=1)
        for s in rows:
            for number, dependence in enumerate(problem.own[s]):
                above = rows[s][:start]
                yield Cone(s, s, problem.face(dependence, number, above, above), 1, level == PARALLEL)
        for edge in edges:
            weight = max(1, _WEIGHTS * edge.weight // max(heaviest, 1))
            above, below = rows[edge.source][:start], rows[edge.sink][:start]
            for number, dependence in enumerate(edge.dependences):
                face = problem.face(dependence, number, above, below)
                yield Cone(edge.source, edge.sink, face, weight, level != LEGAL)


def _open(statement: int, iterator: int, constraints: Sequence[Constraint]) -> bool:
    """Whether no entry fixes this coefficient."""
    return all(c.terms != ((1, statement, iterator),) for c in constraints)
