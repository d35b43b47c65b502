"""What one kernel for an attention saves: traffic between the products and launches, against fewer blocks at work."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.fuse.attention import Attention
from engine.target.devices import H200
from engine.target.nodes import Target
from engine.tensor.nodes import Iterator, TensorProgram
from engine.tensor.terms import NARROW
from engine.tensor.traffic import compulsory_bytes

TILES = (128, 64, 32, 16)
"""Queries that one block may take, the most reuse of a tile of keys first."""
FED = 0.5
"""Part of the CUDA cores' rate that products reach: each step reads as much from shared memory as it multiplies."""
MOST_HEADS = 256
"""Elements of a result whose sums stay in the registers of a block's threads; longer ones several blocks make."""
MOST_DEPTH = 384
"""Elements of a query up to which the places of its tiles fit registers too."""
WIDE, WIDE_TILE = 128, 64
"""Elements of a query beyond which a block takes fewer queries, and how many at most."""
WHOLE = 16
"""Depths and heads that tiles are padded to multiples of."""
PAD, FLOAT = 16, 4
"""Bytes between the rows of a tile, and of a weight on CUDA cores."""
LAUNCHES = 3
"""Kernels of an attention that is not fused: scores, softmax, values."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Bytes and predicted seconds of an attention as one kernel and as three."""

    between: int
    """Bytes of scores and weights, each written once and read once: one kernel never moves them."""
    outside: int
    """Bytes of queries, keys, values, masks and results, which both move."""
    fused: float
    separate: float

    @property
    def pays(self) -> bool:
        """Whether one kernel is predicted to be faster."""
        return self.fused < self.separate

    def __str__(self) -> str:
        times = f"{self.fused * 1e6:.3g} µs predicted in place of {self.separate * 1e6:.3g}"
        return f"{_text(self.outside)} moved in place of {_text(self.outside + self.between)}, {times}"


def gain(program: TensorProgram, found: Attention, target: Target = H200) -> Gain:
    """What one kernel brings on a GPU, by traffic, arithmetic, launches and the blocks that keep it busy."""
    masked = (found.scores, *found.chain)[-1].write.array
    between = 2 * (program.arrays[masked].bytes + program.arrays[found.weights].bytes)
    outside = sum(compulsory_bytes(_alone(program, found)))
    tile, blocks = query_tile(found, int(target.sms.value))
    _, parts = head_parts(_points(found.heads))
    busy = min(1.0, blocks / target.sms.value)
    is_narrow = program.arrays[found.weights].dtype in NARROW
    rate = target.tensor_rate.value if is_narrow else target.fp32_rate.value * FED
    scores, values = (2 * math.prod(s.extents.values()) for s in (found.scores, found.values))
    padded = blocks // parts * tile / _points((*found.batch, *found.queries))
    bandwidth, launch = target.dram_bandwidth.value, target.launch_overhead.value
    return Gain(
        between,
        outside,
        fused=launch + max(outside / bandwidth, padded * (parts * scores + values) / rate) / busy,
        separate=LAUNCHES * launch + max((outside + between) / bandwidth, (scores + values) / rate),
    )


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


def _text(count: float) -> str:
    for scale, prefix in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.3g} {prefix}"
    return f"{count:.0f} B"
