"""Ranges of a launch's blocks that do different things; neighbours that do the same are written once.

    two parts of 16 blocks, y = a @ x and z = a @ w    ->    part = block / 16, Global factor(part == 0 ? x_ : w_), ...

Products of one launch with as many columns differ in their arrays alone.  Written once, two take a compiler half of the
time, and their instructions half of the room in the caches that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from engine.support.values import cached_property, value
from engine.tile.nodes.expressions import STORED
from engine.tile.nodes.operation import Body, TileOp
from engine.tile.nodes.values import BLOCK
from engine.tile.nodes.writer import NAMES, CudaWriter
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
        runs = _runs(out, self.parts)
        start = 0
        for number, run in enumerate(runs):
            is_last = number == len(runs) - 1
            end = start + run.blocks * len(run.texts)
            condition = "" if is_last else f"if (blockIdx.x < {end}) "
            head = f"{'} else ' if number else ''}{condition}{{"
            with out.block(head, self.at, tail="}" if is_last else ""):
                run.write(out, start, self.at)
            start = end


@dataclass(frozen=True, slots=True)
class _AlikeParts:
    """Neighbouring parts of as many blocks each, whose texts differ in names alone."""

    blocks: int
    """Of each part."""
    texts: list[CudaWriter]
    names: list[Mapping[str, str]]
    """What each part calls the names of the first."""

    def write(self, out: CudaWriter, start: int, at: Line) -> None:
        """The text of the first part, for all of them."""
        first = self.texts[0]
        own = f"blockIdx.x - {start}" if start else "blockIdx.x"
        if len(self.texts) > 1:
            out.line(f"// {len(self.texts)} parts of the launch that differ in their arrays alone", at)
            number = f"({own})" if start else own
            out.line(f"const int {PART} = {number} / {self.blocks};", at)
            own = f"{number} % {self.blocks}"
        if own != "blockIdx.x":
            out.line(f"const int {BLOCK} = {own};", at)
        for name in first.buffers:
            pointers = [called.get(name, name) for called in self.names]
            if len(set(pointers)) > 1 and first.buffers[name].scope == "global":
                out.line(_accessor(out, name, pointers), at)
        lines = list(starmap(_together, zip(*(text.lines for text in self.texts), strict=True)))
        spans = [span for text in self.texts for span in text.spans]
        out.append(replace(first, lines=lines, spans=spans))


def _runs(out: CudaWriter, parts: Sequence[tuple[int, tuple[TileOp, ...]]]) -> list[_AlikeParts]:
    """Every part's text, those that differ from the one before in names alone together with it."""
    runs: list[_AlikeParts] = []
    for blocks, body in parts:
        text = CudaWriter(out.buffers, out.forms, depth=out.depth + 1, extents=out.extents)
        text.body(body)
        last = runs[-1] if runs and runs[-1].blocks == blocks else None
        called = _renaming(last.texts[0], text) if last else None
        if last is None or called is None:
            runs.append(_AlikeParts(blocks, [text], [{}]))
        else:
            last.texts.append(text)
            last.names.append(called)
    return runs


def _renaming(first: CudaWriter, other: CudaWriter) -> Mapping[str, str] | None:
    """What another text calls the buffers and variables of the first; None where it differs in anything else."""
    if len(first.text) != len(other.text):
        return None
    called: dict[str, str] = {}
    for mine, theirs in zip(first.text, other.text, strict=True):
        if mine.lstrip().startswith("//") and theirs.lstrip().startswith("//"):
            continue
        a, b = NAMES.split(mine), NAMES.split(theirs)
        # Every second piece is a name; a line of as many pieces has them in the same places.
        if len(a) != len(b) or a[::2] != b[::2]:
            return None
        for x, y in zip(a[1::2], b[1::2], strict=True):
            if called.setdefault(x, y) != y or not (x == y or _are_alike(first, x, y)):
                return None
    return called if len(set(called.values())) == len(called) else None


def _are_alike(text: CudaWriter, x: str, y: str) -> bool:
    """Whether one name may stand for another: both are buffers of one kind, or variables."""
    if x in text.buffers and y in text.buffers:
        kinds = [(b.scope, b.dtype, b.shape, b.name in text.forms.changed) for b in map(text.buffers.get, (x, y)) if b]
        return kinds[0] == kinds[1]
    if x in text.extents and y in text.extents:
        return True
    # What an operation writes for itself has a name of its buffer's, as `sums_pack`.
    (a, _, what), (b, _, other) = x.rpartition("_"), y.rpartition("_")
    return what == other and a in text.buffers and b in text.buffers and _are_alike(text, a, b)


def _accessor(out: CudaWriter, name: str, pointers: Sequence[str]) -> str:
    """The declaration of an array that each part has of its own."""
    *others, last = (f"{pointer}_" for pointer in pointers)
    chosen = "".join(f"{PART} == {n} ? {pointer} : " for n, pointer in enumerate(others)) + last
    buffer = out.buffers[name]
    const = "" if name in out.forms.changed else "const "
    return f"const Global<{const}{STORED[buffer.dtype]}> {name}({chosen}, {buffer.elements});  // {', '.join(pointers)}"


def _together(*lines: Line) -> Line:
    """What stands behind a line of several parts."""
    return Line(
        tuple(dict.fromkeys(s for line in lines for s in line.statements)),
        tuple(dict.fromkeys(d for line in lines for d in line.dimensions)),
    )
