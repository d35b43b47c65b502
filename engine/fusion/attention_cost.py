"""How one kernel for an attention is cut: queries and keys of a tile, and what its blocks then have to do.

Where tiles of queries are too few for all multiprocessors, several blocks share the keys of each and meet at the end: a
single query with long keys then keeps the GPU busy, and pays for a meeting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.fusion.attention import Attention
from engine.fusion.attention_sharing import KeyWalk
from engine.graph.nodes import DTYPES
from engine.target.nodes import Target
from engine.tensor.nodes import Iterator, TensorProgram
from engine.tensor.traffic import compulsory_bytes

TILES = (128, 64, 32, 16)
"""Queries that one block may take, the most reuse of a tile of keys first."""
MOST_HEADS = 256
"""Elements of a result whose sums stay in the registers of a block's threads; longer ones several blocks make."""
MOST_DEPTH = 384
"""Elements of a query up to which the places of its tiles fit registers too."""
WIDE, WIDE_TILE = 128, 64
"""Elements of a query beyond which a block takes fewer queries, and how many at most."""
KEYS = 64
"""Of a tile: a tile of either operand is as wide as those of a matrix product."""
WHOLE = 16
"""Depths and heads that tiles are padded to multiples of."""
PAD, FLOAT = 16, 4
"""Bytes between the rows of a tile, and of a weight on CUDA cores."""
WIDE_HEAD = 64
"""Elements of a query beyond which registers and shared memory are short."""
SHARERS, FLOATS = 16, 4
"""On CUDA cores: threads of a row of queries, and multiply-adds that a float from shared memory must serve at the full
rate (128 lanes, 32 banks)."""
MOST_STAGES = 3
"""Tiles of keys and values in shared memory."""


@dataclass(frozen=True, slots=True)
class TileChoice:
    """How an attention is cut."""

    queries: int
    """Of a block."""
    blocks: int
    """Tiles of queries, of all batches."""
    keys: int
    """Of a tile."""
    own: int
    """Queries of a warp on tensor cores, of a thread without them."""


def walk_of(
    program: TensorProgram, found: Attention, tiles: TileChoice, on_tensor_cores: bool, target: Target
) -> KeyWalk:
    """What the blocks of one kernel do."""
    heads, parts = head_parts(_points(found.heads))
    padded = tiles.blocks // parts * tiles.queries / _points((*found.batch, *found.queries))
    scores, values = (padded * count for count in _operations(found))
    scores *= parts
    weights, sizes = program.arrays[found.weights].dtype, (_points(found.scores.reduced), heads)
    rate, fed = target.tensor_core_rate(weights).value, [1.0, 1.0]
    if not on_tensor_cores:
        rate = target.fp32_rate.value
        fed = [_feeding_rate(tiles.own, columns // SHARERS) for columns in (tiles.keys, heads)]
    held = shared_bytes(sizes, tiles.queries, tiles.keys, MOST_STAGES, DTYPES[weights], not on_tensor_cores)
    return KeyWalk(
        blocks=tiles.blocks,
        steps=-(-found.key.extent // tiles.keys),
        moving=sum(compulsory_bytes(_alone(program, found))) / target.dram_bandwidth.value,
        arithmetic=(scores + values) / rate,
        reached=(scores + values) / (scores / fed[0] + values / fed[1]),
        warps=tiles.queries // (tiles.own if on_tensor_cores else 2 * tiles.own),
        resident=max(1, int(target.shared_per_sm.value // (held + target.shared_reserved.value))),
        left=min(tiles.queries, _points(found.queries)) * (heads + 2),
    )


def _feeding_rate(rows: int, columns: int) -> float:
    """Part of the CUDA cores' rate that a thread reaches which multiplies a tile: 4 x 4 is fed half of the time."""
    return min(1.0, rows * columns / (rows + columns) / FLOATS)


def _operations(found: Attention) -> tuple[int, int]:
    """Of the two products."""
    scores, values = (2 * math.prod(s.extents.values()) for s in (found.scores, found.values))
    return scores, values


def query_tile(found: Attention, sms: int) -> tuple[int, int]:
    """(queries of a block, blocks): the widest tile with a block for every multiprocessor, none wider than needed.

    Few queries have few threads, which would hold too many addresses of a very long key.
    """
    batches, queries = _points(found.batch), _points(found.queries)
    batches *= head_parts(_points(found.heads))[1]
    is_wide = max(_points(found.scores.reduced), _points(found.heads)) > WIDE
    most = min(max(TILES[-1], 1 << (queries - 1).bit_length()), WIDE_TILE if is_wide else TILES[0])
    least = WIDE_TILE if _points(found.scores.reduced) > MOST_HEADS else TILES[-1]
    choices = [(tile, batches * -(-queries // tile)) for tile in TILES if least <= tile <= max(least, most)]
    return next((choice for choice in choices if choice[1] >= sms), choices[-1])


def head_parts(heads: int) -> tuple[int, int]:
    """(elements of a result that one block makes, blocks that make one together).

    Each of these blocks computes the scores again, so they are as few as registers allow.
    """
    parts = -(-heads // MOST_HEADS)
    return -(-heads // parts // WHOLE) * WHOLE, parts


def shared_bytes(sizes: tuple[int, int], queries: int, keys: int, stages: int, element: int, on_cores: bool) -> int:
    """Bytes of shared memory of a block: its queries, and `stages` tiles of keys and of values.

    sizes: depth and heads.  on_cores: CUDA cores keep the weights there too, as float32.
    """
    depth, heads = (-(-size // WHOLE) * WHOLE + PAD // element for size in sizes)
    tiles = (queries * depth + stages * keys * (depth + heads)) * element
    return tiles + (queries * (keys * FLOAT + PAD) if on_cores else 0)


def _alone(program: TensorProgram, found: Attention) -> TensorProgram:
    """The attention as a program of its own."""
    made = {s.write.array for s in found.members}
    reads = dict.fromkeys(a.array for s in found.members for a in s.reads() if a.array not in made)
    return replace(program, statements=found.members, inputs=tuple(reads), outputs=(found.values.write.array,))


def _points(iterators: tuple[Iterator, ...]) -> int:
    return math.prod(i.extent for i in iterators)
