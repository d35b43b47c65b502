"""Explain why no row has the coefficients that an entry requests."""

from __future__ import annotations

from engine.scheduling.address import locate, places
from engine.scheduling.integer import Deadline
from engine.scheduling.legality import violation
from engine.scheduling.linear import NextDimension, solve
from engine.scheduling.nodes import Node, Witness
from engine.scheduling.problem import Row, Rows, ScheduleProblem
from engine.scheduling.rules import ScheduleRule
from engine.scheduling.terms import CONSTANT
from engine.scheduling.timeline import TimeComponent

_SECONDS = 5.0


def contradiction(problem: ScheduleProblem, rule: ScheduleRule) -> str:
    """Why a rule's constraints contradict each other; "" if some rows satisfy them."""
    if _rows(problem, rule, dict.fromkeys(sorted(rule.statements), ())) is not None:
        return ""
    assert rule.demand is not None
    if all(constraint.holds(0) for constraint in rule.demand.constraints):
        return "it leaves no row that is linearly independent of the others: every coefficient would be zero"
    return "it contradicts itself: no coefficients satisfy all of it"


def broken_by(problem: ScheduleProblem, rule: ScheduleRule, node: Node | None) -> Witness | None:
    """Two instances that the requested rows order wrongly, below the rows of `node`."""
    if node is None:
        return None
    where = places(node)
    above: dict[int, Rows] = {}
    for s in sorted(rule.statements):
        name = problem.statements[s].name
        position = locate(name, where[name], rule.address)
        if position is None:
            return None
        above[s] = tuple(problem.row(s, member.rows[name]) for member in where[name].members[:position])
    found = _rows(problem, rule, above)
    for s, row in (found or {}).items():
        steps = tuple(_step(problem, s, r) for r in (*above[s], row))
        for dependence in problem.own[s]:
            broken = violation(problem.program, dependence, steps, steps)
            if broken is not None:
                return broken.witness
    return None


def _rows(problem: ScheduleProblem, rule: ScheduleRule, above: dict[int, Rows]) -> dict[int, Row] | None:
    """Rows that satisfy the rule, without regard to dependences."""
    demand = rule.demand
    assert demand is not None
    dimension = NextDimension(
        problem=problem,
        rows=above,
        support={s: frozenset(range(problem.rank(s))) for s in above},
        cones=(),
        constraints=demand.constraints,
        skew=True,
        shift=any(k == CONSTANT for c in demand.constraints for *_, k in c.terms),
        signed=True,
    )
    return solve(dimension, Deadline(_SECONDS, problem.program.name))


def _step(problem: ScheduleProblem, statement: int, row: Row) -> TimeComponent:
    index = problem.index(statement, row)
    terms = tuple((problem.names[statement].index(str(name)), c) for name, c in index.terms)
    return TimeComponent(str(index), index, terms)
