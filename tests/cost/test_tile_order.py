"""What the order of blocks costs, against a cache that is filled wave by wave."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Iterator

import pytest

from engine.cost.nodes import TileOrder
from engine.cost.tile_order import lost_bytes

PANEL = 1 << 20
"""Bytes of a row and of a column of tiles."""


def blocks_of(order: TileOrder) -> Iterator[tuple[int, int]]:
    """(row, column) of the tile of each block, in order."""
    rows, columns = order.counts
    for first in range(0, rows, order.raster):
        for column in range(columns):
            yield from ((first + n, column) for n in range(order.raster))


def simulate(order: TileOrder, at_once: int, panels: int) -> int:
    """Bytes that a cache of so many panels reads beyond the first time; the least recently used one goes."""
    kept: OrderedDict[tuple[str, int], None] = OrderedDict()
    blocks, read = list(blocks_of(order)), 0
    for start in range(0, len(blocks), at_once):
        wave = blocks[start : start + at_once]
        # Blocks that run at once read a panel together, whatever the cache holds.
        for panel in dict.fromkeys([*(("row", r) for r, _ in wave), *(("column", c) for _, c in wave)]):
            read += panel not in kept
            kept[panel] = None
            kept.move_to_end(panel)
        while len(kept) > panels:
            kept.popitem(last=False)
    return (read - sum(order.counts)) * PANEL


def order_of(rows: int, columns: int, raster: int) -> TileOrder:
    return TileOrder((rows, columns), raster, (rows * PANEL, columns * PANEL))


@pytest.mark.parametrize("seed", range(40))
def test_a_small_cache_loses_what_a_simulated_one_does(seed: int) -> None:
    """A cache of one panel keeps nothing from one wave to the next; whole waves to a group, or whole groups to a wave.
    """
    draw = random.Random(seed)
    raster, groups = draw.choice((1, 2, 4, 8)), draw.randint(2, 6)
    if seed % 2:
        across, waves = draw.randint(1, 8), draw.randint(2, 6)
        order, at_once = order_of(raster * groups, across * waves, raster), raster * across
    else:
        columns, together = draw.randint(2, 8), draw.choice([n for n in range(1, groups + 1) if groups % n == 0])
        order, at_once = order_of(raster * groups, columns, raster), raster * columns * together
    found, expected = lost_bytes(order, at_once, capacity=PANEL), simulate(order, at_once, panels=1)
    # The simulated wave keeps its last panel, which the next one may want: at most one of each wave.
    assert abs(found - expected) <= PANEL * math.ceil(math.prod(order.counts) / at_once)


@pytest.mark.parametrize("raster", [1, 2, 4, 8, 16])
def test_the_order_that_loses_least_is_that_of_the_simulated_cache(raster: int) -> None:
    """32 x 32 tiles, 64 blocks at once: the cache holds 16 rows of tiles and four columns, not 32 and two."""
    best = min((1, 2, 4, 8, 16, 32), key=lambda n: simulate(order_of(32, 32, n), 64, panels=24))
    least = lost_bytes(order_of(32, 32, best), 64, capacity=24 * PANEL)
    assert best == 16 and least <= lost_bytes(order_of(32, 32, raster), 64, capacity=24 * PANEL)


def test_nothing_is_lost_where_both_operands_stay() -> None:
    order = order_of(32, 32, 1)
    assert lost_bytes(order, 64, capacity=64 * PANEL) == 0 < lost_bytes(order, 64, capacity=20 * PANEL)


def test_batches_lose_as_much_each() -> None:
    one, three = order_of(32, 32, 1), TileOrder((32, 32), 1, (32 * PANEL, 32 * PANEL), 3)
    assert lost_bytes(three, 64, capacity=20 * PANEL) == 3 * lost_bytes(one, 64, capacity=20 * PANEL)
