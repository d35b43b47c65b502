"""Phases of a launch between which all its blocks meet; neighbours that do the same are written once, as a loop.

    h1 = f(h0);  meet, h2 = f(h1);  meet, h3 = f(h2)   ->   { h1 = f(h0) }  for (phase ...) { grid_barrier(...); ... }
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.support.values import cached_property, value
from engine.tensor.index import Index
from engine.tile.nodes.alike_texts import AlikeTexts, alike_runs, text_of
from engine.tile.nodes.control import GridBarrier
from engine.tile.nodes.operation import Body, TileOp
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import NOWHERE, Line

PHASE = "phase"
"""The variable that counts phases that are written once."""
IN_TURN = (1, 2, 3)
"""How many kinds of phases may follow each other in turn."""


@value(frozen=True, slots=True)
class GridPhases(TileOp):
    """What all blocks do one after the other, meeting before every phase but the first."""

    phases: tuple[tuple[TileOp, ...], ...]
    """All but the first begin with a `GridBarrier`."""
    statements: tuple[tuple[str, ...], ...]
    """Those that each phase runs."""
    at: Line = NOWHERE

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(Body(phase) for phase in self.phases)

    @property
    def works(self) -> tuple[tuple[TileOp, ...], ...]:
        """The phases without their meetings."""
        first, *others = self.phases
        return (first, *(phase[1:] for phase in others))

    @classmethod
    def with_meetings(cls, works: Sequence[tuple[tuple[TileOp, ...], tuple[str, ...]]], counters: str) -> GridPhases:
        """Phases with a meeting between each two.  works: (operations, the statements that they run).  counters: the
        workspace of one counter."""
        first, *others = (work for work, _ in works)
        phases = ((GridBarrier(counters, Index((), n), len(others)), *work) for n, work in enumerate(others))
        return cls((first, *phases), tuple(statements for _, statements in works))

    def write(self, out: CudaWriter) -> None:
        for run in min((self._runs(out, every) for every in IN_TURN), key=_lines):
            count = len(run.texts)
            head = f"for (int {PHASE} = 0; {PHASE} < {count}; ++{PHASE}) {{" if count > 1 else "{"
            with out.block(head, self.at):
                for accessor in run.accessors(out, PHASE):
                    out.line(accessor, self.at)
                out.append(run.together(PHASE))

    def _runs(self, out: CudaWriter, every: int) -> list[AlikeTexts]:
        """The first phase, then the others, so many together, as texts of which alike ones are one."""
        first, *others = self.phases
        rounds = [others[n : n + every] for n in range(0, len(others), every)]
        return alike_runs([(None, text_of(out, *phases)) for phases in ([first], *rounds)], may_grow=True)


def _lines(runs: Sequence[AlikeTexts]) -> int:
    """That are written of runs, with the braces of each."""
    return sum(2 + len(run.texts[0].text) for run in runs)
