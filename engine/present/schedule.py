"""Schedule trees as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engine.documents.model import ScheduleDoc
from engine.scheduling.nodes import Band, Leaf, Mark, Member, Node, ScheduleTree, statements_of
from engine.scheduling.nodes import Sequence as Sequenced
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator
from engine.tile.nodes import Note


def schedule_doc(
    program: TensorProgram, tree: ScheduleTree, notes: Mapping[tuple[int, ...], Note] = MappingProxyType({})
) -> ScheduleDoc:
    """The schedule tree of a program with its marks as chips, as a kernel has them.

    notes: what its kernel took otherwise than it was asked for; none where there is no kernel.
    """
    names = tuple(s.name for s in program.statements)
    texts = {s.name: str(s).split(": ", 1)[1] for s in program.statements}
    child = _node_doc(tree.root, texts, notes)
    return ScheduleDoc("domain", ", ".join(names), names, "", False, (), child)


def _node_doc(node: Node, texts: Mapping[str, str], notes: Mapping[tuple[int, ...], Note]) -> tuple[ScheduleDoc, ...]:
    match node:
        case Leaf(names):
            return tuple(ScheduleDoc("statement", f"{n}  {texts[n]}", (n,), "", False, (), ()) for n in names)
        case Sequenced(children):
            inner = tuple(doc for child in children for doc in _node_doc(child, texts, notes))
            order = " → ".join(" ".join(statements_of(c)) for c in children)
            return (ScheduleDoc("sequence", order, statements_of(node), "", False, (), inner),)
        case Band(members, _, child):
            docs = _node_doc(child, texts, notes)
            for member in reversed(members):
                chips = _chips(member.marks, notes)
                below = statements_of(child)
                text, rows = f"{member.name} = 0 … {member.extent - 1:,}", _rows(member)
                band = ScheduleDoc("band", text, below, member.name, member.parallel, chips, docs, member.extent, rows)
                docs = (band,)
            return docs


def _rows(member: Member) -> tuple[str, ...]:
    """The rows of a dimension that are no plain iterator; what a tile divides stands at the loop that was tiled."""
    rows = () if member.tiling else member.rows.values()
    return tuple(dict.fromkeys(str(row) for row in rows if plain_iterator(row) is None))


def _chips(marks: Sequence[Mark], notes: Mapping[tuple[int, ...], Note]) -> tuple[str, ...]:
    """Marks of a dimension as text; where the kernel does not honour one, the value it uses."""
    held = {mark.name for mark in marks if mark.path not in notes}
    chips: list[str] = []
    for mark in marks:
        note = notes.get(mark.path)
        if note is None:
            chips.append(_chip(mark.name, mark.value))
        elif note.value and mark.name not in held:
            chips.append(_chip(mark.name, note.value))
    return tuple(dict.fromkeys(chips))


def _chip(name: str, value: int | str) -> str:
    return f"{value} stage{'s' * (str(value) != '1')}" if name == "stages" else f"{name} {value}"
