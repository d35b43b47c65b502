"""Which next steps there are to try from a kernel: other numbers, other orders, other cuts, other parallel loops."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from engine.explore.hypothetical_schedules import why_loops_apart
from engine.explore.interchange import neighbours, pins
from engine.explore.recipe_trial import AdviceChange
from engine.explore.scheduled_group import dimension_names, members_of
from engine.kernels.families import maker_of
from engine.kernels.family import MarkMenu
from engine.kernels.nodes import Kernel
from engine.recipe import AUTHORS, RECOMPUTE, Advice, Entry, Path, entry_at, walk_entries
from engine.scheduling.address import places
from engine.scheduling.nodes import Leaf, Mark, Member, statements_of, walk
from engine.scheduling.nodes import Sequence as Sequenced
from engine.scheduling.rules import cut_parts

_TITLES = {
    "block": "Block along {}",
    "thread": "Elements of {} per thread",
    "tile": "Tile along {}",
    "stages": "Stages of {}",
    "vector": "Vector width",
    "lane": "Threads along {}",
    "warp": "Warps along {}",
    "slices": "Slices of {} in a block",
    "split_k": "Blocks that share {}",
}
_FIRST = {"vector": (2, 4), "warp": (8,), "lane": (32,), "tile": (32,), "split_k": (2, 4)}
"""What to try first of a mark that nobody has given."""
_CUTS = 8
_RECOMPUTED = 8
SPLIT = 4
"""Factor tried of a split where no threads share the dimension."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step to try; one with `why_not` is known to be impossible."""

    kind: str
    title: str
    statements: tuple[str, ...]
    change: AdviceChange
    order: tuple[str, ...] = ()
    """The dimensions of an interchange as they would be."""
    lines: tuple[str, ...] = ()
    """What it says, where that is not what it adds."""
    why_not: str = ""
    witness: str = ""


def candidates(now: Kernel) -> list[Candidate]:
    """Every step worth trying, the most promising kinds first."""
    marks, orders = (_numbers(now), _absent(now)), (_orders(now), _cuts(now), _joins(now), _parallel(now), _splits(now))
    return list(chain.from_iterable((*marks, *orders, _rewrites(now))))


def _numbers(now: Kernel) -> Iterator[Candidate]:
    """Marks that have a number, one step up and one step down."""
    for member, mark in strongest(now):
        assert isinstance(mark.value, int)
        old = entry_at(now.advice, mark.path)
        own = mark.author == "user"
        gone: tuple[Path, ...] = (mark.path,) if own else ()
        for value in _steps(mark.name, mark.value):
            new = replace(old, value=(mark.name, value), required=own and old.required, because="")
            title = f"{_what(now, mark.name, member)} {mark.value} → {value}"
            yield Candidate(mark.name, title, old.statements, AdviceChange((new,), gone))


def strongest(now: Kernel) -> list[tuple[Member, Mark]]:
    """The marks with a number that the kernel goes by: the first author's, where dimensions have their own of each."""
    own = members_of(places(now.schedule.root))
    unread = {path for path, note in now.tile.notes.items() if not note.value}
    marks = [(member, mark) for member in own for mark in member.marks if mark.path not in unread]
    by_dimension = _menu(now).by_dimension
    found: dict[tuple[str, str], tuple[Member, Mark]] = {}
    for member, mark in sorted(marks, key=lambda pair: AUTHORS.index(pair[1].author)):
        where = member.name if by_dimension else ""
        if isinstance(mark.value, int):
            found.setdefault((mark.name, where), (member, mark))
    return [pair for pair in found.values() if pair[1].name in _TITLES]


def _steps(name: str, value: int) -> tuple[int, ...]:
    step = (value + 1, value - 1) if name == "stages" else (value * 2, value // 2)
    return tuple(v for v in step if v >= 1)


def _what(now: Kernel, name: str, member: Member) -> str:
    return _menu(now).titles.get(name, _TITLES[name]).format(member.name)


def _menu(now: Kernel) -> MarkMenu:
    return maker_of(now).menu(now.group)


def _absent(now: Kernel) -> Iterator[Candidate]:
    """Marks that the kernel could take and nobody has given."""
    given = {mark.name for _, mark in strongest(now)}
    statements = now.program.statements
    anchor = next((s for s in statements if s.reduction), statements[-1])
    where = places(now.schedule.root)[anchor.name].members
    for name in _menu(now).offered:
        if name in given or not where:
            continue
        for value in _FIRST.get(name) or _twice_and_half(now, name):
            entry = Entry((anchor.name,), "innermost", "mark", (name, value))
            title = f"{_what(now, name, where[-1])} {value}"
            yield Candidate(name, title, (anchor.name,), AdviceChange((entry,)))


def _twice_and_half(now: Kernel, name: str) -> tuple[int, int]:
    """Twice and half the threads of a block, or what it does now."""
    if name == "thread":
        return now.facts.threads * 2, max(1, now.facts.threads // 2)
    points = max(math.prod(s.extents.values()) for s in now.program.statements)
    each = 1 << (-(-points // now.facts.blocks) - 1).bit_length()
    return each * 2, max(1, each // 2)


def _orders(now: Kernel) -> Iterator[Candidate]:
    """Interchanges of two dimensions, one directly inside the other."""
    where = places(now.schedule.root)
    for outer, inner in neighbours(where):
        entries = pins(where, (inner, outer))
        if entries:
            statements = tuple(dict.fromkeys(s for entry in entries for s in entry.statements))
            gone = pins_of_user(now.advice, statements)
            title = f"Interchange {outer} and {inner}"
            yield Candidate("order", title, statements, AdviceChange(entries, gone), (inner, outer))


def pins_of_user(advice: Sequence[Advice], statements: Collection[str]) -> tuple[Path, ...]:
    """Where the user has pinned some of these statements already: a new order takes the place of the old one."""
    return tuple(
        path
        for path, author, entry in walk_entries(advice)
        if author == "user" and entry.enabled and entry.field == "pin"
        if not entry.statements or set(entry.statements) & {*statements}
    )


def _cuts(now: Kernel) -> Iterator[Candidate]:
    """Distributions of a loop between two of its statements, and of all loops around the first of a sequence."""
    leaves = [node.statements for node in walk(now.schedule.root) if isinstance(node, Leaf)]
    between = [(leaf[:k], leaf[k:]) for leaf in leaves for k in range(1, len(leaf))]
    for before, after in between[:_CUTS]:
        entry = Entry((), "innermost", "cut", (before, after))
        yield Candidate("cut", f"Cut between {before[-1]} and {after[0]}", (*before, *after), AdviceChange((entry,)))
    order = statements_of(now.schedule.root)
    sequences = [node for node in walk(now.schedule.root) if isinstance(node, Sequenced)]
    whole = statements_of(sequences[0].children[0]) if sequences else ()
    if whole and len(whole) < len(order):
        entry = Entry((), "outermost", "cut", (whole, order[len(whole) :]))
        yield Candidate("cut", f"Cut all loops after {whole[-1]}", order, AdviceChange((entry,)))


def _joins(now: Kernel) -> Iterator[Candidate]:
    """Cuts that an entry asks for and that can be left out, then neighbours that a dependence keeps apart."""
    for path, _, entry in walk_entries(now.advice):
        if entry.enabled and entry.field == "cut":
            text = str(entry).partition(": cut ")[2]
            off = str(replace(entry, enabled=False))
            named = tuple(name for part in cut_parts(entry.value) for name in part)
            yield Candidate("join", f"Join {text}", named, AdviceChange((), off=(path,)), lines=(off,))
    for node in walk(now.schedule.root):
        for a, b in zip(node.children, node.children[1:], strict=False) if isinstance(node, Sequenced) else ():
            found = why_loops_apart(now.program, now.dependences, now.schedule, a, b)
            if found is not None:
                names = (*statements_of(a), *statements_of(b))
                title = f"Join {' '.join(statements_of(a))} with {' '.join(statements_of(b))}"
                broken = f"breaks the {found.dependence}"
                yield Candidate("join", title, names, AdviceChange(()), why_not=broken, witness=found.text)


def _parallel(now: Kernel) -> Iterator[Candidate]:
    """Each dimension in parallel where it runs in order, and in order where it runs in parallel."""
    where = places(now.schedule.root)
    for name in dimension_names(where):
        own = members_of(where, name)
        for flag in (True, False):
            chosen = [m for m in own if m.parallel is not flag]
            names = tuple(dict.fromkeys(s for m in chosen for s in m.rows))
            if not names or (not flag and len(chosen) < len(own)):
                continue
            entry = Entry(names, name, "parallel", flag)
            title = f"Run {name} in parallel" if flag else f"Run {name} in order"
            yield Candidate("parallel", title, names, AdviceChange((entry,)))


def _splits(now: Kernel) -> Iterator[Candidate]:
    """Innermost dimensions in two loops."""
    where = places(now.schedule.root)
    if any(mark.name == "split" for m in members_of(where) for mark in m.marks):
        return
    # In reverse, so that of several statements under one dimension the first one is named.
    named = {p.members[-1].name: (p.members[-1], s) for s, p in reversed(where.items()) if p.members}
    for name, (member, statement) in reversed(named.items()):
        size = _half(now, member)
        change = AdviceChange((Entry((statement,), "innermost", "split", size),))
        yield Candidate("split", f"Split {name} by {size}", (statement,), change)


def _rewrites(now: Kernel) -> Iterator[Candidate]:
    """Values that their readers compute again, and that are read from where they are kept again."""
    for path, _, entry in walk_entries(now.advice):
        match entry.field, entry.value:
            case "rewrite", (_, str() as consumer) if entry.enabled:
                off = str(replace(entry, enabled=False))
                title, names = f"Keep {entry.statements[0]} for {consumer}", (*entry.statements, consumer)
                yield Candidate(RECOMPUTE, title, names, AdviceChange((), off=(path,)), lines=(off,))
    statements = now.program.statements
    pairs = [(a, b) for a in statements for b in statements if any(r.array == a.write.array for r in b.reads())]
    again = [(made, reader) for made, reader in pairs if made is not reader and made.reduction is None]
    for made, reader in again[:_RECOMPUTED]:
        entry = Entry((made.name,), "", "rewrite", (RECOMPUTE, reader.name))
        names = (made.name, reader.name)
        yield Candidate(RECOMPUTE, f"Recompute {made.name} in {reader.name}", names, AdviceChange((entry,)))


def _half(now: Kernel, member: Member) -> int:
    """Half of a dimension that threads share, in whole turns of theirs; `SPLIT` of one that no threads share."""
    shares = {mark.name: mark.value for _, mark in strongest(now) if mark.name in ("lane", "warp", "vector")}
    turn = math.prod(int(value) for value in shares.values())
    if not shares.keys() & {"lane", "warp"} or turn >= member.extent:
        return SPLIT
    return max(1, member.extent // 2 // turn) * turn
