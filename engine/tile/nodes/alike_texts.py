"""Parts of one kernel whose texts differ in names alone, or in numbers that grow evenly, written once for all of them.

    y.store(i, a.load(i));  z.store(i, b.load(i + 64))   ->   out.store(i, in.load(i + part * 64))

Written once, two take a compiler half of the time, and their instructions half of the room in the caches that hold
them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap

from engine.tile.nodes.expressions import STORED
from engine.tile.nodes.operation import TileOp
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import Line

OUTSIDE = ("global", "workspace")
"""Scopes of buffers that a kernel is given."""
_PIECES = re.compile(r"([A-Za-z_]\w*|\d+\.\w*|\d\w*)")
"""Words and numbers of CUDA text."""
_COUNT = re.compile(r"\d+")
_FIXED = re.compile(r"(\w<[^>]*|\[[^\]]*)$")
"""What stands before a number that the compiler must know: an argument of a template, or which register."""


@dataclass(slots=True)
class AlikeTexts:
    """Neighbouring parts whose texts are alike."""

    key: Hashable
    """What they have in common beside their text."""
    texts: list[CudaWriter]
    names: list[Mapping[str, str]] = field(default_factory=lambda: [{}])
    """What each part calls the names of the first."""
    growth: dict[tuple[int, int], int] = field(default_factory=dict)
    """(line, piece of it) that is a number -> by how much it grows from part to part."""

    def take_in(self, text: CudaWriter, may_grow: bool) -> bool:
        """Whether one more part is like these; it is one of them then.  may_grow: numbers from part to part."""
        number = len(self.texts)
        compared = _compare(self.texts[0], text)
        if compared is None:
            return False
        called, grown = compared
        growth = {place: by // number for place, by in grown.items() if by % number == 0}
        if len(growth) < len(grown) or (grown and not may_grow) or (number > 1 and growth != self.growth):
            return False
        self.texts.append(text)
        self.names.append(called)
        self.growth = growth
        return True

    def accessors(self, out: CudaWriter, part: str) -> Iterator[str]:
        """Declarations of the arrays that each part has of its own.  part: the variable that says which one it is."""
        for name, buffer in self.texts[0].buffers.items():
            arrays = [called.get(name, name) for called in self.names]
            if len(set(arrays)) > 1 and buffer.scope in OUTSIDE:
                yield _accessor(out, name, arrays, part)

    def together(self, part: str) -> CudaWriter:
        """The text of the first part, for all of them."""
        first = self.texts[0]
        lines = list(starmap(_together, zip(*(text.lines for text in self.texts), strict=True)))
        spans = [span for text in self.texts for span in text.spans]
        return replace(first, text=self._with_growth(part), lines=lines, spans=spans)

    def _with_growth(self, part: str) -> list[str]:
        text = list(self.texts[0].text)
        for line in {line for line, _ in self.growth}:
            pieces = _PIECES.split(text[line])
            for (at, piece), by in self.growth.items():
                if at == line:
                    start = f"{pieces[piece]} + " if pieces[piece] != "0" else ""
                    pieces[piece] = f"({start}{part}{f' * {by}' if by != 1 else ''})"
            text[line] = "".join(pieces)
        return text


def text_of(out: CudaWriter, *bodies: Sequence[TileOp]) -> CudaWriter:
    """What stands one level inside another text: operations, or, of several bodies, each in braces of its own."""
    text = CudaWriter(out.buffers, out.forms, depth=out.depth + 1, extents=out.extents)
    if len(bodies) == 1:
        text.body(bodies[0])
        return text
    for body in bodies:
        with text.block("{"):
            text.body(body)
    return text


def alike_runs(parts: Sequence[tuple[Hashable, CudaWriter]], may_grow: bool = False) -> list[AlikeTexts]:
    """The texts of parts, neighbours that are alike together.  parts: (what those together must share, text)."""
    runs: list[AlikeTexts] = []
    for key, text in parts:
        if not (runs and runs[-1].key == key and runs[-1].take_in(text, may_grow)):
            runs.append(AlikeTexts(key, [text]))
    return runs


def _compare(first: CudaWriter, other: CudaWriter) -> tuple[dict[str, str], dict[tuple[int, int], int]] | None:
    """What another text calls the buffers and variables of the first, and by how much its numbers are larger; None
    where it differs in anything else."""
    if len(first.text) != len(other.text):
        return None
    called: dict[str, str] = {}
    grown: dict[tuple[int, int], int] = {}
    for line, (mine, theirs) in enumerate(zip(first.text, other.text, strict=True)):
        if mine.lstrip().startswith("//") and theirs.lstrip().startswith("//"):
            continue
        a, b = _PIECES.split(mine), _PIECES.split(theirs)
        # Every second piece is a name or a number; a line of as many pieces has them in the same places.
        if len(a) != len(b) or a[::2] != b[::2]:
            return None
        for piece in range(1, len(a), 2):
            x, y = a[piece], b[piece]
            if _COUNT.fullmatch(x) and _COUNT.fullmatch(y):
                if x != y and _FIXED.search("".join(a[:piece])):
                    return None
                if x != y:
                    grown[line, piece] = int(y) - int(x)
            elif x[0].isdigit() or y[0].isdigit():
                if x != y:
                    return None
            elif called.setdefault(x, y) != y or not (x == y or _are_alike(first, x, y)):
                return None
    return (called, grown) if len(set(called.values())) == len(called) else None


def _are_alike(text: CudaWriter, x: str, y: str) -> bool:
    """Whether one name may stand for another: both are buffers of one kind, or variables."""
    if x in text.buffers and y in text.buffers:
        return _kind(text, x) == _kind(text, y)
    if x in text.extents and y in text.extents:
        return True
    # What an operation writes for itself has a name of its buffer's, as `sums_pack`.
    (a, _, what), (b, _, other) = x.rpartition("_"), y.rpartition("_")
    return what == other and a in text.buffers and b in text.buffers and _are_alike(text, a, b)


def _kind(text: CudaWriter, name: str) -> tuple[object, ...]:
    """What two buffers must have in common.  What nobody stores to is loaded through another cache."""
    buffer, is_changed = text.buffers[name], name in text.forms.changed
    scope = OUTSIDE if buffer.scope in OUTSIDE else buffer.scope
    return scope, is_changed, buffer.dtype, buffer.shape, buffer.row_bytes, buffer.is_raw


def _accessor(out: CudaWriter, name: str, arrays: Sequence[str], part: str) -> str:
    """The declaration of an array that each part has of its own."""
    *others, last = (f"{array}_" for array in arrays)
    chosen = "".join(f"{part} == {n} ? {pointer} : " for n, pointer in enumerate(others)) + last
    buffer = out.buffers[name]
    const = "" if name in out.forms.changed else "const "
    return f"const Global<{const}{STORED[buffer.dtype]}> {name}({chosen}, {buffer.elements});  // {', '.join(arrays)}"


def _together(*lines: Line) -> Line:
    """What stands behind a line of several parts."""
    return Line(
        tuple(dict.fromkeys(s for line in lines for s in line.statements)),
        tuple(dict.fromkeys(d for line in lines for d in line.dimensions)),
    )
