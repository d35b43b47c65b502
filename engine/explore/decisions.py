"""Decision table of a group: for each iterator and schedule dimension, whether the iterator can be that dimension.

The outer dimensions stay as they are.  A cell asks the scheduler what a pin would: do the other statements of the
dimension have iterators such that all can share the loop at distance zero?  If not, the statement leaves the shared
loop, which is legal in textual order; only a statement's dependences on itself make an iterator impossible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.compilation import default_recipe
from engine.documents.exploration import CellDoc, DecisionRow, DecisionsDoc
from engine.explore.scheduled_group import ScheduledGroup, dimension_names, schedule_group
from engine.fusion.nodes import FusionGroup
from engine.poly.nodes import Dependence
from engine.recipe import Entry, Recipe
from engine.scheduling.address import TreePosition
from engine.scheduling.legality import violation
from engine.scheduling.nodes import Member
from engine.scheduling.problem import DependenceEdge, Row, Rows, ScheduleProblem, prepare
from engine.scheduling.search import Budget, Choice, choices
from engine.scheduling.text import to_text
from engine.scheduling.timeline import TimeComponent

_ATTEMPTS = 2_000
"""Choices tried for one cell; after that the loop counts as not shareable."""
_USED = CellDoc("used", False, "", "", "")


def decisions(group: FusionGroup, recipe: Recipe | None = None) -> DecisionsDoc:
    """What each iterator of each statement could be in each dimension of the schedule.  Raises Illegal."""
    now = schedule_group(group, recipe or default_recipe(group))
    table = _CellSolver(now, prepare(now.program, now.dependences), now.places)
    names = dimension_names(now.places)
    rows = tuple(
        DecisionRow(s.name, i.name, i.extent, tuple(table.cell(s.name, k, name) for name in names))
        for s in now.program.statements
        for k, i in enumerate(s.iterators)
    )
    return DecisionsDoc(now.group.name, to_text(now.advice), names, rows)


@dataclass(frozen=True, slots=True)
class _CellSolver:
    now: ScheduledGroup
    problem: ScheduleProblem
    where: Mapping[str, TreePosition]

    def cell(self, statement: str, iterator: int, dimension: str) -> CellDoc:
        """The cell of one iterator in one dimension."""
        members = self.where[statement].members
        position = next((k for k, m in enumerate(members) if m.name == dimension), None)
        if position is None:
            return _USED
        number, member = self.problem.number[statement], members[position]
        above = self._rows(statement, position)
        chosen = self.problem.row(number, member.rows[statement]) == iterator
        if iterator not in self.problem.unused_iterators(number, above):
            return _USED
        broken = self._violated_dependence(number, above, iterator)
        if broken is not None:
            dependence, witness = broken
            return CellDoc("impossible", False, f"breaks the {dependence}", witness, "")
        rows = {self.problem.number[s]: self._rows(s, position) for s in member.rows}
        if chosen:
            state, because = self._current_state(member, rows)
        else:
            state, because = self._alternative_state(member, rows, number, iterator)
        entry = "" if chosen else self._pin_line(number, above, iterator)
        return CellDoc(state, chosen, because, "", entry)

    def _rows(self, statement: str, depth: int) -> Rows:
        number = self.problem.number[statement]
        members = self.where[statement].members[:depth]
        rows = (self.problem.row(number, m.rows[statement]) for m in members)
        return tuple(row for row in rows if isinstance(row, int) or any(row.coefficients))

    def _violated_dependence(self, number: int, above: Rows, iterator: int) -> tuple[Dependence, str] | None:
        """A dependence of a statement on itself that the iterator runs backwards, and two instances of it."""
        if self.problem.distance(number, above, iterator) >= 0:
            return None
        steps = tuple(_step(self.problem, number, row) for row in (*above, iterator))
        for dependence in self.problem.own[number]:
            found = violation(self.now.program, dependence, steps, steps)
            if found is not None:
                return dependence, found.witness.text
        return None

    def _choice(self, member: Member) -> dict[int, Row]:
        """What each statement of a dimension iterates over there."""
        number = self.problem.number
        return {number[s]: self.problem.row(number[s], row) for s, row in member.rows.items()}

    def _current_state(self, member: Member, rows: Mapping[int, Rows]) -> tuple[str, str]:
        """The state of a dimension as it is.  rows: of its statements, outside it."""
        return ("parallel", "") if member.parallel else ("legal", self._why_sequential(rows, self._choice(member)))

    def _alternative_state(
        self, member: Member, rows: Mapping[int, Rows], number: int, iterator: int
    ) -> tuple[str, str]:
        """The state of a dimension that a statement's other iterator would make."""
        choice = self._shared_choice(rows, number, iterator)
        if choice is not None:
            because = self._why_sequential(rows, choice)
            return ("legal", because) if because else ("parallel", "")
        alone = self._why_sequential({number: rows[number]}, {number: iterator})
        return "legal", self._why_apart(member, rows, number, iterator) + (f"; {alone}" if alone else "")

    def _shared_choice(self, rows: Mapping[int, Rows], number: int, iterator: int) -> Choice | None:
        """An iterator for every statement of a dimension if one of them uses this one; None where they cannot share."""
        allowed = {
            s: [k for k in self.problem.unused_iterators(s, above) if self.problem.distance(s, above, k) >= 0]
            for s, above in rows.items()
        }
        return next(choices(self.problem, {**allowed, number: [iterator]}, number, Budget(_ATTEMPTS)), None)

    def _why_sequential(self, rows: Mapping[int, Rows], choice: Mapping[int, Row]) -> str:
        """Why a dimension is not parallel; "" where it is."""
        problem = self.problem
        for s, row in choice.items():
            statement = problem.statements[s]
            # `reduced` has a bit for each iterator that the statement reduces over.
            if isinstance(row, int) and problem.reduced[s] >> row & 1 and statement.reduction:
                over, name = statement.iterators[row].name, statement.reduction.operation
                return f"{statement.name} takes the {name} over {over}"
            for dependence in problem.own[s]:
                if problem.distance(s, rows[s], row) > 0:
                    return f"carries the {dependence}"
        for edge in self._edges(choice):
            if problem.between(edge, rows[edge.source], rows[edge.sink], choice[edge.source], choice[edge.sink]):
                return f"carries the {edge.dependences[0]}"
        return ""

    def _why_apart(self, member: Member, rows: Mapping[int, Rows], number: int, iterator: int) -> str:
        """Why a statement cannot stay in the loop that it shares."""
        problem = self.problem
        names = self._choice(member)
        extent = problem.extents[number][iterator]
        for edge in self._edges(names):
            if number not in (edge.source, edge.sink):
                continue
            row, other = (iterator if s == number else names[s] for s in (edge.source, edge.sink))
            if problem.between(edge, rows[edge.source], rows[edge.sink], row, other):
                far = problem.statements[edge.source + edge.sink - number].name
                return f"in a loop apart from {far}, because of the {edge.dependences[0]}"
        others = [s for s in member.rows if problem.number[s] != number]
        if others and extent != member.extent:
            return f"in a loop apart from {', '.join(others)}: it has {extent} steps, theirs {member.extent}"
        return f"in a loop apart from {', '.join(others)}" if others else ""

    def _edges(self, statements: Mapping[int, Row]) -> list[DependenceEdge]:
        return [e for e in self.problem.edges.values() if e.source in statements and e.sink in statements]

    def _pin_line(self, number: int, above: Rows, iterator: int) -> str:
        """The advice line that pins an iterator after the rows above."""
        names = self.problem.names[number]
        address = f"after {names[self.problem.leading(number, above)]}" if above else "outermost"
        return str(Entry((self.problem.statements[number].name,), address, "pin", (names[iterator],)))


def _step(problem: ScheduleProblem, number: int, row: Row) -> TimeComponent:
    """A row as one step of a timeline."""
    index = problem.index(number, row)
    terms: Sequence[tuple[int, int]] = [(problem.names[number].index(str(name)), c) for name, c in index.terms]
    return TimeComponent(str(index), index, tuple(terms))
