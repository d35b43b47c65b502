"""Attach the marks and flags of all entries that hold to a schedule, and judge each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.scheduling.attach import attach, members_meant
from engine.scheduling.coefficient_check import coefficients_held
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import HONOURED, INFEASIBLE, Node, PlacedEntry, ScheduleTree, Verdict
from engine.scheduling.problem import ScheduleProblem
from engine.scheduling.rules import ScheduleRule
from engine.scheduling.terms import COEFFICIENT_FIELDS


@dataclass(frozen=True, slots=True)
class Candidate:
    """The schedule of one path through the constraint tree, with the marks and flags of its entries."""

    tree: ScheduleTree
    rules: tuple[ScheduleRule, ...]
    verdicts: tuple[Verdict, ...]
    """Of every entry, in their order."""
    clash: tuple[PlacedEntry, ...] = ()
    """The first two entries that say opposite things of whether a dimension is parallel."""
    because: str = ""
    """Why no kernel follows it; "" where one does."""

    @property
    def unheld(self) -> Verdict | None:
        """The verdict of the first required entry that does not hold, as when its dimension is never there."""
        return next((v for v in self.verdicts if v.placed.entry.required and v.outcome != HONOURED), None)


def attach_entries(
    problem: ScheduleProblem, node: Node, rules: tuple[ScheduleRule, ...], entries: Iterable[PlacedEntry]
) -> Candidate:
    """The schedule that `rules` give with everything that entries put on it."""
    names = [s.name for s in problem.statements]
    verdicts: list[Verdict] = []
    clash: tuple[PlacedEntry, ...] = ()
    claims: dict[tuple[str, frozenset[str]], PlacedEntry] = {}  # dimension and statements -> the first claim
    for placed in entries:
        if placed.entry.field in COEFFICIENT_FIELDS:
            verdicts.append(coefficients_held(problem, placed, node))
            continue
        changed, finding = attach(node, placed, names)
        if placed.entry.field == "parallel" and finding.outcome == HONOURED:
            members = members_meant(node, placed.entry, names)
            others = [claims.setdefault((m.name, frozenset(m.rows)), placed) for m in members]
            other = next((o for o in others if o.entry.value != placed.entry.value), None)
            if other is not None:
                clash = clash or (other, placed)
                finding = Verdict(placed, INFEASIBLE, f"collides with “{other.entry}” ({other.author})")
            elif placed.entry.value is True:
                broken = check_schedule(problem.program, problem.dependences(), ScheduleTree(changed))
                finding = Verdict(placed, INFEASIBLE, broken[0].witness.text) if broken else finding
        if finding.outcome != INFEASIBLE:
            node = changed
        verdicts.append(finding)
    return Candidate(ScheduleTree(node), rules, tuple(verdicts), clash)
