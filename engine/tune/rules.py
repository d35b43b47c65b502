"""Which programs there are for a contraction: a table of rules, each with condition, action and reason.

The order is the published one (GTA's rules for GPUs, on Ansor's).  A rule looks at the contraction and either opens
choices or is left out; both say why.  A rule that our pipeline decides without a choice opens none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from engine.explore.limits import CORE_STAGES
from engine.fuse.nodes import FusionGroup
from engine.predict.alcop_nodes import Contraction
from engine.predict.alcop_problem import Sides
from engine.target import Target
from engine.tensorize.space import FRAGMENT, Knobs, Space
from engine.tune.nodes import Applied

TENSOR_TILES, TENSOR_WARPS, CHUNKS = (1, 2, 4), (1, 2, 4), (1, 2, 4, 8)
"""Fragments of a warp's tile along a side, warps of a block along a side, fragments along the depth."""
STAGES, SETS, SLICES = (1, 2, 3, 4, 5, 6), (1, 2, 4), (1, 2, 4)
CORE_TILES, CORE_THREADS, CORE_DEPTHS = (1, 2, 4, 8), (4, 8, 16, 32), (8, 16, 32, 64)
"""On CUDA cores: results of a thread along a side, threads of a block along a side, depths of a tile."""
FEWEST_STEPS = 4
"""Tiles of depth that each slice must have left."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the rules look at."""

    group: FusionGroup
    sides: Sides
    contraction: Contraction
    machine: Target
    mapping: str
    """Name of the intrinsic, or of what computes without one."""

    @property
    def smallest_grid(self) -> int:
        """Blocks with the largest tiles: what is sure to run at once."""
        tile = FRAGMENT * TENSOR_TILES[-1] * TENSOR_WARPS[-1]
        c = self.contraction
        return -(-c.m // tile) * -(-c.n // tile) * c.batch


@dataclass(frozen=True, slots=True)
class Sketch:
    """The choices that are open."""

    space: Space = field(default_factory=lambda: Space((1,), (1,), (1,), (1,), (1,), (1,), (1,)))
    slices: tuple[int, ...] = (1,)

    def __len__(self) -> int:
        return len(self.space) * len(self.slices)

    def points(self) -> Iterator[Knobs]:
        """Every combination once."""
        for knobs in self.space.points():
            for slices in self.slices:
                # A slice has the depth that is chosen: the tile of a block grows with their number.
                rows, columns, depth = knobs.block
                yield replace(knobs, block=(rows, columns, depth * slices), slices=slices)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    name: str
    condition: Callable[[Situation], str]
    """Why the rule does not apply; "" where it does."""
    action: Callable[[Sketch, Situation], Sketch]
    because: str


def sketch(situation: Situation) -> tuple[Sketch, tuple[Applied, ...]]:
    """All programs that the rules allow, and what each rule did."""
    made = Sketch()
    told: list[Applied] = []
    for rule in RULES:
        why_not = rule.condition(situation)
        if not why_not:
            made = rule.action(made, situation)
        told.append(Applied(rule.name, not why_not, why_not or rule.because, len(made)))
    return made, tuple(told)


def _always(situation: Situation) -> str:
    return ""


def _never(because: str) -> Callable[[Situation], str]:
    return lambda situation: because


def _without_intrinsic(situation: Situation) -> str:
    return "the intrinsic reserves the innermost tiles" if situation.contraction.unit else ""


def _with_intrinsic(situation: Situation) -> str:
    return "" if situation.contraction.unit else "no instruction multiplies these operands"


def _has_neighbours(situation: Situation) -> str:
    return "" if len(situation.group.program.statements) > 1 else "the group is the product alone"


def _is_narrow(situation: Situation) -> str:
    if not situation.contraction.unit:
        return "threads of a block share no sums on CUDA cores"
    blocks, sms = situation.smallest_grid, int(situation.machine.sms.value)
    if blocks >= sms:
        return f"{blocks} blocks of the largest tiles fill {sms} SMs"
    steps = situation.contraction.k // (FRAGMENT * 2)
    return "" if steps >= 2 * FEWEST_STEPS else f"{situation.contraction.k} depths are too few to share"


def _nothing(made: Sketch, situation: Situation) -> Sketch:
    return made


def _cached(made: Sketch, situation: Situation) -> Sketch:
    if situation.contraction.unit:
        return replace(made, space=replace(made.space, chunks=CHUNKS, stages=STAGES))
    space = replace(made.space, chunks=CORE_DEPTHS, stages=STAGES[:CORE_STAGES], fragment=1)
    return replace(made, space=space)


def _sliced(made: Sketch, situation: Situation) -> Sketch:
    return replace(made, slices=SLICES)


def _tiled_by_thread(made: Sketch, situation: Situation) -> Sketch:
    tiles, threads = CORE_TILES, CORE_THREADS
    space = replace(made.space, row_tiles=tiles, column_tiles=tiles, row_warps=threads, column_warps=threads)
    return replace(made, space=space)


def _tiled(made: Sketch, situation: Situation) -> Sketch:
    tiles, warps = TENSOR_TILES, TENSOR_WARPS
    return replace(
        made,
        space=replace(made.space, row_tiles=tiles, column_tiles=tiles, row_warps=warps, column_warps=warps),
    )


def _placed(made: Sketch, situation: Situation) -> Sketch:
    return replace(made, space=replace(made.space, register_stages=SETS))


RULES = (
    Rule(
        "add cache read", _always, _cached,
        "operands wait in shared memory at the outermost tile of the depth: its size and its buffers are open",
    ),
    Rule("special compute location", _never("no statement asks for a place of its own"), _nothing, ""),
    Rule(
        "always inline", _has_neighbours, _nothing,
        "element-wise neighbours are computed in registers where their operand is: fusion has decided so",
    ),
    Rule("simplify with constant tensor", _never("no transform with a constant matrix is written"), _nothing, ""),
    Rule(
        "cross-thread reduction", _is_narrow, _sliced,
        "blocks leave SMs empty: sets of warps may share the depth of a tile",
    ),
    Rule("add cache write", _never("sums stay in registers until they are stored"), _nothing, ""),
    Rule(
        "multi-level tiling with fusion", _never("what follows is computed where the sums are: fusion has decided so"),
        _nothing, "",
    ),
    Rule(
        "multi-level tiling", _without_intrinsic, _tiled_by_thread,
        "block tiles and what a thread owns of them are open",
    ),
    Rule(
        "partial multi-level tiling", _with_intrinsic, _tiled,
        "block and warp tiles are open, in whole fragments that the intrinsic reserves",
    ),
    Rule(
        "place main", _with_intrinsic, _placed,
        "fragments are read at the second outermost tile of the depth: how far ahead is open",
    ),
    Rule("place output", _with_intrinsic, _nothing, "results leave at the tile of a warp, above the intrinsic's own"),
    Rule("skip stage", _always, _nothing, "what is left has no choice"),
)  # fmt: skip
"""In the published order."""
