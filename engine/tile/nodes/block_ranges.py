"""Ranges of a launch's blocks that do different things; neighbours that do the same are written once.

    two parts of 16 blocks, y = a @ x and z = a @ w    ->    part = block / 16, Global factor(part == 0 ? x_ : w_), ...

Products of one launch with as many columns differ in their arrays alone.
"""

from __future__ import annotations

from engine.support.values import cached_property, value
from engine.tile.nodes.alike_texts import AlikeTexts, alike_runs, text_of
from engine.tile.nodes.operation import Body, TileOp
from engine.tile.nodes.values import BLOCK
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import NOWHERE, Line

PART = "block_part"
"""The variable that says which of several parts a block belongs to."""


@value(frozen=True, slots=True)
class BlockRanges(TileOp):
    """Ranges of the launch's blocks that do different things; inside, `block` counts from the start of its range."""

    parts: tuple[tuple[int, tuple[TileOp, ...]], ...]
    """(blocks, what they do), in the order of the ranges."""
    at: Line = NOWHERE

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(Body(body, blocks=blocks) for blocks, body in self.parts)

    def write(self, out: CudaWriter) -> None:
        runs = alike_runs([(blocks, text_of(out, body)) for blocks, body in self.parts])
        start = first = 0
        for number, run in enumerate(runs):
            blocks, is_last = self.parts[first][0], number == len(runs) - 1
            end = start + blocks * len(run.texts)
            condition = "" if is_last else f"if (blockIdx.x < {end}) "
            head = f"{'} else ' if number else ''}{condition}{{"
            with out.block(head, self.at, tail="}" if is_last else ""):
                _write_run(out, run, blocks, start, self.at)
            start, first = end, first + len(run.texts)


def _write_run(out: CudaWriter, run: AlikeTexts, blocks: int, start: int, at: Line) -> None:
    """The text of the first part, for all of a run.  blocks: of each.  start: the first block of the run."""
    own = f"blockIdx.x - {start}" if start else "blockIdx.x"
    if len(run.texts) > 1:
        out.line(f"// {len(run.texts)} parts of the launch that differ in their arrays alone", at)
        number = f"({own})" if start else own
        out.line(f"const int {PART} = {number} / {blocks};", at)
        own = f"{number} % {blocks}"
    if own != "blockIdx.x":
        out.line(f"const int {BLOCK} = {own};", at)
    for accessor in run.accessors(out, PART):
        out.line(accessor, at)
    out.append(run.together(PART))
