"""Legal schedules that code generation refuses: no kernel follows the order, or a required entry is not honoured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from engine.recipe import Advice
from engine.scheduling.conflict import helpful, losses, repair_advice
from engine.scheduling.nodes import INFEASIBLE, RELAXED, REPLACE, Conflict, PlacedEntry, Repair, Scheduled, Verdict
from engine.support.errors import Unsupported
from engine.tensor.nodes import TensorProgram

Path = tuple[int, ...]
Compile = Callable[[tuple[Advice, ...]], Sequence[Verdict]]
"""The verdicts of a kernel under other advice for its group.  May raise EngineError; OverBudget without time."""


class NoKernel(Unsupported):
    """A legal schedule that satisfies every required entry but that no kernel family can lower; `reason` and `hint`
    come from the lowering."""

    def __init__(self, refused: Unsupported, program: TensorProgram, scheduled: Scheduled) -> None:
        super().__init__(refused.stage, refused.subject, refused.reason, refused.hint)
        self.program = program
        self.scheduled = scheduled


class NotTaken(Conflict):
    """A required entry that can be scheduled but that code generation cannot honour.

    The schedule is legal: the refusal is the kernel's.
    """

    def __init__(
        self,
        first: PlacedEntry,
        because: str,
        program: TensorProgram,
        scheduled: Scheduled,
        repairs: tuple[Repair, ...],
        is_final: bool = True,
    ) -> None:
        hint = f"for example: {repairs[0].text}" if repairs else "make it optional or switch it off"
        super().__init__(str(first.entry), because, hint, scheduled.verdicts, (first,), repairs)
        self.is_final = is_final
        self.program = program
        self.scheduled = scheduled


def not_taken(verdicts: Sequence[Verdict]) -> tuple[PlacedEntry, ...]:
    """Required entries that a kernel does not honour."""
    return tuple(v.placed for v in verdicts if v.outcome == RELAXED and v.placed.entry.required)


def refusal(
    program: TensorProgram,
    scheduled: Scheduled,
    advice: Sequence[Advice],
    taken: Mapping[Path, str],
    compiled: Compile | None,
) -> NotTaken:
    """The error for the first required entry that a kernel does not honour, with every verified repair.

    scheduled: the legal schedule of the program, with the verdicts after lowering.  taken: path of an entry -> the
    number that the kernel has in place of the asked one, where it has any.  compiled: None where no repair is tried.
    """
    verdicts = scheduled.verdicts
    missed = not_taken(verdicts)
    first = missed[0]

    def left_after(repair: Repair) -> tuple[PlacedEntry, ...]:
        assert compiled is not None
        try:
            return not_taken(compiled(repair_advice(advice, repair)))[:1]
        except Conflict as conflict:
            return conflict.conflicting

    proposals = _proposals(first, taken.get(first.path, "")) if compiled else ()
    found = tuple(helpful(proposals, (first,), left_after))
    because = next(v.because for v in verdicts if v.placed == first)
    final = tuple(replace(v, outcome=INFEASIBLE) if v.placed in missed else v for v in verdicts)
    is_final = compiled is not None and all(v.is_final for v in verdicts)
    return NotTaken(first, because, program, replace(scheduled, verdicts=final), found, is_final)


def _proposals(placed: PlacedEntry, taken: str) -> Iterator[Repair]:
    """Repairs: the value that the kernel uses instead, then the entry made optional or switched off."""
    value = placed.entry.value
    if taken.isdecimal() and isinstance(value, int | tuple):
        other = replace(placed.entry, value=(value[0], int(taken)) if isinstance(value, tuple) else int(taken))
        yield Repair(REPLACE, f"ask for what the kernel takes: “{other}”", other, placed)
    yield from losses((placed,))
