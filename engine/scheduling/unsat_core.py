"""Explain why an entry cannot hold: the conflicting entry or the broken dependence, with two instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.poly.box import at_actual_sizes
from engine.poly.nodes import Dependence
from engine.scheduling.attach import attach
from engine.scheduling.coefficient_check import coefficients_held
from engine.scheduling.conflict import fewest
from engine.scheduling.infeasibility import broken_by, contradiction
from engine.scheduling.integer import OutOfTime
from engine.scheduling.legality import check_schedule, violation
from engine.scheduling.nodes import HONOURED, INFEASIBLE, Conflict, Node, PlacedEntry, ScheduleTree, Verdict, Witness
from engine.scheduling.problem import ScheduleProblem
from engine.scheduling.rules import ScheduleRule
from engine.scheduling.terms import COEFFICIENT_FIELDS
from engine.scheduling.timeline import TimeComponent
from engine.scheduling.witness import witness
from engine.tensor.index import Index

Build = Callable[[Sequence[ScheduleRule]], Node | None]
"""The tree that obeys some rules; None when there is none.  Raises OutOfTime when an explanation takes too long."""


NOT_MINIMAL = " (some of them may have no part in it: the smallest set was not found in time)"
_NAMED = 6
"""Entries that a verdict names at the most."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Entries that cannot hold together."""

    entries: tuple[PlacedEntry, ...] = ()
    """The last one is what cannot hold with the others."""
    finding: Verdict | None = None
    """Of an entry that fails by itself."""
    is_minimal: bool = True
    """Whether none of them can be left out."""

    def error(self, verdicts: tuple[Verdict, ...], is_last_answer: bool) -> Conflict:
        """The conflict, without repairs.  verdicts: of every entry.  is_last_answer: whether repairs are tried next."""
        *others, last = self.entries
        because = next(v.because for v in verdicts if v.placed.path == last.path)
        if others and " with “" not in because:
            names = ", ".join(f"“{p.entry}” ({p.author})" for p in others)
            because += f"; cannot hold together with {names}"
        hint = "make it optional, switch it off, or change what it collides with"
        is_final = is_last_answer and self.is_minimal and all(v.is_final for v in verdicts)
        conflict = Conflict(str(last.entry), because, hint, verdicts, self.entries)
        conflict.is_final = is_final
        return conflict


@dataclass(frozen=True, slots=True)
class Blame:
    """Explains infeasibility of one more rule on top of `kept`, which can hold."""

    problem: ScheduleProblem
    build: Build

    def verdict(self, rule: ScheduleRule, kept: Sequence[ScheduleRule]) -> Verdict:
        """The verdict "infeasible" with the best available reason."""
        found, is_minimal = fewest(rule, kept, lambda rules: self.build(rules) is not None)
        others = found[:-1]
        proof, is_final = None, is_minimal
        try:
            proof = self._witness(rule, kept, others)
        except OutOfTime:  # the verdict stands without its proof
            is_final = False
        if others:
            verb = "collides with" if len(others) == 1 and is_minimal else "cannot hold together with"
            because = f"{verb} {', '.join(map(_name, others[:_NAMED]))}"
            because += f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
            because += "" if is_minimal else NOT_MINIMAL
        elif proof is not None:
            because = f"breaks the {proof.dependence}"
        else:
            because = self._contradiction(rule) or "no schedule was found that obeys it"
        return Verdict(rule.placed, INFEASIBLE, because + (f": {proof.text}" if proof else ""), proof, is_final)

    def clash(self, last: ScheduleRule, kept: Sequence[ScheduleRule]) -> Clash:
        """A minimal set of entries that cannot hold together, with `last` unless another fails by itself."""

        def hold(rules: Sequence[ScheduleRule]) -> bool:
            node = self.build(rules)
            return node is not None and all(self._finding(node, r.placed).outcome == HONOURED for r in rules)

        for other in (rule for rule in kept if rule.placed.entry.required):
            try:
                node = self.build((other,))
            except OutOfTime:
                break
            finding = None if node is None else self._finding(node, other.placed)
            if finding is not None and finding.outcome != HONOURED:
                return Clash((other.placed,), finding)  # as when its dimension is never there
        found, is_minimal = fewest(last, kept, hold)
        return Clash(tuple(rule.placed for rule in found), is_minimal=is_minimal)

    def _finding(self, node: Node, placed: PlacedEntry) -> Verdict:
        if placed.entry.field in COEFFICIENT_FIELDS:
            return coefficients_held(self.problem, placed, node)
        return attach(node, placed, [s.name for s in self.problem.statements])[1]

    def _contradiction(self, rule: ScheduleRule) -> str:
        """Why a rule contradicts itself, if no dependence is broken."""
        if rule.demand:
            return contradiction(self.problem, rule)
        name = rule.address.name
        owner = next((s for s in sorted(rule.statements) if name in self.problem.names[s]), None)
        if rule.field != "pin" or owner is None:
            return ""
        statement = self.problem.statements[owner].name
        if rule.address.kind == "after":
            return f"{statement} has used {name} up before the dimension after it"
        return f"dimension {name} of {statement} is where it uses {name}; a place is outermost, innermost or after NAME"

    def _witness(
        self, rule: ScheduleRule, kept: Sequence[ScheduleRule], others: Sequence[ScheduleRule]
    ) -> Witness | None:
        fields = {other.field: other for other in others}
        if rule.field == "cut":
            return self._against_cut(rule)
        if "cut" in fields:
            return self._against_cut(fields["cut"])
        if rule.field == "parallel":
            return self._find_carried(rule, self.build(kept))
        if "parallel" in fields:
            return self._find_carried(fields["parallel"], self.build((*(k for k in kept if k not in others), rule)))
        if rule.demand:
            return broken_by(self.problem, rule, self.build(kept))
        return self._against_pin(rule)

    def _find_carried(self, rule: ScheduleRule, node: Node | None) -> Witness | None:
        """A dependence that the dimension of a `parallel` rule carries in `node`."""
        if node is None:
            return None
        claimed, _ = attach(node, rule.placed, [s.name for s in self.problem.statements])
        found = check_schedule(self.problem.program, self.problem.dependences(), ScheduleTree(claimed))
        return found[0].witness if found else None

    def _against_cut(self, rule: ScheduleRule) -> Witness | None:
        """A dependence from a later part of a cut to an earlier one, or the first on a way from one to the other."""
        for (source, sink), edge in sorted(self.problem.edges.items()):
            if rule.parts.get(source, -1) > rule.parts.get(sink, len(rule.parts)):
                return self.example(edge.dependences[0])
        for start in sorted(rule.parts):
            reached: dict[int, Dependence] = {}
            for (source, sink), edge in sorted(self.problem.edges.items()):
                first = edge.dependences[0] if source == start else reached.get(source)
                if first is not None:
                    reached.setdefault(sink, first)
            if any(rule.parts.get(s, rule.parts[start]) < rule.parts[start] for s in reached):
                back = next(s for s in reached if rule.parts.get(s, rule.parts[start]) < rule.parts[start])
                return self.example(reached[back])
        return None

    def _against_pin(self, rule: ScheduleRule) -> Witness | None:
        """A dependence of a statement on itself that the pinned order of its iterators breaks."""
        for number in sorted(rule.statements):
            statement = self.problem.statements[number]
            names = [i.name for i in statement.iterators]
            wanted = [n for n in names if n in rule.allowed]
            others = [n for n in names if n not in rule.allowed]
            order = others + wanted if rule.address.kind == "innermost" else wanted[:1] + others + wanted[1:]
            steps = tuple(TimeComponent(n, Index.of(n), ((names.index(n), 1),)) for n in order)
            for dependence in self.problem.own[number]:
                found = violation(self.problem.program, dependence, steps, steps)
                if found is not None:
                    return found.witness
        return None

    def example(self, dependence: Dependence) -> Witness | None:
        """Some two instances that a dependence joins."""
        program = self.problem.program
        if not dependence.symbols and dependence.kind != "reduction":
            from engine.poly import irregular  # vertices of a convex hull need not be instances

            pair = irregular.violating_pair(program, dependence, (), None, "!=")
            return None if pair is None else witness(program, dependence, *pair)
        vertex = at_actual_sizes(dependence)[0]
        return witness(program, dependence, vertex.source, vertex.sink)


def _name(rule: ScheduleRule) -> str:
    return f"“{rule.placed.entry}” ({rule.placed.author})"


def partly(rule: ScheduleRule, statements: frozenset[int]) -> ScheduleRule:
    """A rule for fewer statements."""
    demand = rule.demand and rule.demand.among(statements)
    return replace(rule, statements=statements, demand=demand)


def largest_part(
    rule: ScheduleRule, kept: tuple[ScheduleRule, ...], exists: Callable[[Sequence[ScheduleRule]], bool]
) -> ScheduleRule | None:
    """The rule for a largest subset of its statements that can obey it on top of `kept`; None if that is empty."""
    if rule.field not in ("pin", "terms", "equal") or len(rule.statements) == 1:
        return None
    held: frozenset[int] = frozenset()
    waiting = [tuple(sorted(rule.statements))]
    while waiting:  # halves of what fails together: few statements are usually to blame
        some = waiting.pop()
        half = len(some) // 2
        if some != tuple(sorted(rule.statements)) and exists((*kept, partly(rule, held.union(some)))):
            held |= frozenset(some)
        elif half:
            waiting += [some[half:], some[:half]]
    return partly(rule, held) if held else None
