"""Repairs of a conflict between required entries: single changes, each verified by a new solve before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from engine.recipe import ASSOCIATIVE, RECOMPUTE, Advice, Entry, entry_at, replace_entry, with_entries
from engine.rewrite.apply import apply
from engine.scheduling.integer import OutOfTime
from engine.scheduling.nodes import (
    CUT,
    RELAX,
    REPLACE,
    REWRITE,
    SWITCH_OFF,
    Conflict,
    ConstraintNode,
    ConstraintTree,
    PlacedEntry,
    Repair,
)
from engine.scheduling.rules import ScheduleRule, cut_parts
from engine.support.errors import BadInput, OverBudget, Unsupported
from engine.tensor.nodes import Statement, TensorProgram

Retry = Callable[[TensorProgram, ConstraintTree], tuple[PlacedEntry, ...]]
"""Solves again and returns the entries that still conflict, none on success.  May raise OverBudget."""

REASON = "entries that are required conflict without it"
"""Reason recorded in a rewrite that is offered as a repair."""
_STATEMENTS = 12
"""Largest number of statements of an entry for which narrower entries are tried."""
_RECOMPUTED = 2
"""Largest number of recompute repairs tried if no broken dependence is known; each needs a solve of its own."""


def fewest(
    last: ScheduleRule, kept: Sequence[ScheduleRule], hold: Callable[[Sequence[ScheduleRule]], bool]
) -> tuple[tuple[ScheduleRule, ...], bool]:
    """A minimal set of rules that cannot hold together (an irreducible infeasible subset): some of `kept`, with `last`
    at the end; and whether it is minimal.

    `kept` can hold without `last`, so every conflict contains it.  None or one other rule is found as such; beyond that
    rules are left out one after the other, soft ones and late ones first, until none can be spared.  When `hold` runs
    out of time, the smallest set so far is returned.
    """
    left = list(kept)
    try:
        if not kept or not hold((last,)):
            return (last,), True
        single = next((other for other in kept if not hold((other, last))), None)
        if single is not None:
            return (single, last), True
        soft_first = sorted(range(len(kept)), key=lambda n: (kept[n].placed.entry.required, -n))
        for other in (kept[n] for n in soft_first):
            without = [rule for rule in left if rule is not other]
            if not hold((*without, last)):
                left = without
    except OutOfTime:
        return (*left, last), False
    return (*left, last), True


def with_repairs(conflict: Conflict, program: TensorProgram, tree: ConstraintTree, retry: Retry) -> Conflict:
    """The conflict with every repair that was verified, the smallest loss first."""
    found = tuple(_try_repairs(conflict, program, tree, retry))
    hint = f"for example: {found[0].text}" if found else conflict.hint
    repaired = Conflict(conflict.subject, conflict.reason, hint, conflict.verdicts, conflict.conflicting, found)
    repaired.is_final = conflict.is_final
    return repaired


def repair_advice(advice: Sequence[Advice], repair: Repair) -> tuple[Advice, ...]:
    """The advice of a group after a repair."""
    if repair.placed is None:
        return with_entries(advice, "user", (repair.entry,))
    kept = (entry_at(advice, repair.placed.path),) if repair.added else ()
    return replace_entry(advice, repair.placed.path, *kept, repair.entry)


def _try_repairs(conflict: Conflict, program: TensorProgram, tree: ConstraintTree, retry: Retry) -> Iterator[Repair]:
    def left_after(repair: Repair) -> tuple[PlacedEntry, ...]:
        changed = apply(program, repair.entry) if repair.kind == REWRITE else program
        return retry(changed, _apply_repair(tree, repair))

    return helpful(_proposals(conflict, program), conflict.conflicting, left_after)


def helpful(
    proposals: Iterable[Repair],
    conflicting: Sequence[PlacedEntry],
    left_after: Callable[[Repair], tuple[PlacedEntry, ...]],
) -> Iterator[Repair]:
    """The proposals that resolve a conflict, and relaxations after which only another conflict is left.

    left_after: tries a repair and tells which entries conflict then; it may raise BadInput, Unsupported, OverBudget.
    """
    before = {placed.path for placed in conflicting}
    split = False
    for repair in proposals:
        if repair.added and split:
            continue  # one place to split is enough
        try:
            left = left_after(repair)
        except (BadInput, Unsupported, OverBudget):
            continue  # a change that cannot be made, or not be solved in time, is none to offer
        if not left:
            split = split or repair.added
            yield repair
        elif {placed.path for placed in left} != before:
            names = ", ".join(f"“{placed.entry}”" for placed in left)
            if repair.kind in (RELAX, SWITCH_OFF):
                yield replace(repair, text=f"{repair.text} (then {names} still cannot hold)", leaves=left)


def _proposals(conflict: Conflict, program: TensorProgram) -> Iterator[Repair]:
    conflicting = conflict.conflicting
    for placed in conflicting:
        yield from _split_here(placed, program)
    yield from _associative(conflicting, program)
    yield from _recompute_pairs(conflict, program)
    yield from _cut_between(conflicting, program)
    for placed in conflicting:
        yield from _narrower(placed, program)
    yield from losses(conflicting)


def losses(conflicting: Sequence[PlacedEntry]) -> Iterator[Repair]:
    """Repairs that lose an entry: made optional first, then switched off."""
    for placed in conflicting:
        if placed.entry.required:
            soft = replace(placed.entry, required=False)
            yield Repair(RELAX, f"make “{soft}” optional", soft, placed)
    for placed in conflicting:
        off = replace(placed.entry, enabled=False)
        yield Repair(SWITCH_OFF, f"switch off “{placed.entry}”", off, placed)


def _associative(conflicting: Sequence[PlacedEntry], program: TensorProgram) -> Iterator[Repair]:
    """Rewrites that declare reductions associative, for statements that the entries name."""
    for statement in _spoken_of(conflicting, program):
        if statement.reduction is not None and not statement.reduction.associative:
            text = f"let {statement.name} add the terms of {statement.write.array} in any order"
            yield Repair(REWRITE, text, Entry((statement.name,), "", "rewrite", (ASSOCIATIVE,), because=REASON))


def _recompute_pairs(conflict: Conflict, program: TensorProgram) -> Iterator[Repair]:
    """Rewrites that recompute a value in its reader, which removes the dependence between the two.

    Those that the verdicts name as broken; where they name none, the first few.
    """
    spoken = _spoken_of(conflict.conflicting, program)
    broken = {(v.witness.dependence.source, v.witness.dependence.sink) for v in conflict.verdicts if v.witness}
    pairs = [
        (made, reader)
        for reader in spoken
        for made in spoken
        if made.reduction is None and any(a.array == made.write.array for a in reader.reads())
    ]
    named = [(made, reader) for made, reader in pairs if (made.name, reader.name) in broken]
    for made, reader in named or pairs[:_RECOMPUTED]:
        text = f"let {reader.name} compute {made.write.array} again, without waiting for {made.name}"
        wish = Entry((made.name,), "", "rewrite", (RECOMPUTE, reader.name), because=REASON)
        yield Repair(REWRITE, text, wish)


def _spoken_of(conflicting: Sequence[PlacedEntry], program: TensorProgram) -> list[Statement]:
    """The statements that some entries name; all of them where one names none."""
    named = {name for placed in conflicting for name in placed.entry.statements}
    everything = any(not placed.entry.statements for placed in conflicting)
    return [s for s in program.statements if everything or s.name in named]


def _split_here(placed: PlacedEntry, program: TensorProgram) -> Iterator[Repair]:
    """Other parts for a cut: the same ones in the order of the text; else cut wherever the text changes part."""
    if placed.entry.field != "cut":
        return
    position = {s.name: k for k, s in enumerate(program.statements)}
    parts = [tuple(n for n in part if n in position) for part in cut_parts(placed.entry.value)]
    in_order = tuple(sorted(filter(None, parts), key=lambda part: min(map(position.__getitem__, part))))
    part_of = {name: number for number, part in enumerate(parts) for name in part}
    runs = tuple(tuple(run) for _, run in groupby(sorted(part_of, key=position.__getitem__), key=part_of.__getitem__))
    for value in dict.fromkeys((in_order, runs)):
        if len(value) > 1 and value != placed.entry.value:
            other = replace(placed.entry, value=value)
            yield Repair(CUT, f"split in the order of the dependences: “{other}”", other, placed)


def _cut_between(conflicting: Sequence[PlacedEntry], program: TensorProgram) -> Iterator[Repair]:
    """Cuts next to a statement that the entries name, inside the loops that all share before outside them.

    It gives statements loops of their own, and so dimensions that some entry may be waiting for.
    """
    names = [s.name for s in program.statements]
    named = {name for placed in conflicting for name in placed.entry.statements or names}
    places = [k for k in range(1, len(names)) if named & set(names[k - 1 : k + 1])]
    if len(places) > _STATEMENTS or any(placed.entry.field == "cut" for placed in conflicting):
        return
    for dimension in ("innermost", "outermost"):
        for k in places:
            cut = Entry((), dimension, "cut", (tuple(names[:k]), tuple(names[k:])), required=True)
            yield Repair(CUT, f"split here: “{cut}”", cut, conflicting[-1], added=True)


def _narrower(placed: PlacedEntry, program: TensorProgram) -> Iterator[Repair]:
    """The entry without one of its statements."""
    entry = placed.entry
    names = entry.statements or tuple(s.name for s in program.statements)
    if entry.field not in ("pin", "parallel") or not 1 < len(names) <= _STATEMENTS:
        return
    for name in names:
        other: Entry = replace(entry, statements=tuple(n for n in names if n != name))
        yield Repair(REPLACE, f"leave {name} out: “{other}”", other, placed)


def _apply_repair(tree: ConstraintTree, repair: Repair) -> ConstraintTree:
    """The constraint tree after a repair of an entry."""
    if repair.placed is None:
        return tree
    *place, number = repair.placed.path
    new = replace(repair.placed, entry=repair.entry)
    if repair.added:
        new = replace(new, path=(*place, -1 - number))  # no other entry's

    def change_node(node: ConstraintNode) -> ConstraintNode:
        entries: list[PlacedEntry] = []
        for placed in node.entries:
            is_meant = placed.path == (*place, number)
            entries += [placed] if repair.added or not is_meant else []
            entries += [new] if is_meant and new.entry.enabled else []
        return ConstraintNode(tuple(entries), tuple(map(change_node, node.children)))

    rewrites = tuple(v for v in tree.rewrites if repair.added or v.placed.path != repair.placed.path)
    return replace(tree, root=change_node(tree.root), rewrites=rewrites)
