"""The order in which the blocks of a product take its tiles: the one that reads least of its operands again.

Blocks that run at once share the tiles that they read: of orders that lose as few bytes of L2, the best is that whose
wave reads the fewest rows and columns of both operands, nearest to a square of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.cost.alcop_nodes import GemmProblem
from engine.cost.tile_order import lost_bytes
from engine.support.divisors import divisors
from engine.target import Target
from engine.tensorize.space import GemmConfig

MOST_RASTER = 16
"""Rows of tiles, past which a wave is no squarer on any GPU."""


def in_order(problem: GemmProblem, config: GemmConfig, machine: Target) -> GemmConfig:
    """The configuration with the order of blocks that reads least again, where one block of it runs on each SM.

    On CUDA cores blocks go by rows where L2 holds both operands: they ask far less of it.
    """
    panels = panels_of_wave((problem.m, problem.n), config.block, machine.sm_count)
    if not panels or not (problem.unit or exceeds_l2(problem, machine)):
        return replace(config, raster=1)

    def reads(raster: int) -> tuple[float, int]:
        return bytes_again(problem, replace(config, raster=raster), machine), panels[raster]

    return replace(config, raster=min(panels, key=reads))


def bytes_again(problem: GemmProblem, config: GemmConfig, machine: Target) -> float:
    """Bytes of the operands that L2 loses with the order of a configuration, one block of which runs on each SM."""
    return lost_bytes(problem.tile_order(config), machine.sm_count, machine.l2_bytes.value)


def with_order_of(before: GemmConfig, config: GemmConfig, problem: GemmProblem, machine: Target) -> GemmConfig:
    """The configuration with the order of blocks that a kernel has now, where its tiles stay; else with the best one.
    """
    if config.block[:2] == before.block[:2]:
        return replace(config, raster=before.raster)
    return in_order(problem, config, machine)


def exceeds_l2(problem: GemmProblem, machine: Target) -> bool:
    """Whether the operands of one batch are more than L2 holds, so that some may be read from DRAM again."""
    return sum(problem.operand_bytes) > machine.l2_bytes.value


def panels_of_wave(sizes: Sequence[int], block: Sequence[int], sms: int) -> dict[int, int]:
    """Rows of tiles that blocks may walk down before they go to the right -> rows and columns of the operands that the
    blocks of a wave read; nothing where there are few blocks."""
    rows, columns = (-(-size // b) for size, b in zip(sizes, block, strict=False))
    if rows * columns < 2 * sms:
        return {}
    orders = divisors(rows, MOST_RASTER)
    return {n: n * block[0] + min(columns, -(-sms // n)) * block[1] for n in orders}
