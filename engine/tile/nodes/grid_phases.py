"""Phases of a launch between which all its blocks meet; neighbours that do the same are written once, as a loop.

    h1 = f(h0); meet; h2 = f(h1); meet; h3 = f(h2)   ->   for (phase ...) { if (phase > 0) grid_barrier(...); ... }
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.support.values import cached_property, value
from engine.tensor.index import Index
from engine.tile.nodes.alike_texts import AlikeTexts, alike_runs
from engine.tile.nodes.control import GridBarrier
from engine.tile.nodes.operation import Body, TileOp
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import NOWHERE, Line

PHASE = "phase"
"""The variable that counts phases that are written once."""


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
        number = 0
        for run in alike_runs(out, [(None, work) for work in self.works], may_grow=True):
            self._write_run(out, run, number)
            number += len(run.texts)

    def _write_run(self, out: CudaWriter, run: AlikeTexts, number: int) -> None:
        """Phases that are alike.  number: of the first of them."""
        count = len(run.texts)
        if count == 1:
            if number:
                self._write_meeting(out, Index((), number - 1))
            with out.block("{", self.at):
                out.append(run.texts[0])
            return
        with out.block(f"for (int {PHASE} = 0; {PHASE} < {count}; ++{PHASE}) {{", self.at):
            out.extents[PHASE] = count
            before = Index.of(PHASE) + (number - 1)
            if number:
                self._write_meeting(out, before)
            else:
                with out.block(f"if ({PHASE} > 0) {{", self.at):
                    self._write_meeting(out, before)
            for accessor in run.accessors(out, PHASE):
                out.line(accessor, self.at)
            out.append(run.together(PHASE))

    def _write_meeting(self, out: CudaWriter, number: Index) -> None:
        barrier = self.phases[1][0]
        assert isinstance(barrier, GridBarrier)
        GridBarrier(barrier.counters, number, barrier.of, barrier.at).write(out)
