"""What a general kernel leaves open to its schedule: threads, blocks, and which loops they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.kernels.general.mapping import ThreadMapping
from engine.kernels.general.paths import Dimension
from engine.tile.nodes import KernelConfig


@dataclass(frozen=True, slots=True)
class GeneralConfig(KernelConfig):
    """What a general kernel leaves open."""

    mapping: ThreadMapping
    """What runs beside each other: threads, or blocks where `shared` is not empty."""
    threads: int
    """Of a block."""
    points: int = 0
    """Of the mapping, that a block runs; threads run as many at a time as there are.  0: one for each of them."""
    shared: Mapping[Dimension, tuple[Dimension, ...]] = field(default_factory=dict)
    """Outermost of some nested loops -> all of them, whose iterations the threads of a block share."""
    strips: Mapping[Dimension, int] = field(default_factory=dict)
    """Shared loop -> neighbouring iterations that one thread runs."""
    unrolled: Mapping[Dimension, int] = field(default_factory=dict)
    """Loop of a thread -> iterations that are written out together."""
    vector: int = 1
    """Neighbours along the innermost strip that are computed together, with vector loads and stores."""
    jam: int = 1
    """Neighbours along the dimension `jammed` that a thread computes together (unroll and jam): they share loads."""
    jammed: str = ""
    """Name of an outer dimension of the mapping, with strips of that length."""
    placed: Mapping[str, str] = field(default_factory=dict)
    """Statement -> where its value lies that some read from memory: "shared" or "global"."""

    @property
    def is_cooperative(self) -> bool:
        """Whether a block runs each point of the mapping, not a thread."""
        return bool(self.shared)

    @property
    def per_block(self) -> int:
        """Points that a block runs."""
        return self.points or (1 if self.is_cooperative else self.threads)
