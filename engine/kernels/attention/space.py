"""Attention: queries of a block and of a warp or thread, keys of a tile, tiles under way, and blocks that share the
keys, for each instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.attention import Attention, attention_of
from engine.fusion.attention_cost import head_parts
from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.attention.cuda_cores import SHARERS
from engine.kernels.attention.lower import INSTRUCTION, AttentionConfig
from engine.kernels.gemm.space import CUDA_CORES
from engine.kernels.mma_fragments import SHARERS as FRAGMENT_SHARERS
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.prune import PruningRule, asked_intrinsic, first, make_task
from engine.kernels.sketch_rules import (
    CACHE_READ,
    CROSS_THREAD,
    INLINE,
    PARTIAL_TILING,
    PLACE_MAIN,
    TILING,
    Choices,
    Situation,
)
from engine.kernels.space import KernelTemplate, Program, Refused, Task, Value
from engine.kernels.tuned_entries import with_tuned_entries
from engine.recipe import Entry
from engine.rewrite.online import online
from engine.support.errors import EngineError
from engine.target.hardware import MAX_THREADS, SUM_BYTES, VECTOR_BYTES, WARP
from engine.target.registers import ATTENTION_BASE
from engine.target.teams import most_parts, whole_parts
from engine.tensorize.bind import attention_misfit, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tile.storage import shared_bytes_of

DECIDED = frozenset(("block", "warp", "thread", "tile", "stages", "register_stages", "split_k", "intrinsic"))
QUERIES, KEYS = (16, 32, 64, 128), (16, 32, 64, 128)
OWN_ON_TENSOR_CORES, OWN_ON_CUDA_CORES = (16, 32), (1, 2, 4, 8)
"""Queries of a warp, and of a thread."""
STAGES, REGISTER_STAGES, SPLITS = (1, 2, 3, 4), (1, 2, 4), (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class AttentionTemplate(KernelTemplate):
    """The programs of an attention on one kind of core."""

    intrinsic: Intrinsic | None
    found: Attention
    element_bytes: int
    """Of an element of the weights, as they are multiplied."""

    @property
    def name(self) -> str:
        """Of the mapping."""
        return self.intrinsic.name if self.intrinsic else CUDA_CORES

    decided: ClassVar[frozenset[str]] = DECIDED

    @property
    def queries(self) -> int:
        """Rows of scores of one batch and head."""
        return math.prod(i.extent for i in self.found.queries)

    @property
    def depth(self) -> int:
        """Terms of a score."""
        return math.prod(i.extent for i in self.found.scores.reduced)

    @property
    def heads(self) -> int:
        """Elements of a result that one block makes."""
        return head_parts(math.prod(i.extent for i in self.found.heads))[0]

    @property
    def standing(self) -> AttentionConfig:
        """What `kernel` stands at."""
        config = self.kernel.tile.config
        assert isinstance(config, AttentionConfig)
        return config

    def entries(self, program: Program) -> Sequence[Entry]:
        """The instruction, the tiles and the stages."""
        found, number = self.found, program.number
        marks: list[tuple[str, str, str | int]] = []
        if self.intrinsic is not None:
            marks.append((found.scores.reduced[-1].name, "intrinsic", self.intrinsic.name))
        if found.queries:
            row, part = found.queries[-1].name, "warp" if self.intrinsic else "thread"
            marks += [(row, "block", number("queries")), (row, part, number("own"))]
        of_keys = {"tile": number("keys"), "stages": number("stages")}
        shared = {"register_stages": number("register_stages"), "split_k": split_of(program)}
        of_keys |= {name: value for name, value in shared.items() if value > 1}
        marks += [(found.key.name, name, value) for name, value in of_keys.items()]
        return [Entry((found.scores.name,), dimension, "mark", (name, value)) for dimension, name, value in marks]

    def threads(self, program: Program) -> int:
        """Of a block: a warp for its queries, or the threads that share a row of scores."""
        return program.number("queries") // program.number("own") * (WARP if self.intrinsic else SHARERS)

    def work(self, program: Program) -> Work:
        """From the tiles: every block reads all keys and values of its batch, or its part of them.

        Bytes through shared memory are put right by the count of `kernel`.
        """
        base, standing = self.kernel.facts, self.standing
        queries, keys, stages = (program.number(name) for name in ("queries", "keys", "stages"))
        parts, steps, threads = split_of(program), self.steps(program), self.threads(program)
        blocks = self.teams(queries) * parts
        scores, left = queries * steps * keys, self.sums_left(program)
        # What is neither copied nor left for the last block follows the results: they are stored, padding included.
        tiles = standing.tiles
        rest = base.l2_bytes - self.copied_bytes(base.blocks, tiles.queries, tiles.keys, base.serial_steps)
        rest -= self.exchanged_bytes(base.blocks, tiles.queries, standing.parts)
        results = rest * self.teams(queries) * queries // (base.blocks // base.team * tiles.queries)
        exchanged = self.exchanged_bytes(blocks, queries, parts)
        requested = self.copied_bytes(blocks, queries, keys, steps) + results + exchanged
        stands = self.program_of(self.kernel)
        assert stands is not None, "it is the kernel of this mapping"
        moved = self._bytes_in_shared(program) * base.shared_bytes_moved // self._bytes_in_shared(stands)
        now = tiles.queries * math.ceil(-(-self.found.key.extent // tiles.keys) / base.team)
        return replace(
            base,
            blocks=blocks,
            threads=threads,
            serial_steps=steps,
            stages=stages,
            shared_bytes=self.tile_bytes(queries, keys, stages),
            shared_bytes_moved=moved,
            registers=ATTENTION_BASE + (keys + self.heads) * queries // threads,
            l2_bytes=requested,
            team=parts,
            team_bytes=parts * left * SUM_BYTES,
            tensor_flops=base.tensor_flops * blocks * scores // (base.blocks * now * tiles.keys),
            global_requests=requested // (VECTOR_BYTES * WARP),
            global_sectors=0,
        )

    def teams(self, queries: int) -> int:
        """Tiles of so many queries, of all batches."""
        facts = self.kernel.facts
        batches = facts.blocks // facts.team // -(-self.queries // self.standing.tiles.queries)
        return batches * -(-self.queries // queries)

    def steps(self, program: Program) -> int:
        """Tiles of keys of a block."""
        return -(-self.key_tiles(program) // split_of(program))

    def key_tiles(self, program: Program) -> int:
        """Tiles of all keys."""
        return -(-self.found.key.extent // program.number("keys"))

    def sums_left(self, program: Program) -> int:
        """Sums that a block leaves for the last one of its team."""
        rows = min(program.number("queries"), self.queries)
        return rows * (self.heads + 2) if split_of(program) > 1 else 0

    def exchanged_bytes(self, blocks: int, queries: int, parts: int) -> int:
        """Bytes that blocks with a part of the keys each store and the last of each team loads, padding included.

        Every thread of a row stores its maximum and its sum and loads the maxima twice, the sums once; results once.
        """
        if parts == 1:
            return 0
        sharers = FRAGMENT_SHARERS if self.intrinsic else SHARERS
        return blocks * queries * (5 * sharers + 2 * self.standing.tiles.heads) * SUM_BYTES

    def copied_bytes(self, blocks: int, queries: int, keys: int, steps: int) -> int:
        """Bytes of queries, keys and values that so many blocks copy, padding included."""
        depth, heads = self.standing.tiles.depth, self.standing.tiles.heads
        return blocks * (queries * depth + steps * keys * (depth + heads)) * self.element_bytes

    def tile_bytes(self, queries: int, keys: int, stages: int) -> int:
        """Bytes of a block's tiles, whose rows are padded or permuted as those of `kernel` are."""
        standing, buffers = self.standing, self.kernel.tile.buffers
        rows = {"query_tile": (queries, standing.tiles.queries), "key_tile": (stages * keys, standing.tiles.keys)}
        rows["value_tile"] = rows["key_tile"]
        found = 0
        for name, (here, there) in rows.items():
            there *= standing.stages if name != "query_tile" else 1
            found += shared_bytes_of(buffers[name]) // there * here
        return found + (queries * (keys * SUM_BYTES + VECTOR_BYTES) if self.intrinsic is None else 0)

    def _bytes_in_shared(self, program: Program) -> int:
        """Bytes that all blocks move to and from shared memory, in closed form.

        It copies everything once; every warp, or on CUDA cores every row of threads, reads each tile of keys and values
        for its own queries.  There all threads of a row read its queries and its weights, for every tile.
        """
        depth, heads, element = self.depth, self.heads, self.element_bytes
        queries, keys = program.number("queries"), program.number("keys")
        tile, readers = keys * (depth + heads) * element, queries // program.number("own")
        steps, blocks = self.steps(program), self.teams(queries) * split_of(program)
        of_queries, moved = queries * depth * element, steps * tile * (1 + readers)
        if self.intrinsic is not None:
            return blocks * (moved + 2 * of_queries)
        weights = queries * keys * SUM_BYTES * (1 + SHARERS)
        return blocks * (moved + of_queries + steps * (SHARERS * of_queries + weights))

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = kernel.tile.config
        if not isinstance(config, AttentionConfig) or (config.intrinsic or CUDA_CORES) != self.name:
            return None
        tiles = config.tiles
        values = (tiles.queries, config.own, tiles.keys, config.stages, config.register_stages, config.parts)
        return Program(self.name, tuple(zip(_FIXED, values, strict=True)))


def split_of(program: Program) -> int:
    """Blocks that share the keys; what records know may be older than this dimension."""
    value = dict(program.values).get("split_k", 1)
    assert isinstance(value, int)
    return value


_FIXED: dict[str, Value] = {
    "queries": INSTRUCTION, "own": 1, "keys": INSTRUCTION, "stages": 1, "register_stages": 1, "split_k": 1,
}  # fmt: skip
"""Every dimension: queries of a block, of a warp (thread), keys of a tile, tiles and sets of fragments under way, and
blocks that share the keys."""


def promised_best(group: FusionGroup, kernel: Kernel) -> tuple[AttentionTemplate, Program] | None:
    """The program of least estimate of a small part of the space, on the cores that `kernel` runs on: one tile of keys
    under way, or two; None where no program keeps all rules."""
    found = attention_of(group.program)
    used = kernel.tile.intrinsic
    template = AttentionTemplate(
        group, kernel, INTRINSICS[used] if used else None, found, DTYPES[group.program.arrays[found.weights].dtype]
    )
    # The advised kernel has as many queries of its own and keys of a tile as find registers.
    owns = [own for own in (OWN_ON_TENSOR_CORES if used else OWN_ON_CUDA_CORES) if own <= template.standing.own]
    tiles_of_keys = [keys for keys in KEYS if keys <= template.standing.tiles.keys]
    tiles = itertools.product(QUERIES, owns) if found.queries else ((INSTRUCTION, template.standing.own),)
    splits = (kernel.tile.team,) if _why_not_shared(template) else SPLITS
    checks, promised = _checks(template), []
    for (queries, own), keys, split in itertools.product(tiles, tiles_of_keys, splits):
        program = _program(template, queries, own, keys, split)
        if first(checks, program) is None and template.work(program).shared_bytes <= template.machine.shared_limit:
            promised.append(program)
    return (template, min(promised, key=template.rank)) if promised else None


def _program(template: AttentionTemplate, queries: int, own: int, keys: int, split: int) -> Program:
    """With two tiles under way where a block has two."""
    values = {**_FIXED, "queries": queries, "own": own, "keys": keys, "split_k": split}
    steps = template.steps(Program(template.name, tuple(values.items())))
    return Program(template.name, tuple({**values, "stages": min(2, steps)}.items()))


def attention_tasks(group: FusionGroup, kernel: Kernel, compile_group: Compile) -> tuple[list[Task], list[Refused]]:
    """A task for each instruction that multiplies both products, and for CUDA cores; that of `kernel` first."""
    found: list[Task] = []
    refused: list[Refused] = []
    attention = attention_of(group.program)
    element = DTYPES[group.program.arrays[attention.weights].dtype]
    for intrinsic in _instructions(attention, kernel, refused):
        template = AttentionTemplate(group, kernel, intrinsic, attention, element)
        made = _standing(template, compile_group)
        if isinstance(made, str):
            refused.append(Refused(template.name, made))
        else:
            found.append(_task(replace(template, kernel=made), kernel))
    now = kernel.tile.intrinsic or CUDA_CORES
    return sorted(found, key=lambda task: task.name != now), refused


def _instructions(found: Attention, kernel: Kernel, refused: list[Refused]) -> Iterator[Intrinsic | None]:
    """What multiplies both products; None for CUDA cores.  A person's instruction is the only one."""
    after = online(kernel.group.program, found.values.name)
    values = after.statement(found.values.name)
    wish = asked_intrinsic(kernel)
    for intrinsic in INTRINSICS.values():
        misfit = attention_misfit(found.scores, values, after, intrinsic)
        if not misfit and not is_allowed(intrinsic, kernel.recipe.numerics):
            misfit = f'the recipe\'s numerics must say "tensor_cores": "{intrinsic.numerics}"'
        if misfit:
            refused.append(Refused(intrinsic.name, misfit))
        elif wish in ("", intrinsic.name):
            yield intrinsic
    if not wish:
        yield None


def _standing(template: AttentionTemplate, compile_group: Compile) -> Kernel | str:
    """A kernel of a mapping, that of the recipe where it is one; else why there is none."""
    intrinsic, kernel, group = template.intrinsic, template.kernel, template.group
    if (kernel.tile.intrinsic or CUDA_CORES) == template.name:
        return kernel
    own = OWN_ON_TENSOR_CORES[0] if intrinsic else OWN_ON_CUDA_CORES[0]
    entries = template.entries(Program(template.name, tuple({**_FIXED, "own": own}.items())))
    try:
        made = compile_group(group, with_tuned_entries(kernel.recipe, group, DECIDED, entries))
    except EngineError as error:
        return error.reason
    return made if (made.tile.intrinsic or CUDA_CORES) == template.name else "its kernel runs elsewhere"


def _task(template: AttentionTemplate, kernel: Kernel) -> Task:
    on_tensor_cores = template.intrinsic is not None
    has_queries = bool(template.found.queries)
    tiles: Choices = {"queries": (INSTRUCTION,), "own": (template.standing.own,)}
    if has_queries:
        tiles = {"queries": QUERIES, "own": OWN_ON_TENSOR_CORES if on_tensor_cores else OWN_ON_CUDA_CORES}
    why_not = _why_not_shared(template)
    splits = tuple(sorted({*SPLITS, kernel.tile.team}))  # what the advisers have chosen stays among the choices
    shares: dict[str, Choices] = {} if why_not else {CROSS_THREAD: {"split_k": splits}}
    offers: dict[str, Choices] = shares | {
        CACHE_READ: {"keys": KEYS, "stages": STAGES},
        INLINE: {},
        PARTIAL_TILING if on_tensor_cores else TILING: tiles,
        PLACE_MAIN: {"register_stages": REGISTER_STAGES},
    }
    fixed = {**_FIXED, "split_k": kernel.tile.team}
    situation = Situation(template.name, fixed, offers, {CROSS_THREAD: why_not})
    return make_task(template, situation, _checks(template), kernel, template.machine)


def _why_not_shared(template: AttentionTemplate) -> str:
    """Why blocks do not share keys; "" where they may."""
    blocks, sms = template.teams(QUERIES[-1]), template.machine.sm_count
    if blocks >= sms:
        return f"{blocks} blocks of the most queries fill {sms} SMs"
    keys = template.found.key.extent
    return "" if keys > KEYS[0] else f"{keys} keys are one tile"


def _checks(template: AttentionTemplate) -> tuple[PruningRule, ...]:
    """What kernels of attention take."""
    return (
        PruningRule("whole parts", lambda p: _parts(template, p), "every warp or thread owns as much of the tile"),
        PruningRule("tile utilisation", lambda p: _empty(template, p), "half the tile does the same work"),
        PruningRule("shared keys", lambda p: _sharing(template, p), "a block without keys would only wait for others"),
        PruningRule("stages", lambda p: _stages(template, p), "a pipeline is no longer than its loop"),
    )


def _parts(template: AttentionTemplate, program: Program) -> str:
    queries, own, keys = (program.number(name) for name in ("queries", "own", "keys"))
    if queries % own or queries < own:
        return f"parts of {own} queries do not divide {queries}"
    if template.intrinsic is None and queries // own > min(queries, keys, MAX_THREADS // SHARERS):
        return f"{queries // own} rows of threads, a tile of {keys} keys has copies for {min(queries, keys)}"
    return ""


def _empty(template: AttentionTemplate, program: Program) -> str:
    for what, size in (("queries", template.queries), ("keys", template.found.key.extent)):
        tile = program.number(what)
        if tile >= 2 * max(size, INSTRUCTION):
            return f"a tile of {tile} {what} for {size}"
    return ""


def _sharing(template: AttentionTemplate, program: Program) -> str:
    steps, parts = template.key_tiles(program), split_of(program)
    if parts == 1:
        return ""
    most = most_parts(steps, template.teams(program.number("queries")) * template.sums_left(program))
    if parts > most:
        return f"{parts} blocks share {steps} tiles of keys, at most {most} may"
    return "" if whole_parts(steps, parts) == parts else f"of {parts} blocks for {steps} tiles of keys one has none"


def _stages(template: AttentionTemplate, program: Program) -> str:
    steps = template.steps(program)
    stages, sets = program.number("stages"), program.number("register_stages")
    if stages > steps:
        return f"{stages} stages, and the loop has {steps} tiles"
    inner = _inner_steps(template, program)
    if sets > 1 and any(step % sets for step in inner):
        return f"{sets} register stages do not divide loops of {' and '.join(map(str, inner))} steps"
    return ""


def _inner_steps(template: AttentionTemplate, program: Program) -> tuple[int, int]:
    """Steps of the loops over the depth of scores and over the keys of a tile."""
    step = template.intrinsic.k if template.intrinsic else 4
    return math.ceil(template.depth / step), program.number("keys") // step
