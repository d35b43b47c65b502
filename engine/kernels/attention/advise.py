"""What the analyses say of an attention: `stitch` joins the two products' loops over keys, `tensorize` chooses tiles
and the instruction, `pipeline` how many tiles of keys are under way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from engine.fusion.attention import Attention, attention_of
from engine.fusion.attention_cost import (
    KEYS,
    TILES,
    WIDE,
    WIDE_HEAD,
    TileChoice,
    head_parts,
    query_tile,
    shared_bytes,
    walk_of,
)
from engine.fusion.attention_sharing import Sharing, share_between, share_keys, stages_of
from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.advice import AS_IN_TEXT, mark, ranked_scenario
from engine.kernels.attention.tensor_cores import MOST_HELD, is_crowded
from engine.kernels.preferences import preferences
from engine.recipe import ONLINE, Advice, Entry, Scenario
from engine.rewrite.online import online
from engine.target import Target
from engine.target.hardware import WARP
from engine.tensor.nodes import Iterator, TensorProgram
from engine.tensorize.bind import attention_misfit, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic

_TWO_PRODUCTS = "queries and keys lie along the depth of the scores, values along the results"
SMALL_TILE = 64
"""Queries of a block below which few threads copy a tile, and each holds many addresses."""


def attention_group(group: FusionGroup, machine: Target, numerics: Mapping[str, str]) -> tuple[Advice, ...]:
    """The advice for an attention.

    machine: whose streaming multiprocessors want a block each.  numerics: the recipe's, which say whether float32 may
    be rounded to tf32.
    """
    found, sms = attention_of(group.program), machine.sm_count
    intrinsic = _intrinsic(group.program, found, numerics)
    choice = _fitting(group.program, found, _choice(found, sms, intrinsic), intrinsic, machine)
    on_tensor_cores = intrinsic is not None
    sharing = share_keys(walk_of(group.program, found, choice, on_tensor_cores, machine), machine)
    offered = [(f"{_in_words(choice)}, {AS_IN_TEXT}", "", _tile_entries(found, sms, intrinsic, choice, sharing))]
    smaller = _smaller(found, choice)
    if smaller is not None:
        walk = walk_of(group.program, found, smaller, on_tensor_cores, machine)
        same = share_between(walk, sharing.parts, machine)
        offered.append((_in_words(smaller), "", _tile_entries(found, sms, intrinsic, smaller, same)))
    wishes = preferences(group.program)
    because = f"{wishes.disagreement or _TWO_PRODUCTS}: tiles are copied along each one's own; {wishes.scores}"
    return (
        Advice("stitch", Scenario(tuple(_loop_entries(group.program, found)))),
        Advice("tensorize", ranked_scenario(offered, because)),
        Advice("pipeline", Scenario((_stages(found, choice.keys, sharing.parts),))),
    )


def _in_words(choice: TileChoice) -> str:
    return f"tiles of {choice.queries} queries and {choice.keys} keys"


def _smaller(found: Attention, choice: TileChoice) -> TileChoice | None:
    """Half the queries of a block, which then copies all keys for half the work; else half the keys; None below the
    smallest tiles."""
    least = TILES[-1]
    if choice.queries > least:
        return replace(_halve_queries(found, choice), own=min(choice.own, choice.queries // 2))
    return replace(choice, keys=choice.keys // 2) if choice.keys > least else None


def _halve_queries(found: Attention, choice: TileChoice) -> TileChoice:
    rows, queries = _extent(found.queries), choice.queries // 2
    return replace(choice, queries=queries, blocks=choice.blocks // -(-rows // choice.queries) * -(-rows // queries))


def _intrinsic(program: TensorProgram, found: Attention, numerics: Mapping[str, str]) -> Intrinsic | None:
    """The first instruction that multiplies both products as they are after the rewrite."""
    after = online(program, found.values.name)
    values = after.statement(found.values.name)
    usable = (i for i in INTRINSICS.values() if is_allowed(i, numerics))
    return next((i for i in usable if not attention_misfit(found.scores, values, after, i)), None)


def _choice(found: Attention, sms: int, intrinsic: Intrinsic | None) -> TileChoice:
    """Tiles whose scores and results fit the registers of a thread, without any of them in local memory."""
    queries, blocks = query_tile(found, sms)
    sizes = _extent(found.scores.reduced), head_parts(_extent(found.heads))[0]
    is_wide, is_crooked = max(sizes) > WIDE_HEAD, any(size & (size - 1) for size in sizes)
    keys, is_large = KEYS, queries >= SMALL_TILE and not is_wide
    own = (8 if is_large else 4) if found.queries else 1
    is_paired = intrinsic is not None and intrinsic.element_bytes == DTYPES["float32"]
    if intrinsic is not None:
        own = 32 if queries > SMALL_TILE and max(sizes) <= (WIDE_HEAD if is_paired else WIDE) else 16
    if own == 32:
        read_again = is_crowded(*sizes, found.scores, found.chain)
        keys = _keys_beside(0 if read_again else sizes[0], sizes[1])
    elif is_wide and (intrinsic is None or queries < SMALL_TILE):
        keys //= 2
    if max(sizes) > WIDE or (is_paired and max(sizes) >= WIDE_HEAD and queries < SMALL_TILE):
        keys //= 2
    if is_crooked and intrinsic is None and queries < SMALL_TILE:
        keys //= 2  # places in rows of no power of two are addresses of their own
        own = 2 if max(sizes) > WIDE else own
    return TileChoice(queries, blocks, max(16, min(keys, 1 << (found.key.extent - 1).bit_length())), own)


def _keys_beside(depth: int, heads: int) -> int:
    """Keys of a tile whose scores of 32 queries find room in the registers of a warp beside queries and results.

    depth: 0 where the queries do not stay there.
    """
    keys = KEYS // 2
    while keys > TILES[-1] and depth // 2 + heads + keys > MOST_HELD:
        keys //= 2
    return keys


def _fitting(
    program: TensorProgram, found: Attention, choice: TileChoice, intrinsic: Intrinsic | None, machine: Target
) -> TileChoice:
    """The choice with fewer keys, then fewer queries, until two tiles of keys and values fit the shared memory."""
    element = DTYPES[program.arrays[found.weights].dtype]
    sizes = _extent(found.scores.reduced), head_parts(_extent(found.heads))[0]
    least = TILES[-1]
    while shared_bytes(sizes, choice.queries, choice.keys, 2, element, intrinsic is None) > machine.shared_limit:
        if choice.keys > least:
            choice = replace(choice, keys=choice.keys // 2)
        elif choice.queries > least:
            choice = _halve_queries(found, choice)
        else:
            break
    return choice


def _extent(iterators: tuple[Iterator, ...]) -> int:
    return math.prod(i.extent for i in iterators)


def _loop_entries(program: TensorProgram, found: Attention) -> list[Entry]:
    """The rewrite, and the loops that all statements share."""
    values, key = found.values.name, found.key.name
    because = "keys pass once: no pass for the maximum, none for the sum"
    entries = [Entry((values,), "", "rewrite", (ONLINE,), because=because)]
    everyone = tuple(s.name for s in online(program, values).statements)
    where = "outermost"
    for row in (*found.batch, *found.queries):
        entries.append(_pin(everyone, where, row.name, "rows of scores are independent"))
        where = f"after {row.name}"
    between = tuple(s.name for s in (found.scores, *found.chain, found.values))
    entries.append(_pin(between, where, key, "a tile of scores is used up before the next one is made"))
    return entries


def _pin(statements: tuple[str, ...], dimension: str, name: str, because: str) -> Entry:
    return Entry(statements, dimension, "pin", (name,), because=because)


def _tile_entries(
    found: Attention, sms: int, intrinsic: Intrinsic | None, choice: TileChoice, sharing: Sharing
) -> list[Entry]:
    """The instruction, queries of a block and of a warp or thread, keys of a tile, blocks that share the keys."""
    scores = (found.scores.name,)
    entries: list[Entry] = []
    if intrinsic is not None:
        where, because = found.scores.reduced[-1].name, f"multiplies both products; {intrinsic.because}"
        entries.append(Entry(scores, where, "mark", ("intrinsic", intrinsic.name), because=because))
    if found.queries:
        row = found.queries[-1].name
        readers = -(-_extent(found.queries) // choice.queries)
        because = f"{choice.blocks} blocks for {sms} SMs, {readers} of which copy the same keys"
        entries.append(mark(scores, row, "block", choice.queries, because))
        whose, sharers = ("warp", WARP) if intrinsic else ("thread", 16)
        held = choice.keys * choice.own // sharers
        entries.append(mark(scores, row, whose, choice.own, f"{held} scores to a thread beside its results"))
    steps = -(-found.key.extent // choice.keys)
    because = f"{steps} tile{'s' * (steps > 1)} of keys and values"
    entries.append(mark(scores, found.key.name, "tile", choice.keys, because))
    if sharing.parts > 1:
        entries.append(mark(scores, found.key.name, "split_k", sharing.parts, str(sharing)))
    return entries


def _stages(found: Attention, keys: int, parts: int) -> Entry:
    """Two tiles under way, three where many follow each other in a block."""
    steps = -(-found.key.extent // keys)
    steps = -(-steps // parts)
    stages = stages_of(steps)
    reason = {
        1: "one tile: there is nothing to overlap",
        2: "the next tile is copied while one is used",
        3: f"two copies are under way while a tile is used: {steps} tiles hide the latency of global memory",
    }[stages]
    return mark((found.scores.name,), found.key.name, "stages", stages, reason)
