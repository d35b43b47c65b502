"""The tiles that an adviser compares for a product, and its choice: the simplest with nearly the least estimated time.

The estimate needs the whole problem (`promise.fused_gemm`): who asks for advice hands it over as a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter

from engine.kernels.gemm.limits import exchanged_bytes, is_tile_size
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import WARP
from engine.tensorize.space import GemmConfig

Promise = Callable[[GemmConfig], float]
"""Microseconds of the kernel with a configuration; Unsupported where no block of it fits an SM."""
Floor = Callable[[GemmConfig], float]
"""Microseconds that the promise is no less than, in a tenth of the time that it takes to ask for it."""

SLICES = (1, 2, 4)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_WARPS, MOST_WARPS = 2, 16
"""Of a block: while one warp alone waits, nothing of the block runs; 512 threads leave each of them 128 registers."""
LEAST_DEPTH = 4
"""Of a tile on CUDA cores."""
FEWEST_TILES = 4
"""Of the depth to a block or a slice of it: they fill a pipeline."""
MOST_SUMS = 2**23
"""That all blocks of a split product leave to each other: 32 MB of float32 stay in L2."""
MOST_BLOCKS = 8
"""For each SM, past which blocks that share a depth fill it no better."""
MOST_STAGES, MOST_CORE_STAGES = 6, 3
"""Buffers of a pipeline on tensor cores, and on CUDA cores, behind whose arithmetic two copies ahead are hidden."""
NEAR = 1.03
"""Promises this close are one for a model that nothing calibrates: the simpler kernel is taken."""


def stages_of(tiles: int, on_tensor_cores: bool = True) -> int:
    """Buffers of a pipeline through shared memory that a loop of so many tiles fills."""
    return min(tiles, 4 if on_tensor_cores else MOST_CORE_STAGES)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows and columns of a block and of one of its warps."""

    block: tuple[int, int]
    warp: tuple[int, int]

    @property
    def warps(self) -> int:
        """Of the block."""
        return math.prod(b // w for b, w in zip(self.block, self.warp, strict=True))

    @property
    def is_even(self) -> bool:
        """Whether its rows are a power of two."""
        return is_tile_size(self.block[0])


TILES = (
    Tile((256, 128), (64, 64)),
    Tile((128, 256), (64, 64)),
    Tile((192, 128), (48, 64)),
    Tile((128, 128), (64, 64)),
    Tile((256, 128), (64, 32)),
    Tile((128, 256), (32, 64)),
    Tile((128, 128), (64, 32)),
    Tile((96, 128), (48, 64)),
    Tile((96, 128), (48, 32)),
    Tile((256, 64), (64, 64)),
    Tile((64, 256), (64, 64)),
    Tile((64, 256), (32, 64)),
    Tile((192, 64), (48, 64)),
    Tile((128, 64), (64, 64)),
    Tile((64, 128), (64, 64)),
    Tile((64, 128), (64, 32)),
    Tile((128, 64), (64, 32)),
    Tile((128, 64), (32, 32)),
    Tile((64, 64), (64, 64)),
    Tile((96, 64), (48, 32)),
    Tile((64, 64), (64, 32)),
    Tile((64, 64), (32, 32)),
    Tile((64, 32), (32, 16)),
    Tile((32, 32), (32, 32)),
    Tile((32, 32), (16, 16)),
)
"""Largest reuse first; 8 to 128 sums to a thread."""
CORE_TILES = (
    Tile((128, 128), (8, 8)),
    Tile((256, 64), (8, 8)),
    Tile((64, 256), (8, 8)),
    Tile((96, 128), (6, 8)),
    Tile((128, 64), (8, 8)),
    Tile((96, 64), (6, 8)),
    Tile((64, 64), (8, 8)),
    Tile((32, 64), (8, 8)),
    Tile((64, 64), (4, 4)),
    Tile((32, 32), (4, 4)),
    Tile((16, 32), (4, 4)),
)
"""On CUDA cores, with parts of a thread in place of a warp's: largest reuse first."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The depth of a product as tiles walk it."""

    size: int
    tile: int
    """Depths of a tile of one slice."""
    step: int = 0
    """Depths of one instruction; 0 on CUDA cores, where warps here are threads."""
    through_registers: bool = False
    """Whether elements of a factor go to its tile one by one."""
    rounds: int = 1
    """Times that it is walked."""

    def register_stages(self, tile: int) -> Sequence[int]:
        """Sets of fragments worth a try with tiles of so many depths: where copies go through registers, a second one
        may take those of a second block."""
        if not tile > self.step > 0:
            return (1,)
        return (2, 1) if self.through_registers else (2,)


def candidates(tiles: Sequence[Tile], loop: Loop, sums: int, machine: Target) -> Iterator[GemmConfig]:
    """Kernels with these tiles: alone, with slices of the depth, with blocks that share it.

    sums: results of the product.
    """
    shares = (1,) if loop.through_registers else SLICES
    most_parts = MOST_WARPS if loop.step else MOST_WARPS * WARP
    for tile in tiles:
        most_sums = min(MOST_SUMS, MOST_BLOCKS * machine.sm_count * math.prod(tile.block))
        for slices in shares if tile.is_even else (1,):
            steps = loop.rounds * -(-loop.size // (loop.tile * slices))
            plain = GemmConfig((*tile.block, loop.tile * slices), tile.warp, slices=slices)
            if slices > 1 and (plain.parts > most_parts or steps < FEWEST_TILES):
                continue
            if slices > 1 and slices * exchanged_bytes(plain, loop.step > 0) > machine.shared_limit:
                continue
            for split in SPLITS:
                mine = -(-steps // split)
                if split > 1 and (mine < FEWEST_TILES or -(-steps // mine) != split or split * sums > most_sums):
                    continue
                stages = min(2, mine) if loop.through_registers else stages_of(mine, loop.step > 0)
                for sets in loop.register_stages(loop.tile):
                    yield GemmConfig(plain.block, plain.part, stages, sets, slices, split)


def pipelines(config: GemmConfig, loop: Loop) -> Iterator[GemmConfig]:
    """The same tiles with half and twice their depth, and with other numbers of buffers."""
    most = 2 if loop.through_registers else MOST_STAGES if loop.step else MOST_CORE_STAGES
    for depth in (loop.tile, loop.tile // 2, 2 * loop.tile):
        block = (*config.block[:2], depth * config.slices)
        tiles = loop.rounds * -(-loop.size // block[2])
        mine = -(-tiles // config.split_k)
        if depth < max(loop.step, LEAST_DEPTH) or depth > loop.size or -(-tiles // mine) != config.split_k:
            continue
        for stages in range(2, min(mine, most) + 1):
            for sets in loop.register_stages(depth):
                yield replace(config, block=block, stages=stages, register_stages=sets)


def promised_pipeline(config: GemmConfig, others: Iterable[GemmConfig], promise: Promise) -> GemmConfig:
    """That of least time of these tiles; the given one where none is much faster."""
    times: dict[GemmConfig, float] = {config: promise(config) / NEAR}
    for other in others:
        with suppress(Unsupported):
            times.setdefault(other, promise(other))
    return min(times, key=times.__getitem__)


def promised_best(choices: Iterable[GemmConfig], promise: Promise, floor: Floor) -> tuple[GemmConfig, float]:
    """(the simplest of the best, its microseconds): who shares a depth must be worth it, blocks more than slices.

    Blocks of one warp are taken where there is nothing else.
    """
    offered, known, least = tuple(choices), dict[GemmConfig, float](), math.inf
    for at_least, config in sorted(((floor(one), one) for one in offered), key=itemgetter(0)):
        if at_least > least * NEAR:
            break  # neither this one nor those that follow are near the best
        try:
            known[config] = promise(config)
        except Unsupported:
            continue  # no block of it fits an SM
        if config.parts >= FEWEST_WARPS:
            least = min(least, known[config])
    if not known:
        raise Unsupported("codegen", "product", "no tiles of it fit a block, or have whole copies of its codes")
    times = {config: known[config] for config in offered if config in known}  # of equal ones the first is taken
    full = {config: time for config, time in times.items() if config.parts >= FEWEST_WARPS} or times
    limit = min(full.values()) * NEAR
    alone = [config for config in full if config.split_k == 1]
    plain = [config for config in alone if config.slices == 1]
    best = (min(some, key=full.__getitem__) for some in (plain, alone, full) if some)
    return next((config, full[config]) for config in best if full[config] <= limit)
