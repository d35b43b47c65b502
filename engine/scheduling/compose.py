"""Compose the advice of all authors into one constraint tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.recipe import AUTHORS, NOT_INSIDE, REWRITES, Advice, Entry, Scenario, walk_entries
from engine.scheduling.nodes import ConstraintNode, ConstraintTree, PlacedEntry, Verdict, entries_of
from engine.scheduling.rules import cut_parts, pinned_iterators
from engine.support.errors import BadInput
from engine.tensor.nodes import TensorProgram

MAX_SCENARIOS = 16
"""Root-to-leaf paths of the composed tree; alternatives past it, the worst by rank, are left out and reported."""


@dataclass(slots=True)
class _Sorting:
    """Entries that are left out of the tree while it is composed, to report them."""

    disabled: list[PlacedEntry] = field(default_factory=list)
    beyond: list[PlacedEntry] = field(default_factory=list)


def compose(advice: Sequence[Advice], program: TensorProgram, rewrites: tuple[Verdict, ...] = ()) -> ConstraintTree:
    """Compose advice: every author's entries lie on every path, the user's first; alternatives multiply, best first, up
    to `MAX_SCENARIOS`.

    The alternatives of one author hold below those of the authors before it.  Entries of alternatives that are left
    out stay known as `beyond`, disabled ones as `disabled`.  Rewrites are none of the tree's business: `program` is
    after them, `rewrites` says what became of them.  BadInput for a program without statements, and for a rewrite in
    an alternative.
    """
    if not program.statements:
        raise BadInput("schedule", program.name, "has no statements to give advice about")
    sorting = _Sorting()
    ranked = sorted(enumerate(advice), key=lambda item: AUTHORS.index(item[1].author))
    roots = [_node(one.scenario, one.author, (number,), sorting) for number, one in ranked]
    entries = tuple(placed for root in roots for placed in root.entries)
    children: tuple[ConstraintNode, ...] = ()
    paths = 1
    for root in roots:
        if root.children:
            kept = _first(root.children, max(1, MAX_SCENARIOS // paths), sorting)
            paths *= sum(map(count_paths, kept))
            children = _below(children, kept)
    return ConstraintTree(ConstraintNode(entries, children), tuple(sorting.disabled), tuple(sorting.beyond), rewrites)


def _node(scenario: Scenario, author: str, path: tuple[int, ...], sorting: _Sorting) -> ConstraintNode:
    """A scenario as a constraint node; an entry's path is (advice, alternatives ..., entry)."""
    placed = [PlacedEntry(entry, author, (*path, number)) for number, entry in enumerate(scenario.entries)]
    sorting.disabled += [p for p in placed if not p.entry.enabled]
    misplaced = [p.entry for p in placed if p.entry.field == "rewrite" and len(path) > 1]
    if misplaced:
        raise BadInput("recipe", f"{author}: {misplaced[0]}", NOT_INSIDE)
    children = tuple(_node(a, author, (*path, k), sorting) for k, a in enumerate(scenario.alternatives))
    return ConstraintNode(tuple(p for p in placed if p.entry.enabled and p.entry.field != "rewrite"), children)


def count_paths(node: ConstraintNode) -> int:
    """Number of root-to-leaf paths."""
    return sum(map(count_paths, node.children)) or 1


def _first(nodes: Iterable[ConstraintNode], limit: int, sorting: _Sorting) -> tuple[ConstraintNode, ...]:
    """The best alternatives with at most `limit` paths together."""
    kept: list[ConstraintNode] = []
    for node in nodes:
        if limit <= 0:
            sorting.beyond += entries_of(node)
            continue
        if node.children:
            node = ConstraintNode(node.entries, _first(node.children, limit, sorting))
        limit -= count_paths(node)
        kept.append(node)
    return tuple(kept)


def _below(nodes: tuple[ConstraintNode, ...], inner: tuple[ConstraintNode, ...]) -> tuple[ConstraintNode, ...]:
    """`inner` as the alternatives of every leaf of `nodes`."""
    if not nodes:
        return inner
    return tuple(ConstraintNode(n.entries, _below(n.children, inner)) for n in nodes)


def validate(advice: Iterable[Advice], program: TensorProgram) -> None:
    """BadInput when an entry names a statement that the program does not have (a recipe for another program)."""
    for _, author, entry in walk_entries(tuple(advice)):
        missing = [name for name in _statements(entry) if all(name != s.name for s in program.statements)]
        if missing:
            there = f"{program.name} has the statements {', '.join(s.name for s in program.statements)}"
            raise BadInput("recipe", f"{author}: {entry}", f"there is no statement {missing[0]}", there)




def _statements(entry: Entry) -> tuple[str, ...]:
    """Every statement that an entry names."""
    inside: tuple[str, ...] = ()
    if entry.field == "cut":
        inside = tuple(name for part in cut_parts(entry.value) for name in part)
    if entry.field == "equal":
        inside = pinned_iterators(entry.value)
    if entry.field == "rewrite":
        inside = tuple(name for name in pinned_iterators(entry.value) if name not in REWRITES)
    return entry.statements + inside
