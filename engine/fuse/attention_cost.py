"""What one kernel for an attention saves: traffic between the products and launches, against fewer blocks at work."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.fuse.attention import Attention
from engine.target.devices import H200
from engine.target.nodes import Target
from engine.tensor.nodes import Iterator, TensorProgram
from engine.tensor.traffic import compulsory_bytes

TILES = (128, 64, 32, 16)
"""Queries that one block may take, the most reuse of a tile of keys first."""
FED = 0.5
"""Part of the CUDA cores' rate that products reach: each step reads as much from shared memory as it multiplies."""
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
    busy = min(1.0, blocks / target.sms.value)
    is_half = program.arrays[found.weights].dtype == "float16"
    rate = target.tensor_rate.value if is_half else target.fp32_rate.value * FED
    work = 2 * sum(math.prod(s.extents.values()) for s in (found.scores, found.values))
    padded = blocks * tile / _points((*found.batch, *found.queries))
    bandwidth, launch = target.dram_bandwidth.value, target.launch_overhead.value
    return Gain(
        between,
        outside,
        fused=launch + max(outside / bandwidth, padded * work / rate) / busy,
        separate=LAUNCHES * launch + max((outside + between) / bandwidth, work / rate),
    )


def query_tile(found: Attention, sms: int) -> tuple[int, int]:
    """(queries of a block, blocks): the widest tile with a block for every multiprocessor, none wider than needed."""
    batches, queries = _points(found.batch), _points(found.queries)
    most = max(TILES[-1], 1 << (queries - 1).bit_length())
    choices = [(tile, batches * -(-queries // tile)) for tile in TILES if tile <= most]
    return next((choice for choice in choices if choice[1] >= sms), choices[-1])


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
