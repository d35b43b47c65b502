"""Configurations of kernels: their base, and what may be chosen of a contraction's tiles and pipelines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.support.errors import BadInput


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """Base of what the families choose for a kernel: each has a frozen class of its own with its choices as fields."""

    copies_tiles: ClassVar[bool] = False
    """As `Work.copies_tiles`."""

    @property
    def product(self) -> GemmConfig | None:
        """The tiles of the products that the kernel computes, alike in all of them; None where it computes none."""
        return None

    @property
    def load_turns(self) -> int:
        """Times that a thread waits for loads that its text has side by side: where the compiler issues some of them
        behind the use of others."""
        return 1

    def with_stages(self, stages: int, register_stages: int) -> KernelConfig:
        """The choice with the pipelines that the kernel got; a family whose configuration has no stages keeps this."""
        return self


@dataclass(frozen=True, slots=True)
class Walk:
    """How the elements of an array follow each other along the side or the depth of a product."""

    step: int
    """From one to the next; 0 where all are the same."""
    shared: int
    """Neighbouring rows, columns or depths that have one element together: a power of two."""
    size: int
    """Elements in all."""

    def of_tile(self, tile: int) -> int:
        """Elements that so many neighbours need, from a multiple of as many on."""
        return max(1, tile // self.shared) if self.step else 1


@dataclass(frozen=True, slots=True)
class Source:
    """An array from one element of which an element of a factor of codes is computed."""

    array: str
    element_bytes: int
    walks: tuple[Walk, Walk]
    """Along the side and along the depth."""

    @property
    def bytes_each(self) -> float:
        """For each element of the factor."""
        return self.element_bytes / math.prod(walk.shared for walk in self.walks if walk.step)


@dataclass(frozen=True, slots=True)
class GemmConfig(KernelConfig):
    """What may be chosen of a contraction's kernel: what ALCOP calls its knobs, and who shares the depth."""

    copies_tiles: ClassVar[bool] = True

    block: tuple[int, int, int]
    """Rows, columns and depths of a block's tile."""
    part: tuple[int, int]
    """Rows and columns of a warp's tile; on CUDA cores of a thread's."""
    stages: int = 1
    """Buffers in shared memory; 1 copies and computes in turn."""
    register_stages: int = 1
    """Fragment sets in registers; 1 reads and multiplies in turn."""
    slices: int = 1
    """Sets of warps (on CUDA cores of threads) of a block that share the depth of a tile and add their sums at the
    end."""
    split_k: int = 1
    """Blocks that share the depth of the whole product; the last one adds their sums."""
    raster: int = 1
    """Rows of tiles that blocks walk down before they go one tile to the right."""
    outer: tuple[str, ...] = ()
    """Iterators that could be on an axis of the tiles and are loops around them, as `GemmAxes.outer`."""

    def __post_init__(self) -> None:
        """BadInput for a knob below 1."""
        if min(*self.block, *self.part, self.stages, self.register_stages, self.slices, self.split_k, self.raster) < 1:
            wrong = f"{self.block}, {self.part}: tiles, stages and slices are 1 or more"
            raise BadInput("tensorize", "configuration", wrong)

    def with_stages(self, stages: int, register_stages: int) -> GemmConfig:
        """As the base says."""
        return replace(self, stages=stages, register_stages=register_stages)

    @property
    def product(self) -> GemmConfig:
        """As the base says."""
        return self

    @property
    def parts(self) -> int:
        """Warps (on CUDA cores threads) of a block."""
        return self.parts_of_slice * self.slices

    @property
    def parts_of_slice(self) -> int:
        """Warps (on CUDA cores threads) that share a tile by its rows and columns."""
        return (self.block[0] // self.part[0]) * (self.block[1] // self.part[1])

    def __str__(self) -> str:
        m, n, k = self.block
        text = f"{m}x{n}x{k}, part {self.part[0]}x{self.part[1]}, {self.stages} x {self.register_stages} stages"
        text += f", {self.slices} slices" if self.slices > 1 else ""
        text += f", split-K {self.split_k}" if self.split_k > 1 else ""
        text += f", raster {self.raster}" if self.raster > 1 else ""
        return f"{text}, loops over {' '.join(self.outer)} around" if self.outer else text
