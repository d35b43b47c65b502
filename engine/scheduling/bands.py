"""Merge nested one-member bands into permutable bands, with names that are unique on each path.

A band is permutable when each of its rows keeps every dependence that is open where the band begins, not only those
that the rows before it leave open; any order of such rows, and any tiling, keeps them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count

from engine.scheduling.nodes import Band, Leaf, Member, Node, Sequence, statements_of
from engine.scheduling.problem import AffineRow, Row, Rows, ScheduleProblem


def join_bands(problem: ScheduleProblem, node: Node) -> Node:
    """Merge consecutive bands when all their members are permutable and alike (all parallel, or none).

    A row that is a sum of iterators is there to make its band permutable: it joins a band that carries dependences even
    if it carries none itself, and is then no parallel member, which would not survive an interchange.
    """
    statements = [problem.number[name] for name in statements_of(node)]
    return _join(problem, node, dict.fromkeys(statements, ()), ())


def _join(problem: ScheduleProblem, node: Node, rows: Mapping[int, Rows], names: tuple[str, ...]) -> Node:
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(_join(problem, child, rows, names) for child in children))
        case Band():
            return _join_chain(problem, node, rows, names)


def _join_chain(problem: ScheduleProblem, node: Band, rows: Mapping[int, Rows], names: tuple[str, ...]) -> Node:
    """The longest band that begins at `node`, and what is below it."""
    below: Node = node
    members: list[Member] = []
    inner = {problem.number[s]: rows[problem.number[s]] for s in node.members[0].rows}
    while isinstance(below, Band):
        member = below.members[0]
        chosen = {problem.number[s]: problem.row(problem.number[s], row) for s, row in member.rows.items()}
        skewed = (
            bool(members) and not members[0].parallel and any(isinstance(row, AffineRow) for row in chosen.values())
        )
        alike = not members or skewed or member.parallel == members[0].parallel
        if not alike or not _keeps_all(problem, rows, chosen):
            break
        member = replace(member, name=_unique(member.name, names), parallel=member.parallel and not skewed)
        names = (*names, member.name)
        members.append(member)
        inner = {s: (*inner[s], row) for s, row in chosen.items()}
        below = below.child
    return Band(tuple(members), True, _join(problem, below, inner, names))


def _keeps_all(problem: ScheduleProblem, rows: Mapping[int, Rows], chosen: Mapping[int, Row]) -> bool:
    """Whether a member keeps every dependence that is open where its band begins, so that band members may be
    interchanged."""
    if any(problem.distance(s, rows[s], row) < 0 for s, row in chosen.items()):
        return False
    edges = (e for e in problem.edges.values() if e.source in chosen and e.sink in chosen)
    return all(problem.between(e, rows[e.source], rows[e.sink], chosen[e.source], chosen[e.sink]) >= 0 for e in edges)


def _unique(name: str, taken: tuple[str, ...]) -> str:
    """The name, numbered from 2 on where it is taken."""
    return next(one for one in chain([name], (f"{name}{number}" for number in count(2))) if one not in taken)
