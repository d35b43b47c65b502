"""Apply the rewrites in a group's advice in order, with a verdict for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.recipe import ASSOCIATIVE, AUTHORS, ONLINE, RECOMPUTE, Advice, Entry
from engine.rewrite.associative import associative
from engine.rewrite.online import online
from engine.rewrite.recompute import recompute
from engine.scheduling.nodes import HONOURED, INFEASIBLE, PlacedEntry, Verdict
from engine.support.errors import BadInput, Unsupported
from engine.tensor.nodes import TensorProgram


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The program after the requested rewrites."""

    program: TensorProgram
    verdicts: tuple[Verdict, ...] = ()
    """One verdict per rewrite; a rewrite that cannot be made leaves the program unchanged."""


def rewritten(program: TensorProgram, advice: Sequence[Advice]) -> Rewritten:
    """Make the rewrites of a group's advice, the user's first, those of one author in their order.

    The scheduler refuses a program of which a required one could not be made.
    """
    verdicts: list[Verdict] = []
    for placed in _requested_rewrites(advice):
        try:
            changed = apply(program, placed.entry)
        # What does not fit is reported and the rest still made: the scheduler knows whether it was required.
        except (BadInput, Unsupported) as error:
            verdicts.append(Verdict(placed, INFEASIBLE, error.reason))
            continue
        verdicts.append(Verdict(placed, HONOURED, _change(program, changed, placed.entry)))
        program = changed
    return Rewritten(program, tuple(verdicts))


def apply(program: TensorProgram, entry: Entry) -> TensorProgram:
    """The program after one rewrite.  BadInput or Unsupported, saying why, where it cannot be made."""
    match entry.value:
        case (kind,) if kind == ASSOCIATIVE:
            return associative(program, entry.statements[0])
        case (kind,) if kind == ONLINE:
            return online(program, entry.statements[0])
        case (kind, str() as consumer) if kind == RECOMPUTE:
            return recompute(program, entry.statements[0], consumer)
        case _:
            raise BadInput("rewrite", str(entry), "is not known")


def _requested_rewrites(advice: Sequence[Advice]) -> list[PlacedEntry]:
    """Every enabled rewrite with its place.  Rewrites stand only at the root of an author's advice."""
    ranked = sorted(enumerate(advice), key=lambda item: AUTHORS.index(item[1].author))
    return [
        PlacedEntry(entry, one.author, (number, at))
        for number, one in ranked
        for at, entry in enumerate(one.scenario.entries)
        if entry.field == "rewrite" and entry.enabled
    ]


def _change(before: TensorProgram, after: TensorProgram, entry: Entry) -> str:
    """What a rewrite changed, for its verdict."""
    name = entry.statements[0]
    if entry.value == (ONLINE,):
        left = {s.name for s in after.statements}
        gone = ", ".join(s.name for s in before.statements if s.name not in left)
        return f"{name} needs no pass for the maximum" + (f"; nobody needs {gone} any more" if gone else "")
    if len(after.statements) < len(before.statements):
        return f"nobody reads {before.statement(name).write.array} any more: {name} is gone"
    if entry.value == (ASSOCIATIVE,):
        return "it was so already" if after == before else f"the terms of {name} come in any order"
    return f"{name} stays: its result is read elsewhere"
