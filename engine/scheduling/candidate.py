"""Attach the marks and flags of all entries that hold to a schedule, and judge each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.recipe import Entry, Value
from engine.scheduling.attach import attach, members_meant
from engine.scheduling.attach_tiles import attach_to_tiles
from engine.scheduling.coefficient_check import coefficients_held
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import HONOURED, INFEASIBLE, NO_MATCH, Node, PlacedEntry, ScheduleTree, Verdict
from engine.scheduling.problem import ScheduleProblem
from engine.scheduling.rules import ScheduleRule
from engine.scheduling.terms import COEFFICIENT_FIELDS
from engine.scheduling.tiling import split_marked

RuleKey = tuple[str, str, Value, frozenset[int]]
"""Identity of a rule, without its author: field, dimension, value and statements."""


def rule_keys(rules: Iterable[ScheduleRule]) -> tuple[RuleKey, ...]:
    """What some rules ask for, each once."""
    return tuple(dict.fromkeys(rule.key for rule in rules))


@dataclass(frozen=True, slots=True)
class SettledEntries:
    """Entries that hold so far on the path down the constraint tree."""

    rules: tuple[ScheduleRule, ...] = ()
    entries: tuple[PlacedEntry, ...] = ()
    """All entries that are not given up, those without a rule included."""


@dataclass(frozen=True, slots=True)
class ScheduleCandidate:
    """The schedule of one path through the constraint tree, with the marks and flags of its entries."""

    tree: ScheduleTree
    rules: tuple[ScheduleRule, ...]
    verdicts: tuple[Verdict, ...]
    """Of every entry, in their order."""
    clash: tuple[PlacedEntry, ...] = ()
    """The first two entries that say opposite things of a dimension: whether it is parallel, or the value of a mark."""
    because: str = ""
    """Why no kernel follows it; "" where one does."""

    @property
    def unheld(self) -> Verdict | None:
        """The verdict of the first required entry that does not hold, as when its dimension is never there."""
        return next((v for v in self.verdicts if v.placed.entry.required and v.outcome != HONOURED), None)


def attach_entries(
    problem: ScheduleProblem, node: Node, rules: tuple[ScheduleRule, ...], entries: Iterable[PlacedEntry]
) -> ScheduleCandidate:
    """The schedule that `rules` give with everything that entries put on it, split dimensions as tiles."""
    program, names = problem.program, [s.name for s in problem.statements]
    found: dict[tuple[int, ...], Verdict] = {}
    clash: list[PlacedEntry] = []
    claims: dict[tuple[str, str, frozenset[str]], PlacedEntry] = {}  # topic, dimension, statements -> the first claim

    def claim(placed: PlacedEntry, before: Node, after: Node, finding: Verdict) -> Verdict:
        """A claim about parallelism is kept only if no entry before it says the opposite, and if it is true.

        Of required marks with one name a dimension has one.
        """
        topic = _topic(placed.entry)
        if finding.outcome != HONOURED or not topic:
            return finding
        members = members_meant(before, placed.entry, names)
        others = [claims.setdefault((topic, m.name, frozenset(m.rows)), placed) for m in members]
        other = next((o for o in others if o.entry.value != placed.entry.value), None)
        if other is not None:
            clash.extend((other, placed) if not clash else ())
            return Verdict(placed, INFEASIBLE, f"collides with “{other.entry}” ({other.author})")
        if topic != "parallel" or placed.entry.value is not True:
            return finding
        broken = check_schedule(program, problem.dependences(), ScheduleTree(after))
        return Verdict(placed, INFEASIBLE, broken[0].witness.text) if broken else finding

    unmatched: list[PlacedEntry] = []
    for placed in entries:
        if placed.entry.field in COEFFICIENT_FIELDS:
            found[placed.path] = coefficients_held(problem, placed, node)
            continue
        changed, finding = attach(node, placed, names)
        finding = claim(placed, node, changed, finding)
        if finding.outcome != INFEASIBLE:
            node = changed
        if finding.outcome == NO_MATCH:
            unmatched.append(placed)
        found[placed.path] = finding
    tiled = split_marked(program, ScheduleTree(node)).root
    if tiled is not node:
        node, verdicts = attach_to_tiles(program, problem.dependences(), tiled, unmatched, claim)
        found |= {verdict.placed.path: verdict for verdict in verdicts}
    return ScheduleCandidate(ScheduleTree(node), rules, tuple(found.values()), tuple(clash))


def _topic(entry: Entry) -> str:
    """What two entries about one dimension cannot both say with different values; "" for nothing."""
    if entry.field == "parallel":
        return entry.field
    if entry.field != "mark" or not entry.required or not isinstance(entry.value, tuple):
        return ""
    name = str(entry.value[0])
    return f"{name} of {' '.join(entry.statements)}" if name == "scope" else name
