"""What the performance model of pipelined contractions takes and gives.

A contraction is a batch of products of m x k by k x n elements.  Its kernel is known either by a configuration
(`tensorize.space.GemmConfig`) or by what was compiled (`alcop_work.alcop_work_of_kernel`); both become an `AlcopWork`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from engine.cost.nodes import Occupancy, TileOrder
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.target.hardware import WARP
from engine.tensorize.space import GemmConfig, Source


class TileCopies(NamedTuple):
    """The copies that a thread makes of one tile."""

    size: int
    """Bytes of one copy."""
    number: float
    """Below 1 where some threads have none."""


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """The problem: what has to be multiplied, whatever the tiles."""

    m: int
    n: int
    k: int
    batch: int = 1
    element_bytes: int = 2
    """Of an operand's element in memory."""
    result_bytes: int = 2
    """Of a result's element in memory."""
    unit: str = "float16"
    """Element type that the tensor cores multiply ("float16", "bfloat16", "float32" as tf32); "" on CUDA cores."""
    instruction: tuple[int, int, int] = (16, 8, 16)
    """Rows, columns and depths of one instruction; (1, 1, 4) on CUDA cores, where fragments are 4 depths long."""
    distinct: tuple[float, float] = (1.0, 1.0)
    """Part of the m x k and of the k x n elements that differ in memory: an implicit GEMM reads its input again."""
    operand_bytes: tuple[int, int] = (0, 0)
    """Of both operands of one batch in memory; 0 where they are not known."""
    widths: tuple[int, int] = (8, 8)
    """Elements of the first and of the second operand that one copy may move."""
    finish: tuple[float, float] = (0.0, 0.0)
    """Operations on CUDA cores and special-function results for each result, after the sum."""
    has_whole_rows: bool = False
    """Whether a block has all n columns, because its kernel reduces rows of the results."""
    siblings: int = 1
    """Products of one first factor whose columns are the n: each has as many of a tile's and of a part's."""
    sources: tuple[tuple[Source, ...], tuple[Source, ...]] = ((), ())
    """What each operand is computed from, where it is one of codes; () where its elements are copied as they are."""
    takes_thirds: bool = False
    """Whether a tile may have three times a power of two rows."""
    rounds: int = 1
    """Times that all k depths are walked for one tile: points of the summed loops around them."""

    @property
    def products(self) -> int:
        """Multiplications that the results need."""
        return self.batch * self.m * self.n * self.k * self.rounds

    def steps(self, depth: int) -> int:
        """Tiles of so many depths that are walked for one tile of the results; the last one of each round is padded."""
        return self.rounds * -(-self.k // depth)

    def tile_order(self, config: GemmConfig) -> TileOrder:
        """How the blocks of a kernel with a configuration take the tiles."""
        (first, second), parts = self.operand_bytes, config.split_k
        counts = -(-self.m // config.block[0]), -(-self.n // config.block[1])
        return TileOrder(counts, config.raster, (first // parts, second // parts), self.batch * parts)

    @property
    def lanes(self) -> int:
        """Threads that own a part of the tile together: a warp, or one thread on CUDA cores."""
        return WARP if self.unit else 1

    def tile_bytes(self, config: GemmConfig) -> tuple[float, float]:
        """That copies of a tile of either operand bring."""
        depth = config.block[2]
        first, second = (
            side * depth * (sum(source.bytes_each for source in sources) or self.element_bytes)
            for side, sources in zip(config.block, self.sources, strict=False)
        )
        return first, second

    def shared_bytes(self, config: GemmConfig) -> int:
        """Of a block's tiles: those of all stages, and those of factors that were computed from codes."""
        computed = sum(side for side, sources in zip(config.block, self.sources, strict=False) if sources)
        staged = math.ceil(sum(self.tile_bytes(config)))
        return config.stages * staged + computed * config.block[2] * self.element_bytes

    def copies(self, config: GemmConfig) -> tuple[TileCopies, TileCopies]:
        """How a thread copies its part of the tile of either operand: as wide as all threads share it evenly.

        `engine.kernels.gemm.copies.choose_copy` also knows along which direction memory allows it.
        """
        threads, depth = config.parts * self.lanes, config.block[2]

        def widest(side: int, width: int) -> TileCopies:
            while width > 1 and side * depth // width % threads:
                width //= 2
            return TileCopies(width * self.element_bytes, side * depth / width / threads)

        return widest(config.block[0], self.widths[0]), widest(config.block[1], self.widths[1])


@dataclass(frozen=True, slots=True)
class AlcopWork:
    """A pipelined kernel in the numbers that the equations need; everything per block unless it says otherwise."""

    grid: tuple[int, int, int]
    """Blocks along the rows, the columns, and everything else (batches), in the order of their numbers."""
    threads: int
    registers: int | None
    """Of a thread; None where nothing is known, then they do not limit the occupancy."""
    shared_bytes: int
    steps: int
    """Tiles of depth that a block walks."""
    stages: int
    inner_steps: int
    """Instructions' depths in a tile: steps of the pipeline in registers."""
    register_stages: int
    fetched: float
    """Bytes requested of L2 for one step."""
    panels: tuple[float, float]
    """Bytes of one step of a row panel and of a column panel that differ in memory."""
    fragments: float
    """Bytes from shared memory to registers in one inner step, by all warps."""
    operations: float
    """Multiplications and additions of one inner step."""
    unit: str
    """As in `Contraction`."""
    results: float
    """Bytes written at the end, by the last block of a team."""
    finish: tuple[float, float]
    """Operations and special-function results after the sums."""
    partial: float = 0.0
    """Bytes of float32 sums that pass shared memory where sets of warps share the depth."""
    team: int = 1
    """Blocks that share the depth of a tile; the last one alone finishes and writes."""
    team_bytes: float = 0.0
    """Sums in global memory that the last one reads."""
    spill_bytes: int = 0
    """Of a thread in local memory, as NVRTC says."""
    distinct_from_grid: bool = True
    """Whether blocks of one row share the row panel, and of one column the column panel."""

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        rows, columns, rest = self.grid
        return rows * columns * rest

    @property
    def warps(self) -> int:
        """Of one block."""
        return -(-self.threads // WARP)


@dataclass(frozen=True, slots=True)
class Pace:
    """The rhythm of the main loop while every SM is full; times in microseconds."""

    resident: int
    """Blocks on one SM."""
    latency: float
    """Of a load from global memory."""
    transfer: float
    """In which the copies of one step of all resident blocks pass the narrowest memory level."""
    use: float
    """Arithmetic of one step of one block, its share of the SM's units."""
    read: float
    """Of one inner step: from asking for one warp's fragments to having them."""
    multiply: float
    """Of one inner step: the arithmetic of one warp with its scheduler to itself."""

    @property
    def load(self) -> float:
        """From the copy of one block's tile to its last byte."""
        return self.latency + self.transfer / self.resident


@dataclass(frozen=True, slots=True)
class PipelinePrediction:
    """A modelled time of one launch, the rhythm of its main loop, and every term with its reason."""

    model: str
    """"ALCOP" or "bottleneck"."""
    microseconds: float
    pace: Pace
    occupancy: Occupancy
    waves: float
    """Blocks over the places of all SMs."""
    terms: tuple[TermDoc, ...]
    origin: str = PREDICTED
    note: str = "uncalibrated"

    def term(self, name: str) -> TermDoc:
        """One term by its name."""
        return next(term for term in self.terms if term.name == name)

    def __str__(self) -> str:
        lines = [f"{self.microseconds:.3g} µs {self.origin} ({self.model} model, {self.note})"]
        return "\n".join(lines + [f"  {t.name:20} {t.value:>10.3g} {t.unit:6} {t.because}" for t in self.terms]) + "\n"
