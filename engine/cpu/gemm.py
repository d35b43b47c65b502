"""The family of products: tiles of sums in registers, panels of packed words, an instruction for each pair of types."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.cpu.estimate import estimate_cpu
from engine.cpu.in_place import find_in_place
from engine.cpu.marks import CpuMarks
from engine.cpu.nodes import CppProgram, CpuWork
from engine.cpu.panels import batches_of
from engine.cpu.product import PIPES, TURNING, CpuProduct, bringing_clocks, match_products, tile_clocks, tiles_of
from engine.cpu.product_text import ProductText
from engine.cpu.source import KernelText
from engine.cpu.tiles import NEAR, PACKED, PREPARED, STAGED, ProductConfig, depth_units, is_whole_rows, make_configs
from engine.cpu.traffic import vector_operations
from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.scheduling.nodes import ScheduleTree
from engine.target.cpu import CpuTarget
from engine.tensor.traffic import compulsory_bytes

GEMM = "gemm"
SCATTERED = 3
"""Bytes that count as moved by the third cache for one of a result of which a block writes a part of each row, and
later the next part: the hardware seems not to fetch those lines ahead (fitted to the convolutions of ResNet-50 on a
Xeon, by which `tests.benchmarks.cpu` grades it, too; the recorded spaces of an EPYC had no say)."""
CALL = 40
"""Instructions of a tile beside its products and sums."""


def lower_gemm(group: FusionGroup, tree: ScheduleTree, machine: CpuTarget) -> CppProgram:
    """The kernel of a product; Unsupported where a group or a schedule is none."""
    marks = CpuMarks(tree)
    product = _choose_product(match_products(group.program, tree, machine), marks)
    config = _choose_config(product, machine, marks)
    kernel = KernelText(group, machine, ("scalar.hpp", "product.hpp"), find_in_place(product))
    writer = ProductText(product, config, kernel, machine)
    writer.constants()
    writer.functions()
    writer.tile_functions()
    prepared = _prepared_memory(product, config, writer)
    with kernel.function([(name, kind) for name, kind, _ in prepared]):
        writer.loops()
    if prepared:
        with kernel.prepare_function([(name, kind) for name, kind, _ in prepared]):
            writer.prepare()
    placements = {
        s.name: "memory" if s.write.array in group.program.outputs else "variable: made from a tile's sums"
        for s in group.program.statements
    }
    return CppProgram(
        GEMM, kernel.source(0, tuple(size for _, _, size in prepared)), product_work(product, config, machine),
        {**config.marks(), "mapping": product.name}, marks.notes(), placements, intrinsic=product.instruction.name,
    )  # fmt: skip


def _choose_product(mappings: Sequence[CpuProduct], marks: CpuMarks) -> CpuProduct:
    """The mapping that a mark names, or the best."""
    by_name = {product.name: product for product in mappings}
    return by_name[marks.word("intrinsic", mappings[0].name, sorted(by_name))]


def _choose_config(product: CpuProduct, machine: CpuTarget, marks: CpuMarks) -> ProductConfig:
    """The tile, with its blocks, that is predicted to be the quickest; marks go before."""
    tiles = [tile for tile in tiles_of(product, machine) if tile[0] <= max(4, product.rows.size)]
    made = [one for tile in tiles for one in make_configs(product, machine, marks, tile)]
    return min(made, key=lambda one: estimate_cpu(product_work(product, one, machine), machine).microseconds)


def _prepared_memory(
    product: CpuProduct, config: ProductConfig, writer: ProductText
) -> list[tuple[str, str, int]]:
    """(name, type, bytes) of the panels that are prepared when a graph is loaded."""
    found = []
    for mode, side, what, width in (
        (config.row_mode, product.rows, "rows", config.rows),
        (config.column_mode, product.columns, "columns", writer.width),
    ):
        if mode == PREPARED:
            panels = math.prod(i.extent for i in batches_of(product, side)) * -(-side.size // width)
            found.append((f"prepared_{what}", "u32", 4 * panels * width * product.words))
            if what == "rows" and writer.shifts:
                found.append(("prepared_sums", "int", 4 * (panels * width + writer.machine.lanes)))
    return found


def _third_cache_bytes(
    product: CpuProduct, config: ProductConfig, machine: CpuTarget, row_blocks: int, column_blocks: int
) -> int:
    """Factors as often as blocks bring them to the second cache, at least everything once; and what results cost that
    are written in parts."""
    batches, cores = math.prod(i.extent for i in product.batch), int(machine.cores.value)
    m, n, word = product.rows.count, product.columns.count, 4 * product.words
    # What stays in the second cache is brought there once by each core.
    stays = machine.l2_bytes.value / 2 / word
    rows_again = min(column_blocks, cores) if config.rows * config.row_block <= stays else column_blocks
    columns_again = min(row_blocks, cores) if n <= stays else row_blocks
    factors = batches * word * (rows_again * m + columns_again * n)
    result = batches * m * n * sum(DTYPES[product.program.arrays[name].dtype] for name in product.program.outputs)
    in_parts = 0 if is_whole_rows(product, config, machine) else SCATTERED * result
    return max(sum(compulsory_bytes(product.program)), factors) + in_parts


def product_work(product: CpuProduct, config: ProductConfig, machine: CpuTarget) -> CpuWork:
    """What the tiles do, those at the edges as large as they are."""
    m, n, words = product.rows.count, product.columns.count, product.words
    batches = math.prod(i.extent for i in product.batch)
    width = config.vectors * machine.lanes
    tiles, panels = -(-m // config.rows), -(-n // width)
    clocks = tile_clocks(product, (config.rows, config.vectors), machine)
    done = batches * words * clocks * PIPES * machine.lanes * 2
    useful = batches * words * m * n * 2
    packing = 0
    row_blocks, column_blocks = -(-tiles // config.row_block), -(-panels // config.column_block)
    if {PACKED, STAGED} & {config.row_mode, config.column_mode}:
        again = column_blocks if config.row_mode == PACKED else row_blocks if config.column_mode == PACKED else 1
        packing += int(bringing_clocks(product, (config.rows, config.vectors), machine) * PIPES * again)
    after: float = sum(vector_operations(s, machine) for s in product.after)
    if product.is_turned:  # lanes walk the rows of a tile
        filled = -(-config.rows // machine.lanes) * machine.lanes / config.rows
        after = filled * (after + TURNING * PIPES * batches * m * n / machine.lanes)
    moved = sum(compulsory_bytes(product.program))
    units, each = depth_units(product)
    # Each tile writes its sums, and where the depth is in blocks reads and writes them for each.
    calls = batches * tiles * panels * -(-units // config.depth_block)
    handing = calls * (CALL + config.rows * config.vectors * (2 if units == config.depth_block else 4))
    # Columns that fit the first cache stay there for all tiles below one another.
    is_near = 4 * width * each * config.depth_block <= NEAR * machine.l1_bytes.value
    streamed = 4 * batches * words * panels * (m + width * (row_blocks if is_near else tiles))
    return CpuWork(
        regions=1, tasks=batches * row_blocks * column_blocks, flops=int(useful),
        vector_ops=int(after + packing + handing),
        bytes_compulsory=moved, bytes_l1=int(4 * batches * words * tiles * panels * (config.rows + width)),
        bytes_l2=streamed, bytes_l3=_third_cache_bytes(product, config, machine, row_blocks, column_blocks),
        rate_share=useful / done if done else 1.0,
    )  # fmt: skip
