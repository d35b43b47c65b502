"""What the analyses say of two products in a row: `stitch` keeps rows together, `tensorize` chooses tiles and the
instruction, `pipeline` how many tiles of keys are under way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.cost.estimate import model_microseconds
from engine.fusion.attention_cost import KEYS, TILES, WHOLE, head_parts, shared_bytes
from engine.fusion.attention_sharing import stages_of
from engine.fusion.chained_products import ChainedProducts, chain_of
from engine.fusion.nodes import FusionGroup
from engine.fusion.row_cost import covering
from engine.graph.nodes import DTYPES
from engine.kernels.advice import mark, ranked_scenario
from engine.kernels.attention.cuda_cores import SHARERS
from engine.kernels.family import Setting
from engine.kernels.nodes import Compile
from engine.recipe import Advice, Entry, Recipe, Scenario
from engine.target import Target
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.nodes import Iterator, TensorProgram
from engine.tensorize.bind import is_allowed, pair_misfit
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic

MOST_HELD = 128
"""Registers of a thread for scores and what is made of them: NVRTC 13.0 then spills nothing."""
MOST_OWN, MOST_COMPARED = 4, 3
"""Queries of a thread, and tiles that are compared."""
MOST_ALIVE = 4
"""Values of an element counted as alive at once."""


def chained_group(group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
    """The advice for two products in a row: of the tiles of queries that come into question, what the estimate promises
    most of."""
    program, machine = group.program, setting.machine
    found = chain_of(program)
    intrinsic = _intrinsic(program, found, setting.numerics)
    keys = covering(found.key.extent) if found.has_whole_rows else min(KEYS, covering(found.key.extent))
    offered = [
        (f"tiles of {queries} queries and {keys} keys", _advice(found, (queries, own, keys), intrinsic, setting))
        for queries, own in _tiles(program, found, keys, intrinsic, machine)
    ]
    pins = Advice("stitch", Scenario(tuple(_pins(program, found))))

    def microseconds(entries: Sequence[Entry]) -> float:
        advice = pins, Advice("tensorize", Scenario(tuple(entries)))
        recipe = Recipe(machine.name, numerics=setting.numerics, groups={group.name: advice})
        return model_microseconds(compile_group(group, recipe).facts, machine)

    times = {label: microseconds(entries) for label, entries in offered} if len(offered) > 1 else {}
    ranked = sorted(offered, key=lambda one: times.get(one[0], 0.0))
    scenario = ranked_scenario(
        [(label, f"{times[label]:.3g} µs predicted" if times else "", entries) for label, entries in ranked], ""
    )
    return pins, Advice("tensorize", scenario)


def _advice(
    found: ChainedProducts, tiles: tuple[int, int, int], intrinsic: Intrinsic | None, setting: Setting
) -> list[Entry]:
    """The instruction, tiles and stages.  tiles: queries of a block and of a warp or thread, and keys."""
    (queries, own, keys), machine, scores = tiles, setting.machine, (found.scores.name,)
    entries: list[Entry] = []
    if intrinsic is not None:
        where, because = found.scores.reduced[-1].name, f"multiplies both products; {intrinsic.because}"
        entries.append(Entry(scores, where, "mark", ("intrinsic", intrinsic.name), because=because))
    blocks = _points(found.batch) * -(-_points(found.queries) // queries) * head_parts(_points(found.heads))[1]
    row, (whose, sharers) = found.queries[-1].name, ("warp", WARP) if intrinsic else ("thread", SHARERS)
    entries.append(mark(scores, row, "block", queries, f"{blocks} blocks for {machine.sm_count} SMs"))
    entries.append(mark(scores, row, whose, own, f"{keys * own // sharers} scores to a thread beside its results"))
    steps = -(-found.key.extent // keys)
    why = "a block has whole rows of scores" if found.has_whole_rows else f"{steps} tiles of keys"
    entries.append(mark(scores, found.key.name, "tile", keys, why))
    stages = stages_of(steps)
    why = "one tile: there is nothing to overlap" if steps == 1 else f"{steps} tiles of keys follow each other"
    return [*entries, mark(scores, found.key.name, "stages", stages, why)]


def _pins(program: TensorProgram, found: ChainedProducts) -> list[Entry]:
    """One loop around all statements for each axis of rows."""
    everyone, where, entries = tuple(s.name for s in program.statements), "outermost", []
    for row in (*found.batch, *found.queries):
        because = f"rows are independent: what {row.name} makes of one stays in its block"
        entries.append(Entry(everyone, where, "pin", (row.name,), because=because))
        where = f"after {row.name}"
    return entries


def _intrinsic(program: TensorProgram, found: ChainedProducts, numerics: Mapping[str, str]) -> Intrinsic | None:
    """The first instruction that multiplies both products."""
    held = program.arrays[found.weights].dtype
    usable = (i for i in INTRINSICS.values() if is_allowed(i, numerics))
    return next((i for i in usable if not pair_misfit(found.scores, found.value_factor, held, program, i)), None)


def _tiles(
    program: TensorProgram, found: ChainedProducts, keys: int, intrinsic: Intrinsic | None, machine: Target
) -> list[tuple[int, int]]:
    """(queries of a block, of a warp or thread) that come into question: those that fit, from about a block for every
    multiprocessor on."""
    rows, batches = _points(found.queries), _points(found.batch) * head_parts(_points(found.heads))[1]
    element, is_wide = DTYPES[program.arrays[found.weights].dtype], intrinsic is None
    sizes = _points(found.scores.reduced), head_parts(_points(found.heads))[0]
    fitting = [
        queries for queries in TILES if queries < 2 * max(rows, WHOLE)
        and shared_bytes(sizes, queries, keys, 1, element, is_wide) <= machine.shared_limit
    ] or [TILES[-1]]  # fmt: skip
    busy = [queries for queries in fitting if 2 * batches * -(-rows // queries) >= machine.sm_count]
    some = (busy or fitting[-1:])[:MOST_COMPARED]
    return [(queries, FRAGMENT_SIZE if intrinsic else _of_thread(found, queries, keys)) for queries in some]


def _of_thread(found: ChainedProducts, queries: int, keys: int) -> int:
    """Queries of a thread on CUDA cores, whose scores and what is made of them its registers hold."""
    made = {s.write.array for s in found.between}
    alive = 2 + len({a.array for s in found.between for a in s.reads()} & made)
    own = MOST_OWN
    while own > 1 and own * keys // SHARERS * min(alive, MOST_ALIVE) > MOST_HELD:
        own //= 2
    return max(own, queries // min(queries, keys, MAX_THREADS // SHARERS))


def _points(iterators: tuple[Iterator, ...]) -> int:
    return math.prod(i.extent for i in iterators)
