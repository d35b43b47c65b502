"""What operations speak of: buffers, and the elements of them that one operation touches."""

from __future__ import annotations

import math

from engine.graph.nodes import DTYPES
from engine.support.values import value
from engine.target.hardware import PASS_BYTES, REGISTER_BYTES, VECTOR_BYTES
from engine.tensor.index import Index

BLOCK, THREAD = "block", "thread"
"""The hardware variables: linear block number and linear thread number."""


@value(frozen=True, slots=True)
class Buffer:
    """Storage of a kernel.  A register buffer of shape () is a scalar variable, one of each thread's own."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scope: str
    """"global", "shared", "register", or "workspace": global memory of one launch, which no graph's tensor lies in."""
    row_bytes: int = 0
    """Of shared memory: where not 0, the 16-byte chunks of rows this long are permuted (swizzle.cuh)."""
    offset: int | None = None
    """Of shared memory: its first byte in the block's arena; None puts it behind the others, at bytes of its own."""
    part: int = 0
    """Of shared memory: which range of the launch's blocks uses it, from 1; 0 where all do."""
    is_raw: bool = False
    """Of registers: they hold elements as they lie in memory, which are moved alone, not widened to compute with."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def registers(self) -> int:
        """Elements, or words of smaller ones that it holds as they lie in memory."""
        words = -(-self.elements * DTYPES[self.dtype] // REGISTER_BYTES)
        return min(words, self.elements) if self.is_raw else self.elements

    @property
    def period(self) -> int:
        """Elements after which the permutation of chunks repeats: as many lines of banks as a line has chunks."""
        line, chunks = max(self.row_bytes, PASS_BYTES), min(self.row_bytes, PASS_BYTES) // VECTOR_BYTES
        return line * chunks // DTYPES[self.dtype]


@value(frozen=True, slots=True)
class Slot:
    """Registers that an operation touches: one element of a register buffer, or what its last axes hold from it on."""

    buffer: str
    indices: tuple[Index, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The register, and the variables that say which of its elements."""
        return (self.buffer, *(name for index in self.indices for name in index.iterators()))


@value(frozen=True, slots=True)
class Region:
    """Memory that an operation of one thread touches: neighbouring elements of a buffer, from `position` on."""

    buffer: str
    position: Index
    width: int = 1
    """Elements."""
    mask: str | None = None
    """Where it is false, nothing is touched."""
    bytes: int = 0
    """Its size, where that is the same for elements of every type; `width` says nothing then."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that say where it is, and its mask."""
        return (*self.position.iterators(), *((self.mask,) if self.mask else ()))

    def bytes_in(self, buffer: Buffer) -> int:
        """Its size in a buffer."""
        return self.bytes or self.width * DTYPES[buffer.dtype]
