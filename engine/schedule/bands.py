"""Nested one-member bands into bands as large as their members may be interchanged, with names unique on each path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.schedule.nodes import Band, Leaf, Member, Node, Sequence, statements_of
from engine.schedule.problem import Problem, Rows


def join_bands(problem: Problem, node: Node) -> Node:
    """Merge consecutive bands when all their members are permutable and alike (all parallel, or none)."""
    statements = [problem.number[name] for name in statements_of(node)]
    return _join(problem, node, dict.fromkeys(statements, ()), ())


def _join(problem: Problem, node: Node, rows: Mapping[int, Rows], names: tuple[str, ...]) -> Node:
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(_join(problem, child, rows, names) for child in children))
        case Band():
            return _join_chain(problem, node, rows, names)


def _join_chain(problem: Problem, node: Band, rows: Mapping[int, Rows], names: tuple[str, ...]) -> Node:
    """The longest band that begins at `node`, and what is below it."""
    below: Node = node
    members: list[Member] = []
    inner = {problem.number[s]: rows[problem.number[s]] for s in node.members[0].rows}
    while isinstance(below, Band):
        member = below.members[0]
        chosen = {
            problem.number[s]: problem.names[problem.number[s]].index(str(row.terms[0][0]))
            for s, row in member.rows.items()
        }
        alike = not members or member.parallel == members[0].parallel
        if not alike or any(problem.distance(s, rows[s], k) < 0 for s, k in chosen.items()):
            break
        member = replace(member, name=_unique(member.name, names))
        names = (*names, member.name)
        members.append(member)
        inner = {s: (*inner[s], k) for s, k in chosen.items()}
        below = below.child
    return Band(tuple(members), True, _join(problem, below, inner, names))


def _unique(name: str, taken: tuple[str, ...]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}{number}" in taken:
        number += 1
    return f"{name}{number}"
