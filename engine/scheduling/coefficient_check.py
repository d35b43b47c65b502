"""Check entries about coefficients against a finished tree, independently of the solver."""

from __future__ import annotations

from engine.scheduling.address import Address, locate, places
from engine.scheduling.attach import address_text
from engine.scheduling.nodes import HONOURED, NO_MATCH, RELAXED, Node, PlacedEntry, Verdict
from engine.scheduling.problem import AffineRow, Row, ScheduleProblem
from engine.scheduling.terms import Demand, demand_of, evaluate, sum_text


def coefficients_held(problem: ScheduleProblem, placed: PlacedEntry, node: Node) -> Verdict:
    """Whether a `terms`, `equal` or `objective` entry holds, with the reason."""
    demand = demand_of(problem, placed.entry)
    if isinstance(demand, str):
        return Verdict(placed, NO_MATCH, demand)
    address = Address.of(placed.entry.dimension)
    where = places(node)
    rows: dict[int, Row] = {}
    for statement in sorted(demand.statements):
        name = problem.statements[statement].name
        position = locate(name, where[name], address)
        if position is not None:
            rows[statement] = problem.row(statement, where[name].members[position].rows[name])
    missing = [problem.statements[s].name for s in sorted(demand.statements - rows.keys())]
    if missing and (demand.constraints or not rows):
        have = "has" if len(missing) == 1 else "have"
        return Verdict(placed, NO_MATCH, f"{', '.join(missing)} {have} no dimension {address_text(placed.entry)}")
    return _finding(problem, placed, demand, rows)


def _finding(problem: ScheduleProblem, placed: PlacedEntry, demand: Demand, rows: dict[int, Row]) -> Verdict:
    for constraint in demand.constraints:
        total = evaluate(constraint.terms, rows)
        if not constraint.holds(total):
            wanted = f"{sum_text(problem, constraint.terms)} {constraint.relation} {constraint.number}"
            return Verdict(placed, RELAXED, f"{wanted} does not hold: it is {total}")
    if demand.objective:
        terms = [term for term in demand.objective if term[1] in rows]
        because = f"{sum_text(problem, terms)} = {evaluate(terms, rows)}, made as small as possible"
        return Verdict(placed, HONOURED, because)
    return Verdict(placed, HONOURED, _rows_text(problem, demand, rows))


def _rows_text(problem: ScheduleProblem, demand: Demand, rows: dict[int, Row]) -> str:
    text = ", ".join(f"{problem.statements[s].name}: {problem.index(s, row)}" for s, row in rows.items())
    if demand.freedom and not any(isinstance(row, AffineRow) for row in rows.values()):
        return f"allowed, but not needed: {text}"
    return text
