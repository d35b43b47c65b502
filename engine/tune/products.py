"""Matrix products and convolutions: tiles, warps or threads, and pipelines of one mapping, as the rules open them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.compile import Kernel
from engine.explore.knobs import about, entries_of
from engine.explore.limits import Limit, first_broken
from engine.fuse.nodes import FusionGroup
from engine.predict.alcop import predict_pipeline
from engine.predict.alcop_nodes import Contraction
from engine.predict.alcop_problem import contraction_of, knobs_of, sides_of
from engine.predict.alcop_work import work_of_knobs
from engine.recipe import Entry
from engine.target import Target
from engine.tensorize.space import FRAGMENT, Knobs
from engine.tune.nodes import Funnel, Program, Task, Value
from engine.tune.prune import RULES, prune
from engine.tune.rules import Situation, Sketch, sketch

CUDA_CORES = "CUDA cores"
"""Name of the mapping to no intrinsic."""
DIMENSIONS = (
    "row_warps", "column_warps", "row_tiles", "column_tiles", "chunks", "stages", "register_stages", "slices",
)  # fmt: skip
"""Open dimensions of a product: warps of a block along a side (threads on CUDA cores), fragments of a warp's tile along
a side (results of a thread), fragments along the depth of a slice, buffers in shared memory and in registers, sets of
warps that share the depth of a tile."""
DECIDED = frozenset(
    ("block", "warp", "thread", "tile", "stages", "register_stages", "slices", "intrinsic")
)  # fmt: skip
FEATURES = (
    "rows", "columns", "depth", "part_rows", "part_columns", "stages", "register_stages", "slices", "threads", "blocks",
    "steps", "shared_bytes", "registers", "promised",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Products:
    """The programs of one mapping of a contraction."""

    situation: Situation
    fixed: Mapping[tuple[tuple[str, ...], str, str, str], Entry] = field(default_factory=dict)
    """What the user's entries decide."""
    kept: tuple[Entry, ...] = ()
    """Entries of the mapping itself, which all its programs have."""

    @property
    def name(self) -> str:
        """Of the mapping."""
        return self.situation.mapping

    @property
    def fragment(self) -> int:
        """What tiles are counted in."""
        return FRAGMENT if self.situation.contraction.unit else 1

    @property
    def decided(self) -> frozenset[str]:
        """Marks that its programs decide."""
        return DECIDED

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Logarithms of sizes, stages as they are, and the logarithm of the promised time."""
        return FEATURES

    def program(self, knobs: Knobs) -> Program:
        """The program with these knobs."""
        unit = self.fragment
        rows, columns = knobs.part
        values = (
            knobs.block[0] // rows, knobs.block[1] // columns, rows // unit, columns // unit,
            knobs.block[2] // unit // knobs.slices, knobs.stages, knobs.register_stages, knobs.slices,
        )  # fmt: skip
        return Program(self.name, tuple(zip(DIMENSIONS, values, strict=True)))

    def knobs(self, program: Program) -> Knobs:
        """Tiles and stages of a program."""
        row_warps, column_warps, rows, columns, chunks, stages, sets, slices = (
            program.number(name) for name in DIMENSIONS
        )
        unit = self.fragment
        part = (rows * unit, columns * unit)
        block = (part[0] * row_warps, part[1] * column_warps, chunks * unit * slices)
        return Knobs(block, part, stages, sets, slices)

    def entries(self, program: Program) -> Sequence[Entry]:
        """The mapping's own entries, and the marks that ask for the tiles."""
        here = self.situation
        return (*self.kept, *entries_of(here.sides, self.knobs(program), on_tensor_cores=bool(here.contraction.unit)))

    def rank(self, program: Program) -> float:
        """The time that the pipeline model promises, in microseconds."""
        here = self.situation
        return predict_pipeline(work_of_knobs(here.contraction, self.knobs(program)), here.machine).microseconds

    def features(self, program: Program) -> tuple[float, ...]:
        """See `FEATURES`."""
        knobs, here = self.knobs(program), self.situation
        work = work_of_knobs(here.contraction, knobs)
        sizes = (*knobs.block, *knobs.part)
        counts = (work.threads, math.prod(work.grid), work.steps, work.shared_bytes, work.registers or 1)
        promised = predict_pipeline(work, here.machine).microseconds
        return (
            *map(math.log2, sizes), float(knobs.stages), float(knobs.register_stages), float(knobs.slices),
            *map(math.log2, counts), math.log2(promised),
        )  # fmt: skip

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        if (kernel.tile.intrinsic or CUDA_CORES) != self.name:
            return None
        knobs = knobs_of(kernel.tile)
        return self.program(knobs) if knobs else None

    def contradicts(self, contraction: Contraction, knobs: Knobs, machine: Target) -> str:
        """Which entry of the user asks for something else than knobs."""
        for entry in entries_of(self.situation.sides, knobs, on_tensor_cores=bool(contraction.unit)):
            wish = self.fixed.get(about(entry))
            if wish is not None and wish.value != entry.value:
                return f"the user asks for {wish}"
        return ""


def task_of(family: Products) -> Task:
    """Every program that the rules open for one mapping, pruned."""
    made, applied = sketch(family.situation)
    return Task(family.name, _dimensions(made), pruned(family, made.points()), applied, family)


def pruned(family: Products, points: Iterable[Knobs]) -> Funnel:
    """What of these tiles is worth generating code for."""
    here = family.situation
    fixed = Limit("entries of the user", family.contradicts, "what a person decided is not searched")
    rules = (fixed, *RULES)
    return prune(
        map(family.program, points),
        rules,
        lambda program: first_broken(here.contraction, family.knobs(program), here.machine, rules),
    )


def _dimensions(made: Sketch) -> dict[str, tuple[Value, ...]]:
    return dict(zip(DIMENSIONS, (*made.space.choices, made.slices), strict=True))


def tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """The mappings of a contraction that can be searched; none for a kernel that is no tiled contraction."""
    sides = sides_of(kernel.program)
    contraction = contraction_of(kernel.program, kernel.tile, kernel.facts)
    if sides is None or contraction is None:
        return []
    situation = Situation(group, sides, contraction, kernel.target, kernel.tile.intrinsic or CUDA_CORES)
    wishes = {about(e): e for one in kernel.advice if one.author == "user" for e in one.scenario.entries if e.enabled}
    asked = [e for a in kernel.advice for e in a.scenario.entries if about(e)[3] == "intrinsic" and a.author != "user"]
    return [task_of(Products(situation, wishes, tuple(asked)))]
