"""The configuration of a product on a CPU: its tile of registers, its blocks, and how factors come to the tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from engine.cpu.marks import CpuMarks
from engine.cpu.product import CpuProduct, ProductSide, row_places, tiles_of
from engine.target.cpu import CpuTarget
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access

PREPARED, DIRECT, PACKED, STAGED = "prepared", "direct", "packed", "staged"
"""A factor's words lie in panels since the graph was loaded, as it is fixed; where the array has them; or are brought
to panels by each block of tiles; or are copied once for all, so that vectors read them in place."""
PAGE = 4096
"""Bytes apart of which rows fall into the same places of the first cache."""
LEAST_WORDS = 1024
"""Words of a block's depth, at least: sums are loaded and stored for each block."""
LEAST_TILES = 8
"""Tiles of a block, at least, that share the panels of columns that they read."""
NEAR = 0.75
"""Part of the first cache that columns of a block may take to stay there for all its tiles."""
TASKS = 4
"""Blocks of tiles for each core, where they cost nothing."""


@dataclass(frozen=True, slots=True)
class ProductConfig:
    """What a kernel of a product leaves open."""

    rows: int
    """Of a tile of registers."""
    vectors: int
    """Of a row of a tile."""
    row_block: int
    """Tiles that a thread takes, one below the other, for each panel of columns."""
    column_block: int
    """Panels of columns of one task."""
    depth_block: int
    """Values of the outermost loop of the depth (words, where it is the only one) that a block of tiles sums before it
    goes on to the next ones."""
    row_mode: str
    column_mode: str

    def marks(self) -> Mapping[str, int | str]:
        """By the names that recipes and the window have for them."""
        return {
            "rows of a tile": self.rows, "vectors of a tile": self.vectors, "tiles of a block": self.row_block,
            "panels of a block": self.column_block, "depths of a block": self.depth_block, "rows": self.row_mode,
            "columns": self.column_mode,
        }  # fmt: skip


def make_configs(
    product: CpuProduct, machine: CpuTarget, marks: CpuMarks, tile: tuple[int, int]
) -> Iterator[ProductConfig]:
    """A tile with blocks for all cores: of long depths, and of those whose columns fit the first cache; marks go
    before."""
    rows_dim, columns_dim = _dimensions(product)
    allowed, (rows, vectors) = tiles_of(product, machine), tile
    vectors = marks.number("vector", vectors, "1 to 4 vectors", lambda k: max(1, min(k, 4)), columns_dim)
    heights = [r for r, v in allowed if v == vectors]

    def nearest(wanted: int) -> int:
        return max(r for r in heights if r <= max(1, wanted))

    needs = f"{', '.join(map(str, heights))} rows beside {vectors} vectors"
    rows = marks.number("tile", nearest(rows), needs, nearest, rows_dim)
    config = ProductConfig(rows, vectors, 1, 1, 1, row_mode(product, rows), column_mode(product))
    outer, each = depth_units(product)
    most_near = max(1, int(NEAR * machine.l1_bytes.value) // (4 * vectors * machine.lanes * each))
    words = max(LEAST_WORDS, int(machine.l2_bytes.value / 2) // (4 * product.rows.size))
    for depths in dict.fromkeys((outer if words >= product.words else max(1, words // each), most_near)):
        depth_block = marks.number(
            "block", -(-outer // -(-outer // min(depths, outer))), f"1 to {outer}", lambda k: max(1, min(k, outer)),
            (product.anchor.name, product.depth[0].name),
        )  # blocks of equal size
        deep = replace(config, depth_block=depth_block)
        yield _with_marks(product, machine, marks, _long_blocks(product, deep, machine))
        if depth_block == outer and config.row_mode != PACKED and column_mode(product) != PACKED:
            yield _with_marks(product, machine, marks, _whole_rows(product, deep, machine))
        if depth_block < outer and PACKED not in (config.row_mode, config.column_mode):
            yield _with_marks(product, machine, marks, _near_blocks(product, deep, machine))


def _counts(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> tuple[int, int, int]:
    """(tiles below one another, panels beside each other, products of a batch)."""
    width, batches = config.vectors * machine.lanes, math.prod(i.extent for i in product.batch)
    return -(-product.rows.size // config.rows), -(-product.columns.count // width), batches


def _long_blocks(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> ProductConfig:
    """Blocks of tiles whose rows stream from the nearer caches, with as many of them as cores ask for."""
    (tiles, panels, batches), second = _counts(product, config, machine), machine.l2_bytes.value
    (outer, each), cores, width = depth_units(product), int(machine.cores.value), config.vectors * machine.lanes
    words, is_cut = config.depth_block * each, config.depth_block < outer
    row_block = max(1, min(tiles, int(2 * second) // (4 * words * config.rows)))
    wanted = -(-cores * (TASKS if config.row_mode != PACKED else 1) // batches)
    column_block = max(1, panels // wanted)
    if config.row_mode == PACKED and config.column_mode != PACKED:  # each task brings its rows once, for all columns
        column_block = -(-panels // max(1, cores // (batches * tiles)))
        if is_cut:
            kept = 4 * width * column_block * config.rows
            row_block = max(min(row_block, LEAST_TILES), min(row_block, int(second / 4) // kept))
    elif is_cut or config.column_mode == PACKED:  # sums and panels of the block wait in the second cache
        kept = 4 * width * (row_block * config.rows * is_cut + words * (config.column_mode == PACKED))
        column_block = max(1, min(column_block, int(second / 2) // kept))
    row_block = _equal_blocks(tiles, row_block, batches * -(-panels // column_block), cores)
    return replace(config, row_block=row_block, column_block=column_block)


def _near_blocks(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> ProductConfig:
    """Blocks of as many columns and tiles as have their sums in the second cache, which are read for each depth."""
    (tiles, panels, batches), width = _counts(product, config, machine), config.vectors * machine.lanes
    sums = int(machine.l2_bytes.value / 4) // (4 * width * config.rows)
    column_block = max(1, min(panels, sums // LEAST_TILES))
    row_block = max(1, min(tiles, sums // column_block))
    others = batches * -(-panels // column_block)
    return replace(
        config, row_block=_equal_blocks(tiles, row_block, others, int(machine.cores.value)), column_block=column_block
    )


def _whole_rows(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> ProductConfig:
    """Blocks of few tiles and all columns: rows of results are written whole."""
    (tiles, panels, batches), cores = _counts(product, config, machine), int(machine.cores.value)
    row_block = _equal_blocks(tiles, min(tiles, LEAST_TILES), batches, cores)
    return replace(config, row_block=row_block, column_block=panels)


def is_whole_rows(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> bool:
    """Whether blocks write rows of results whole: all columns of so few rows that the second cache keeps them
    meanwhile.  Tiles that are turned write columns, which go on in the next tile."""
    (_, panels, _), width = _counts(product, config, machine), config.vectors * machine.lanes
    written = 4 * width * config.rows * config.row_block * min(config.column_block, panels)
    return product.is_turned or panels == 1 or (config.column_block >= panels and written <= machine.l2_bytes.value / 4)


def _with_marks(
    product: CpuProduct, machine: CpuTarget, marks: CpuMarks, config: ProductConfig
) -> ProductConfig:
    """Blocks as marks ask for, where they do."""
    (tiles, panels, _), (rows_dim, columns_dim) = _counts(product, config, machine), _dimensions(product)
    row_block = marks.number(
        "block", config.row_block, f"1 to {tiles} tiles", lambda k: max(1, min(k, tiles)), rows_dim
    )
    column_block = marks.number(
        "block", config.column_block, f"1 to {panels} panels", lambda k: max(1, min(k, panels)), columns_dim
    )
    return replace(config, row_block=row_block, column_block=column_block)


def _equal_blocks(tiles: int, most: int, others: int, cores: int) -> int:
    """Tiles of a block, at most `most`: blocks of equal size, as many as cores have work with to the end.

    others: blocks beside each one.
    """
    blocks = -(-tiles // most)
    while blocks < tiles and others * blocks < TASKS * cores and others * blocks % cores:
        blocks += 1
    return -(-tiles // blocks)


def _dimensions(product: CpuProduct) -> tuple[tuple[str, str], tuple[str, str]]:
    """Where marks about rows and columns stand: the innermost loop of each side."""
    name = product.anchor.name
    return (name, product.rows.loops[-1].name), (name, product.columns.loops[-1].name)


def depth_units(product: CpuProduct) -> tuple[int, int]:
    """How many parts blocks divide the depth by, and the words of each: values of the outermost loop, or words."""
    if len(product.depth) == 1:
        return product.words, 1
    return product.depth[0].extent, product.words // product.depth[0].extent


def flat_step(side: ProductSide, position: Index) -> int | None:
    """Elements from one row or column to the next in an array, where that is always the same."""
    steps = [position.coefficient(i.name) for i in side.loops]
    for (outer, inner), loop in zip(itertools.pairwise(steps), side.loops[1:], strict=True):
        if outer != inner * loop.extent:
            return None
    return steps[-1] if steps[-1] > 0 else None


def direct_position(product: CpuProduct, side: ProductSide) -> Index | None:
    """The place of a factor's element where it needs neither conversion nor condition; None for others."""
    if product.instruction.depth > 1 or not isinstance(side.factor, Access) or side.factor.guards:
        return None
    array = product.program.arrays[side.factor.array]
    position = linear(side.factor.indices, array.shape)
    return position if array.dtype == "float32" and position.is_affine else None


def row_mode(product: CpuProduct, rows: int) -> str:
    """How rows come to tiles of so many."""
    side = product.rows
    if side.is_constant:
        return PREPARED
    if side.staging is not None:
        return STAGED
    position = direct_position(product, side)
    places = None if position is None else row_places(side, position, rows)
    return PACKED if places is None or (rows > 1 and places.step * 4 % PAGE == 0) else DIRECT


def column_mode(product: CpuProduct) -> str:
    """How columns come to tiles."""
    if product.columns.is_constant:
        return PREPARED
    if product.columns.staging is not None:
        return STAGED
    position = direct_position(product, product.columns)
    return DIRECT if position is not None and flat_step(product.columns, position) == 1 else PACKED
