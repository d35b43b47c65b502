"""The knobs of a pipelined contraction, and ALCOP's published search spaces over them (section 2.4 of the notes).

    block = 16 * row tiles * row warps  x  16 * column tiles * column warps  x  16 * chunk
    warp  = 16 * row tiles              x  16 * column tiles
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from engine.support.errors import BadInput
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tile.nodes import KernelConfig


@dataclass(frozen=True, slots=True)
class GemmConfig(KernelConfig):
    """What may be chosen of a contraction's kernel: ALCOP's knobs, and who shares the depth."""

    block: tuple[int, int, int]
    """Rows, columns and depths of a block's tile."""
    part: tuple[int, int]
    """Rows and columns of a warp's tile; on CUDA cores of a thread's."""
    stages: int = 1
    """Buffers in shared memory; 1 copies and computes in turn."""
    register_stages: int = 1
    """Fragment sets in registers; 1 reads and multiplies in turn."""
    slices: int = 1
    """Sets of warps of a block that share the depth of a tile and add their sums at the end."""
    split_k: int = 1
    """Blocks that share the depth of the whole product; the last one adds their sums."""

    def __post_init__(self) -> None:
        """BadInput for a knob below 1."""
        if min(*self.block, *self.part, self.stages, self.register_stages, self.slices, self.split_k) < 1:
            raise BadInput("tensorize", "knobs", f"{self.block}, {self.part}: tiles, stages and slices are 1 or more")

    def with_stages(self, stages: int, register_stages: int) -> GemmConfig:
        """As the base says."""
        return replace(self, stages=stages, register_stages=register_stages)

    @property
    def parts(self) -> int:
        """Warps (on CUDA cores threads) of a block."""
        return self.parts_of_slice * self.slices

    @property
    def parts_of_slice(self) -> int:
        """Warps (on CUDA cores threads) that share a tile by its rows and columns."""
        return (self.block[0] // self.part[0]) * (self.block[1] // self.part[1])

    def stage_bytes(self, element_bytes: int) -> int:
        """Shared memory of a block's tile of both operands."""
        rows, columns, depth = self.block
        return (rows + columns) * depth * element_bytes

    def __str__(self) -> str:
        m, n, k = self.block
        text = f"{m}x{n}x{k}, part {self.part[0]}x{self.part[1]}, {self.stages} x {self.register_stages} stages"
        text += f", {self.slices} slices" if self.slices > 1 else ""
        return f"{text}, split-K {self.split_k}" if self.split_k > 1 else text


@dataclass(frozen=True, slots=True)
class PublishedSpace:
    """Every combination of the choices."""

    row_tiles: tuple[int, ...]
    """Fragments along the rows of a warp's tile."""
    column_tiles: tuple[int, ...]
    chunks: tuple[int, ...]
    """Fragments along the depth of a block's tile."""
    row_warps: tuple[int, ...] = (1, 2, 4)
    column_warps: tuple[int, ...] = (1, 2, 4)
    stages: tuple[int, ...] = (2, 3, 4, 5, 6)
    register_stages: tuple[int, ...] = (1, 2, 4)
    fragment: int = FRAGMENT_SIZE
    """Rows, columns and depths that the tiles are counted in; 1 on CUDA cores, whose warps here are threads."""

    @property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """Of each knob, in the order in which `points` turns them, the first slowest."""
        warps = (self.row_warps, self.column_warps)
        return (*warps, self.row_tiles, self.column_tiles, self.chunks, self.stages, self.register_stages)

    def __len__(self) -> int:
        return math.prod(map(len, self.choices))

    def points(self) -> Iterator[GemmConfig]:
        """Every configuration once."""
        for row_warps, column_warps, rows, columns, chunk, stages, sets in itertools.product(*self.choices):
            part = (self.fragment * rows, self.fragment * columns)
            block = (part[0] * row_warps, part[1] * column_warps, self.fragment * chunk)
            yield GemmConfig(block, part, stages, sets)


ALCOP_SPACES: Mapping[str, PublishedSpace] = {
    "dense": PublishedSpace(row_tiles=(1, 2, 4), column_tiles=(1, 2), chunks=(2, 4)),
    "batched": PublishedSpace(row_tiles=(1, 2, 4), column_tiles=(1, 2, 4), chunks=(1, 2, 4, 8)),
    "conv2d": PublishedSpace(row_tiles=(1, 2), column_tiles=(1, 2, 4), chunks=(1, 2, 4)),
    "conv3d": PublishedSpace(row_tiles=(1, 2, 4), column_tiles=(1, 2, 4), chunks=(1, 2, 4)),
}
"""The templates of the published artifact: 1,620, 4,860, 2,430 and 3,645 points; unpipelined 108, 324, 162 and 243."""
