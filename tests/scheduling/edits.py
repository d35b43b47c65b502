"""Random edits of schedule trees, legal or not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from engine.scheduling.attach import replace_members
from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Sequence, statements_of, walk
from engine.scheduling.tiling import split_members
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


def tiled(program: TensorProgram, tree: ScheduleTree, draw: random.Random) -> ScheduleTree:
    """The tree with one to three dimensions split and some bands interchanged; claims of the tree are kept or dropped,
    and some of bands that were interchanged are made up."""
    node = tree.root if draw.random() < 0.6 else plain(tree.root)
    for _ in range(draw.randint(1, 2)):
        members = [m for band in walk(node) if isinstance(band, Band) for m in band.members]
        chosen = draw.sample(members, min(len(members), draw.randint(1, 3)))
        factors = {id(m): tuple(sorted(draw.sample(range(2, 6), draw.choice([1, 1, 2])), reverse=True)) for m in chosen}
        node = split_members(program, node, factors)
    return ScheduleTree(_interchanged(node, draw))


def cut_apart(tree: ScheduleTree, draw: random.Random) -> ScheduleTree:
    """The tree as two or three parts that run one after the other, as launches do; now and then in another order."""
    names = list(statements_of(tree.root))
    if len(names) < 2:
        return tree
    at = sorted(draw.sample(range(1, len(names)), min(len(names) - 1, draw.choice([1, 1, 2]))))
    parts = [names[a:b] for a, b in pairwise([0, *at, len(names)])]
    if draw.random() < 0.3:
        draw.shuffle(parts)
    return ScheduleTree(Sequence(tuple(part for names in parts if (part := _only(tree.root, frozenset(names))))))


def _only(node: Node, names: frozenset[str]) -> Node | None:
    """The tree of some of its statements; None where there are none."""
    match node:
        case Leaf(statements):
            left = tuple(name for name in statements if name in names)
            return Leaf(left) if left else None
        case Sequence(children):
            parts = tuple(part for child in children if (part := _only(child, names)))
            return Sequence(parts) if parts else None
        case Band(members, permutable, child):
            below = _only(child, names)
            rows = [{name: row for name, row in m.rows.items() if name in names} for m in members]
            kept = tuple(replace(m, rows=own) for m, own in zip(members, rows, strict=True))
            return Band(kept, permutable, below) if below else None


def _interchanged(node: Node, draw: random.Random) -> Node:
    """A tree with the members of some chains of bands in another order, in bands that claim to be permutable or not."""
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(_interchanged(child, draw) for child in children))
        case Band():
            if draw.random() < 0.5:
                return replace(node, child=_interchanged(node.child, draw))
            members: list[Member] = []
            below: Node = node
            while isinstance(below, Band):
                members += below.members
                below = below.child
            below = _interchanged(below, draw)
            order = draw.sample(members, len(members)) if draw.random() < 0.6 else members
            while order:
                count = draw.randint(1, len(order))
                below = Band(tuple(order[-count:]), draw.random() < 0.5, below)
                order = order[:-count]
            return below


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
