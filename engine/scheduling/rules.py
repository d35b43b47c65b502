"""Entries that constrain the search, resolved against the program: pins, parallel dimensions, cuts, coefficients."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.recipe import Value
from engine.scheduling.address import Address
from engine.scheduling.nodes import PlacedEntry
from engine.scheduling.problem import Row, Rows, ScheduleProblem, coefficients
from engine.scheduling.terms import COEFFICIENT_FIELDS, Demand, demand_of
from engine.support.budgets import MAX_RULES
from engine.support.errors import BadInput
from engine.tensor.nodes import TensorProgram

STEERING = ("pin", "parallel", "cut", *COEFFICIENT_FIELDS)
"""Fields that the search obeys; the others are attached or checked afterwards."""


def check_number(program: TensorProgram, entries: Iterable[PlacedEntry]) -> None:
    """BadInput for more different entries than a search can obey in reasonable time."""
    wishes = (placed.entry for placed in entries if placed.entry.field in STEERING)
    number = len({(e.field, e.dimension, e.value, e.statements) for e in wishes})
    if number > MAX_RULES:
        hint = f"at most {MAX_RULES:,} are taken; one entry may speak of many statements"
        raise BadInput("schedule", program.name, f"{number:,} different entries steer its search", hint)


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """A steering entry and the statements (by number) that it applies to."""

    placed: PlacedEntry
    address: Address
    statements: frozenset[int]
    allowed: frozenset[str] = frozenset()
    """Iterator names of a pin."""
    wanted: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Statement -> the iterators that a pin allows."""
    parts: Mapping[int, int] = field(default_factory=dict)
    """Statement -> number of its part in a cut."""
    demand: Demand | None = None
    """What an entry about coefficients asks for."""

    @property
    def field(self) -> str:
        return self.placed.entry.field

    @property
    def key(self) -> tuple[str, str, Value, frozenset[int]]:
        """What it asks for: rules with one key are one rule, whoever wrote them."""
        entry = self.placed.entry
        return entry.field, entry.dimension, entry.value, self.statements

    def reaches(self, problem: ScheduleProblem, statement: int, rows: Rows) -> bool:
        """Whether the dimension that comes after `rows` is the one the rule speaks of (for an address by position)."""
        match self.address.kind:
            case "outermost":
                return not rows
            case "innermost":
                return len(rows) >= problem.rank(statement) - 1
            case "depth":
                return len(rows) == self.address.depth
            case "after":
                return bool(rows) and problem.names[statement][problem.leading(statement, rows)] == self.address.name
            case _:
                return False

    def reaches_any(
        self, problem: ScheduleProblem, rows: Mapping[int, Rows], among: Collection[int] | None = None
    ) -> bool:
        """Whether the next dimension of some statement in `rows` (or `among` them) is the one the rule speaks of."""
        return any(self.reaches(problem, s, rows[s]) for s in self.statements.intersection(among or rows))


def rules_of(problem: ScheduleProblem, placed: PlacedEntry) -> ScheduleRule | None:
    """The rule of a steering entry; None when nothing it names exists, or when it asks for nothing."""
    entry = placed.entry
    named = [problem.number[n] for n in entry.statements if n in problem.number] or (
        [] if entry.statements else list(range(len(problem.statements)))
    )
    address = Address.of(entry.dimension)
    if entry.field == "cut":
        parts = {
            problem.number[n]: k for k, part in enumerate(cut_parts(entry.value)) for n in part if n in problem.number
        }
        if len(set(parts.values())) < 2:
            return None
        return ScheduleRule(placed, address, frozenset(parts), parts=parts)
    if entry.field == "pin":
        allowed = frozenset(pinned_iterators(entry.value))
        wanted = {s: frozenset(k for k, name in enumerate(problem.names[s]) if name in allowed) for s in named}
        owners = frozenset(s for s, iterators in wanted.items() if iterators)
        return ScheduleRule(placed, address, owners, allowed, wanted) if owners else None
    if entry.field == "parallel" and entry.value is True and named:
        return ScheduleRule(placed, address, frozenset(named))
    if entry.field in COEFFICIENT_FIELDS:
        demand = demand_of(problem, entry)
        return ScheduleRule(placed, address, demand.statements, demand=demand) if isinstance(demand, Demand) else None
    return None


def pinned_iterators(value: Value) -> tuple[str, ...]:
    """Iterator names of a pin's value."""
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def cut_parts(value: Value) -> tuple[tuple[str, ...], ...]:
    """Parts of a cut's value, each a tuple of statement names."""
    parts = value if isinstance(value, tuple) else (value,)
    return tuple(pinned_iterators(part) for part in parts)


def preferences(
    problem: ScheduleProblem,
    rules: Sequence[ScheduleRule],
    component: Sequence[int],
    rows: Mapping[int, Rows],
    inside: bool,
) -> dict[int, tuple[int, ...]]:
    """Iterators each statement of a component may use next, preferred first.

    Loops that carry nothing come first, in the order of the statement's axes.
    """
    carried_free = any(rule.field == "parallel" and rule.reaches_any(problem, rows, component) for rule in rules)
    distances = {s: problem.distances(s, rows[s]) for s in component}
    unbroken = {s: {k for k, d in of.items() if d == 0 or (d > 0 and not carried_free)} for s, of in distances.items()}
    offered = _offer(problem, rules, rows, inside, unbroken)
    return {
        s: tuple(sorted(allowed, key=lambda k: (problem.reduced[s] >> k & 1, distances[s][k], k)))
        for s, allowed in offered.items()
    }


def support(
    problem: ScheduleProblem, rules: Sequence[ScheduleRule], rows: Mapping[int, Rows], inside: bool, skew: bool
) -> dict[int, frozenset[int]]:
    """Iterators that may appear in the next row of each statement in `rows`, when rows are more than one iterator."""
    asked = {s for rule in rules if rule.demand and rule.demand.constraints for s in rule.statements}
    unused = {s: set(problem.unused_iterators(s, above)) for s, above in rows.items()}
    # With skewing, iterators of earlier rows may appear again beside a fresh one.
    again = {s: frozenset(range(problem.rank(s))) - unused[s] if skew else frozenset() for s in rows}
    offered = _offer(problem, rules, rows, inside, unused, asked)
    return {s: again[s] | fresh if fresh else frozenset() for s, fresh in offered.items()}


def _offer(
    problem: ScheduleProblem,
    rules: Sequence[ScheduleRule],
    rows: Mapping[int, Rows],
    inside: bool,
    candidates: Mapping[int, set[int]],
    asked: Container[int] = (),
) -> dict[int, set[int]]:
    """Those of each statement's candidates that the rules allow next.

    A reduction iterator is offered when no other is left, and shared with other statements' loops only `inside` a
    parallel loop, so that fusion never takes an outer parallel loop away.  asked: statements whose coefficients an
    entry asks for, which no such care restricts.
    """
    among = frozenset(candidates)
    offered: dict[int, set[int]] = {}
    outer: set[int] = set()
    for statement, candidate in candidates.items():
        allowed = set(candidate)
        free = _restrict(problem, rules, among, statement, rows[statement], allowed) or statement in asked
        parallel = {k for k in allowed if not problem.reduced[statement] >> k & 1}
        if free or parallel:
            outer.add(statement)
        offered[statement] = allowed if free or not parallel else parallel
    if not inside and outer:
        return {s: allowed if s in outer else set() for s, allowed in offered.items()}
    return offered


def _restrict(
    problem: ScheduleProblem,
    rules: Sequence[ScheduleRule],
    among: frozenset[int],
    statement: int,
    rows: Rows,
    allowed: set[int],
) -> bool:
    """Remove from `allowed` what rules about this statement forbid; True if a pin chose the dimension."""
    names = problem.names[statement]
    chosen = False
    for rule in rules:
        if statement not in rule.statements:
            continue
        here = rule.reaches(problem, statement, rows)
        if rule.field == "pin":
            wanted = rule.wanted[statement]
            if here:
                allowed &= wanted
                chosen = True
            elif rule.address.kind == "innermost":
                left = wanted & problem.distances(statement, rows).keys()
                allowed -= left if len(left) == 1 else set()
            elif rule.address.kind == "name" and rule.address.name not in rule.allowed:
                allowed -= {k for k, name in enumerate(names) if name == rule.address.name}
        elif rule.field == "cut" and rule.address.kind == "name" and _is_separated(rule, statement, among):
            allowed -= {k for k, name in enumerate(names) if name == rule.address.name}
    return chosen


def _is_separated(rule: ScheduleRule, statement: int, among: frozenset[int]) -> bool:
    return any(rule.parts[s] != rule.parts[statement] for s in rule.statements & among)


def accepts(
    problem: ScheduleProblem, rules: Sequence[ScheduleRule], rows: Mapping[int, Rows], choice: Mapping[int, Row]
) -> bool:
    """Whether the next rows obey the rules that address their dimension by name."""
    if not any(rule.address.kind == "name" and rule.field in ("pin", "parallel") for rule in rules):
        return True
    named = {s: problem.names[s][problem.leading(s, (*rows[s], row))] for s, row in choice.items()}
    used = set(named.values())
    for rule in rules:
        if rule.address.kind != "name" or rule.address.name not in used:
            continue
        if rule.field == "pin":
            for s in rule.statements & choice.keys():
                if rule.address.name not in problem.names[s] and not _within(problem, s, choice[s], rule.allowed):
                    return False
        elif rule.field == "parallel":
            here = any(named[s] == rule.address.name for s in rule.statements & choice.keys())
            if here and any(problem.distance(s, rows[s], k) for s, k in choice.items()):
                return False
    return True


def _within(problem: ScheduleProblem, statement: int, row: Row, allowed: frozenset[str]) -> bool:
    names = problem.names[statement]
    return all(names[k] in allowed for k, c in enumerate(coefficients(row, len(names))) if c)


def must_part(
    problem: ScheduleProblem, rules: Sequence[ScheduleRule], component: Iterable[int], rows: Mapping[int, Rows]
) -> bool:
    """Whether a cut forbids the statements of a component to share what comes next."""
    among = frozenset(component)
    for rule in rules:
        if rule.field != "cut":
            continue
        parts = {rule.parts[s] for s in rule.statements & among}
        if len(parts) > 1 and rule.reaches_any(problem, rows, among):
            return True
    return False


def cut_order(rules: Sequence[ScheduleRule], component: Iterable[int]) -> list[tuple[int, int]]:
    """(before, after) statements of a component, as the cuts order them."""
    among = frozenset(component)
    return [
        (a, b)
        for rule in rules
        if rule.field == "cut"
        for a in rule.statements & among
        for b in rule.statements & among
        if rule.parts[a] < rule.parts[b]
    ]
