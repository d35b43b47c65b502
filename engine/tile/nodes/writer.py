"""The CUDA text of a kernel while its operations write themselves into it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.tensor.index import Index
from engine.tensor.terms import NARROW
from engine.tile.nodes.expressions import HELD, STORED, index_text, permuted_text
from engine.tile.nodes.values import Buffer
from engine.tile.source import NOWHERE, Line

if TYPE_CHECKING:
    from engine.tile.nodes.operation import TileOp

NAMES = re.compile(r"\b([A-Za-z_]\w*)\b")
"""Words of CUDA text."""
MOST_COUNTED = 2**31 - 2**20
"""Elements that indices of 32 bits count, with room for what ragged tiles add."""


@dataclass(frozen=True, slots=True)
class RegisterForms:
    """How the registers of one program appear in its text."""

    changed: frozenset[str] = frozenset()
    """Assigned after their declaration: not const."""
    declared: frozenset[str] = frozenset()
    """With a declaration of their own."""
    packs: frozenset[str] = frozenset()
    """Whose last axis is one vector access: a `Pack`, loaded and stored whole."""
    loaded_once: frozenset[str] = frozenset()
    """That one load alone gives their value."""


@dataclass(slots=True)
class CudaWriter:
    """Lines of CUDA text with what stands behind each."""

    buffers: Mapping[str, Buffer]
    forms: RegisterForms
    text: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    spans: list[tuple[TileOp, range]] = field(default_factory=list)
    """Each operation that was written and its lines, from 1; those inside another one before it."""
    depth: int = 0
    extents: defaultdict[str, int] = field(default_factory=lambda: defaultdict(lambda: 1))
    """What each variable that was written stays below; 1 for those whose values only the data tell."""

    def line(self, text: str, at: Line = NOWHERE) -> None:
        """Append a line, indented."""
        self.text.append("  " * self.depth + text if text else "")
        self.lines.append(at)

    @contextmanager
    def block(self, head: str, at: Line = NOWHERE, tail: str = "}") -> Iterator[None]:
        """Indent the lines written inside, between a head and a closing brace."""
        self.line(head, at)
        self.depth += 1
        yield
        self.depth -= 1
        if tail:
            self.line(tail)

    def body(self, operations: Iterable[TileOp]) -> None:
        """Append operations one after the other."""
        for op in operations:
            start = len(self.text)
            op.write(self)
            self.spans.append((op, range(start + 1, len(self.text) + 1)))

    def append(self, other: CudaWriter) -> None:
        """Append what another one has, as it is indented there."""
        begin = len(self.text)
        self.text += other.text
        self.lines += other.lines
        self.spans += [(op, range(begin + lines.start, begin + lines.stop)) for op, lines in other.spans]

    def place(self, buffer: str, position: Index) -> str:
        """A position in a buffer; in a tile of permuted chunks, where that element lies."""
        target = self.buffers[buffer]
        if target.row_bytes:
            return permuted_text(position, target, STORED[target.dtype])
        return index_text(position, is_long=target.elements > MOST_COUNTED)

    def is_long(self, index: Index) -> bool:
        """Whether an index needs 64 bits: one that was read from such an array, or may be too large for 32."""
        if any(name in self.buffers and self.buffers[name].dtype == "int64" for name in index.iterators()):
            return True
        return self.is_large(index)

    def is_large(self, index: Index) -> bool:
        """Whether an index may be too large for 32 bits."""
        low, high = index.bounds(self.extents)
        return max(-low, high) >= MOST_COUNTED


def register_type(buffer: Buffer) -> str:
    """The C type of one element of a register buffer."""
    return (STORED if buffer.is_raw else HELD)[buffer.dtype]


def widen(value: str, dtype: str) -> str:
    """An element as it is stored, as a register holds it."""
    return f"to_float({value})" if dtype in NARROW else f"bool({value})" if dtype == "bool" else value


def narrow(value: str, dtype: str) -> str:
    """What a register holds, as an element is stored."""
    return f"to_{STORED[dtype]}({value})" if dtype in NARROW else f"bool8({value})" if dtype == "bool" else value
