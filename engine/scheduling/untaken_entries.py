"""Required entries that the order allows and the kernel does not take as given: refused, with what it would take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from engine.recipe import Advice
from engine.scheduling.conflict import helpful, losses, repaired
from engine.scheduling.nodes import INFEASIBLE, RELAXED, REPLACE, Conflict, Placed, Repair, Verdict
from engine.scheduling.text import entry_text

Path = tuple[int, ...]
Compile = Callable[[tuple[Advice, ...]], Sequence[Verdict]]
"""The verdicts of a kernel under other advice for its group.  May raise EngineError."""


class NotTaken(Conflict):
    """A required entry that no dependence and no other entry excludes, but that the kernel takes otherwise or not."""


def not_taken(verdicts: Sequence[Verdict]) -> tuple[Placed, ...]:
    """The required entries that a kernel does not take as given."""
    return tuple(v.placed for v in verdicts if v.outcome == RELAXED and v.placed.entry.required)


def refusal(
    verdicts: Sequence[Verdict], advice: Sequence[Advice], taken: Mapping[Path, str], compiled: Compile
) -> NotTaken:
    """The error for the first required entry that a kernel does not take, with every change found to resolve it.

    taken: path of an entry -> the number that the kernel has in place of the asked one, where it has any.
    """
    missed = not_taken(verdicts)
    first = missed[0]

    def left_after(repair: Repair) -> tuple[Placed, ...]:
        try:
            return not_taken(compiled(repaired(advice, repair)))[:1]
        except Conflict as conflict:
            return conflict.conflicting

    found = tuple(helpful(_proposals(first, taken.get(first.path, "")), (first,), left_after))
    because = next(v.because for v in verdicts if v.placed == first)
    hint = f"for example: {found[0].text}" if found else "make it soft or switch it off"
    final = tuple(replace(v, outcome=INFEASIBLE) if v.placed in missed else v for v in verdicts)
    return NotTaken(entry_text(first.entry), because, hint, final, (first,), found)


def _proposals(placed: Placed, taken: str) -> Iterator[Repair]:
    """The number that the kernel takes, then the entry made soft or switched off."""
    value = placed.entry.value
    if taken.isdecimal() and isinstance(value, int | tuple):
        other = replace(placed.entry, value=(value[0], int(taken)) if isinstance(value, tuple) else int(taken))
        yield Repair(REPLACE, f"ask for what the kernel takes: “{entry_text(other)}”", other, placed)
    yield from losses((placed,))
