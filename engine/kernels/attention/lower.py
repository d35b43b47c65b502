"""Attention in one kernel: which tiles and which instruction it takes, and the order of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.fusion.attention_cost import WIDE, head_parts
from engine.fusion.chained_products import MOST_KEYS, chain_of
from engine.fusion.nodes import FusionGroup
from engine.fusion.row_cost import covering
from engine.kernels.attention.block import AttentionTileSizes, Block
from engine.kernels.attention.cuda_cores import SHARERS, CudaCores
from engine.kernels.attention.nest import AttentionNest
from engine.kernels.attention.row_weights import RowWeights
from engine.kernels.attention.softmax import OnlineSoftmax
from engine.kernels.attention.split_keys import join_parts, parts_of_keys
from engine.kernels.attention.tensor_cores import TensorCores
from engine.kernels.marks import Marks, pipeline_requests
from engine.kernels.statement_block import result_statement
from engine.support.errors import Unsupported
from engine.target.hardware import MAX_THREADS, REGISTER_BYTES, WARP
from engine.tensor.nodes import Apply, Literal
from engine.tensor.padding import adds_nothing
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tile.nodes import KernelConfig, TileProgram

MOST_QUERIES = 128
TILE, WIDE_TILE = 64, 16
"""Queries and keys of a tile where nobody asks, and keys where queries or values are long."""
INSTRUCTION = 16
"""Queries, keys, depths and heads are padded to multiples of this."""
REFUSED = {
    "split": "an attention walks its keys by tiles: ask for a tile",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the lanes of a row follow from the instruction or the tile",
}
"""Marks that an attention has no use for, and why."""


@dataclass(frozen=True, slots=True)
class AttentionConfig(KernelConfig):
    """A block's part of an attention."""

    copies_tiles: ClassVar[bool] = True

    intrinsic: str
    """The instruction that multiplies both products; "" on CUDA cores."""
    tiles: AttentionTileSizes
    own: int
    """Queries of a warp; on CUDA cores of a thread."""
    parts: int
    """Blocks that share the keys of each tile of queries."""
    stages: int
    """Tiles of keys and values in shared memory at once."""
    register_stages: int
    """Sets of fragments in registers at once."""

    def with_stages(self, stages: int, register_stages: int) -> AttentionConfig:
        """See `KernelConfig`."""
        return replace(self, stages=stages, register_stages=register_stages)

    @property
    def threads(self) -> int:
        """Of a block: a warp for its queries, or the threads that share a row of scores."""
        return self.tiles.queries // self.own * (WARP if self.intrinsic else SHARERS)


def lower_attention(group: FusionGroup, nest: AttentionNest, marks: Marks, intrinsic: Intrinsic | None) -> TileProgram:
    """One kernel for an attention, on tensor cores where an instruction is given."""
    config = read_config(nest, marks, intrinsic)
    return marks.describe(emit_attention(group, nest, config), config)


def read_config(nest: AttentionNest, marks: Marks, intrinsic: Intrinsic | None) -> AttentionConfig:
    """The tiles and stages that the marks ask for."""
    marks.refuse(REFUSED)
    queries = marks.power("block", TILE, MOST_QUERIES, nest.queries, least=INSTRUCTION) if nest.queries else INSTRUCTION
    sizes = [math.prod(m.extent for m in members) for members in (nest.depth, nest.heads)]
    depth, heads = _pad(sizes[0]), head_parts(sizes[1])[0]
    keys = _keys_of_tile(nest, marks, WIDE_TILE if max(sizes) > WIDE else TILE)
    _check_padding(nest, depth)
    if intrinsic is None:
        own = _queries_of_thread(nest, marks, queries, keys)
        heads = 1 << (heads - 1).bit_length()  # the threads of a row own as many each, in whole vectors
    else:
        own = marks.power("warp", INSTRUCTION, min(32, queries), nest.queries, least=INSTRUCTION)
        marks.refuse({"thread": "the instruction says which scores a thread owns: ask for the queries of a warp"})
    tiles = AttentionTileSizes(queries, keys, depth, heads)
    return AttentionConfig(
        intrinsic=intrinsic.name if intrinsic else "",
        tiles=tiles,
        own=own,
        parts=parts_of_keys(nest, tiles, marks) if nest.is_online else 1,
        stages=marks.stages("stages", 2, (nest.key,)),
        register_stages=marks.stages("register_stages", 1, (nest.key,)),
    )


def _keys_of_tile(nest: AttentionNest, marks: Marks, default: int) -> int:
    """Keys of a tile: all of them where rows of scores are reduced before they are used."""
    if not nest.is_online:
        marks.refuse({"split_k": "blocks share the keys of a softmax alone"})
    if not nest.has_whole_rows:
        return marks.power("tile", default, MOST_KEYS, (nest.key,), least=INSTRUCTION)
    whole = covering(nest.key.extent)
    if whole > MOST_KEYS:
        reason = f"rows of {nest.key.extent} scores are reduced before they are used, a block holds up to {MOST_KEYS}"
        raise Unsupported("codegen", nest.scores.name, reason, "leave what reduces them to a kernel of its own")
    return marks.power("tile", whole, whole, (nest.key,), least=whole)


def _queries_of_thread(nest: AttentionNest, marks: Marks, queries: int, keys: int) -> int:
    """Rows of scores that a thread owns on CUDA cores."""
    rows = marks.power("thread", 4, 8, nest.queries) if nest.queries else 1
    fewest = queries // min(queries, keys, MAX_THREADS // SHARERS)
    if rows < fewest:
        rows = fewest
        marks.note_change("thread", rows, "with fewer, more threads than copies or than a block has", nest.queries)
    marks.refuse({"warp": "the threads of a block share a tile on CUDA cores: ask for the queries of a thread"})
    return rows


def emit_attention(group: FusionGroup, nest: AttentionNest, config: AttentionConfig) -> TileProgram:
    """The kernel of a config."""
    intrinsic, tiles = INTRINSICS.get(config.intrinsic), config.tiles
    # Single values two keys apart meet different banks in padded rows, matrices of them in permuted ones.
    permuted = (True, intrinsic.element_bytes < REGISTER_BYTES) if intrinsic else (False, False)
    block = Block(group, nest, tiles, config.parts, config.threads, permuted)
    products = TensorCores(block, intrinsic, config.own) if intrinsic else CudaCores(block, config.own)
    weights: OnlineSoftmax | RowWeights
    if nest.is_online:
        weights = OnlineSoftmax(block, products.scores, products.results, products.sharers)
    else:
        weights = RowWeights(block, products.scores, products.sharers, chain_of(group.program).weights)
    block.first_copies()
    products.load_queries()
    with block.emitter.loop("tile", block.steps, block.values_link, unroll=False, always=True) as step:
        tile = block.part * block.steps + step
        block.leave_masked(tile)
        block.copy_keys_and_values(tile)
        products.multiply_keys()
        weights.make(tile)
        products.multiply_values()
        block.close_tile()
    if isinstance(weights, OnlineSoftmax):
        weights.add_lanes()
        if block.parts > 1:
            join_parts(block, weights, products.results)
        weights.divide()
    block.epilogue(products.results)
    owner, threads, among = ("warp", WARP, 1) if intrinsic else ("thread", SHARERS, SHARERS)
    own, name = f"{config.own} queries times {tiles.keys // among} keys", f"{owner.upper()}_QUERIES"
    finished = block.finish(
        {name: config.own},
        ((f"THREADS / {threads} * {name} == TILE_QUERIES", f"the {owner}s own the queries exactly"),),
        f"registers of a {owner}: {own} of scores, {tiles.heads // among} of results",
        pipeline_requests(
            config.stages, config.register_stages, (block.key.tile, block.value.tile), *products.fragments_of_loops
        ),
    )
    # Scores and results fill registers: left to itself, the compiler spills some for a block more.
    return replace(finished, together=1)


def _check_padding(nest: AttentionNest, depth: int) -> None:
    """Unsupported where the zeros that fill ragged tiles would count: depths in scores, keys in results."""
    weightless = Apply("mul", (Literal(0.0, "float32"), nest.value_factor.expression), "float32")
    is_ragged = depth > math.prod(m.extent for m in nest.depth)
    for statement in (nest.scores if is_ragged else None, result_statement(nest.values, weightless)):
        if statement is not None and not adds_nothing(statement):
            reason = f"what {statement.name} computes from the zeros that fill a tile would count"
            raise Unsupported("codegen", nest.scores.name, reason, "compute the factors in a kernel before it")


def _pad(size: int) -> int:
    return -(-size // INSTRUCTION) * INSTRUCTION
