"""Random edits of schedule trees, legal or not."""

from __future__ import annotations

import random
from dataclasses import replace

from engine.scheduling.attach import replace_members
from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Sequence, walk
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram


def plain(node: Node) -> Node:
    """The tree without claims: nothing parallel, nothing permutable."""
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(map(plain, children)))
        case Band(members, _, child):
            return Band(tuple(replace(m, parallel=False) for m in members), False, plain(child))


def claiming(tree: ScheduleTree, draw: random.Random) -> ScheduleTree:
    """The tree with a claim, true or false, that one of its dimensions is parallel."""
    bands = [node for node in walk(tree.root) if isinstance(node, Band)]
    if not bands:
        return tree
    member = draw.choice(draw.choice(bands).members)
    return ScheduleTree(replace_members(tree.root, {id(member): replace(member, parallel=True)}))


def edited(program: TensorProgram, tree: ScheduleTree, draw: random.Random) -> ScheduleTree:
    """The tree without claims after one to three random changes of rows, members or orders."""
    node = plain(tree.root)
    for _ in range(draw.randint(1, 3)):
        node = _edit(program, node, draw)
    return ScheduleTree(node)


def _edit(program: TensorProgram, node: Node, draw: random.Random) -> Node:
    match node:
        case Leaf(statements):
            return Leaf(tuple(draw.sample(statements, len(statements))))
        case Sequence(children):
            if draw.random() < 0.4:
                return Sequence(tuple(draw.sample(children, len(children))))
            position = draw.randrange(len(children))
            return Sequence(tuple(_edit(program, c, draw) if k == position else c for k, c in enumerate(children)))
        case Band(members, permutable, child):
            if draw.random() < 0.5:
                return Band(members, permutable, _edit(program, child, draw))
            if len(members) > 1 and draw.random() < 0.3:
                return Band(tuple(draw.sample(members, len(members))), permutable, child)
            position = draw.randrange(len(members))
            new = _edited_member(program, members[position], draw)
            return Band((*members[:position], new, *members[position + 1 :]), permutable, child)


def _edited_member(program: TensorProgram, member: Member, draw: random.Random) -> Member:
    """One statement's row moved, turned round, skewed, or replaced by another iterator."""
    name = draw.choice(list(member.rows))
    iterators = [i.name for i in program.statement(name).iterators]
    row = member.rows[name]
    match draw.choice(["shift", "turn", "skew", "other"]):
        case "shift":
            row = row + draw.choice([-2, -1, 1, 2, 9])
        case "turn":
            row = row * -1
        case "skew" if iterators:
            row = row + Index.of(draw.choice(iterators))
        case "other" if iterators:
            row = Index.of(draw.choice(iterators))
    return replace(member, rows={**member.rows, name: row})
