"""From rules to a schedule tree: one dimension after the other, fused as far as that costs no parallel loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field

from engine.schedule.fusion import Group, partition
from engine.schedule.nodes import Band, Leaf, Member, Node, Sequence
from engine.schedule.problem import Problem, Rows
from engine.schedule.rules import Rule, accepts, cut_order, must_part, preferences
from engine.schedule.search import Budget, Choice, choices
from engine.tensor.index import Index


@dataclass(slots=True)
class Builder:
    """One solve: the rules that hold in it, and what was decided."""

    problem: Problem
    rules: Sequence_[Rule]
    budget: Budget
    log: list[str] = field(default_factory=list)

    def build(self) -> Node | None:
        """A tree that obeys all rules, in one-member bands; None when the search finds none."""
        everything = tuple(range(len(self.problem.statements)))
        return self._node(everything, dict.fromkeys(everything, ()), inside=False)

    def _node(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Node | None:
        """The subtree of a component whose statements already have `rows`.

        A loop around all of them comes first; where there is none, or none works out, they are cut into a sequence.
        """
        self.budget.spend(self.problem.program.name)
        full = [s for s in component if len(rows[s]) == self.problem.rank(s)]
        apart = must_part(self.problem, self.rules, component, rows)
        if len(full) == len(component) and not apart:
            return Leaf(self._names(component))
        if not full and not apart:
            early = self._thin(component, rows, inside)
            if early:
                parts = [early, tuple(s for s in component if s not in early)]
                return self._sequence(parts, rows, inside, "values without the outer loop are made before")
            for choice in self._choices(component, rows, inside):
                member = self._member(choice, rows)
                below = {s: (*rows[s], k) for s, k in choice.items()}
                child = self._node(component, below, inside or member.parallel)
                if child is not None:
                    return Band((member,), True, child)
        return self._cut(component, rows, inside)

    def _choices(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Iterator[Choice]:
        wanted = preferences(self.problem, self.rules, component, rows, inside)
        leader = max(component, key=lambda s: (len(wanted[s]), -s))
        for choice in choices(self.problem, wanted, leader, self.budget):
            if accepts(self.problem, self.rules, rows, choice):
                yield choice

    def _member(self, choice: Choice, rows: Mapping[int, Rows]) -> Member:
        problem = self.problem
        used = Counter(problem.names[s][k] for s, k in choice.items())
        free = all(not problem.reduced[s] >> k & 1 and problem.distance(s, rows[s], k) == 0 for s, k in choice.items())
        first = next(iter(choice.items()))
        return Member(
            name=used.most_common(1)[0][0],
            rows={problem.statements[s].name: Index.of(problem.names[s][k]) for s, k in choice.items()},
            parallel=free,
            extent=problem.extents[first[0]][first[1]],
        )

    def _thin(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Group:
        """Statements that would force the others off their outer loop, and can run before them.

        A vector over the columns, made in the group and used in every row, would put the column loop outside; such
        producers (no reduction, fewer loops left, nothing read from the others) get a nest of their own instead.
        """
        choice = next(self._choices(component, rows, inside), None)
        if choice is None or any(rule.field == "cut" for rule in self.rules):
            return ()
        left = {s: self._loops_left(s, rows[s]) for s in component}
        leader = max(component, key=lambda s: (left[s], -s))
        first = preferences(self.problem, self.rules, component, rows, inside)[leader][0]
        if choice[leader] == first:
            return ()
        thin: list[int] = []
        for s in component:
            sources = [a for a, b in self.problem.edges if b == s and a in component]
            if left[s] < left[leader] and not self.problem.reduced[s] and all(a in thin for a in sources):
                thin.append(s)
        rest = tuple(s for s in component if s not in thin)
        better = next(self._choices(rest, rows, inside), None)
        return tuple(thin) if better is not None and better[leader] == first else ()

    def _loops_left(self, statement: int, rows: Rows) -> int:
        """Number of unused iterators that are not reduced."""
        return sum(
            k not in rows and not self.problem.reduced[statement] >> k & 1 for k in range(self.problem.rank(statement))
        )

    def _cut(self, component: Group, rows: Mapping[int, Rows], inside: bool) -> Node | None:
        """A sequence of parts that are scheduled each for itself; None when that fails too."""
        if len(component) == 1:
            return None
        known: dict[Group, bool] = {}

        def compatible(group: Group) -> bool:
            if group not in known:
                known[group] = self._compatible(group, rows, inside)
            return known[group]

        parts = partition(self.problem, component, cut_order(self.rules, component), compatible)
        if parts is None:
            return None
        alone: list[Group] = [(s,) for part in parts for s in part]
        if len(parts) > 1:
            node = self._sequence(parts, rows, inside, "no parallel loop is common to all")
            if node is not None or len(alone) == len(parts):
                return node
        order = partition(self.problem, component, cut_order(self.rules, component), lambda group: False)
        return None if order is None else self._sequence(order, rows, inside, "nothing can be shared here")

    def _compatible(self, group: Group, rows: Mapping[int, Rows], inside: bool) -> bool:
        full = sum(len(rows[s]) == self.problem.rank(s) for s in group)
        if full not in (0, len(group)) or must_part(self.problem, self.rules, group, rows):
            return False
        return full > 0 or next(self._choices(group, rows, inside), None) is not None

    def _sequence(self, parts: Sequence_[Group], rows: Mapping[int, Rows], inside: bool, because: str) -> Node | None:
        children: list[Node] = []
        for part in parts:
            child = self._node(part, {s: rows[s] for s in part}, inside)
            if child is None:
                return None
            children += child.children if isinstance(child, Sequence) else (child,)
        self.log.append(f"cut: {' | '.join(' '.join(self._names(part)) for part in parts)} ({because})")
        return Sequence(tuple(children))

    def _names(self, component: Group) -> tuple[str, ...]:
        return tuple(self.problem.statements[s].name for s in component)
