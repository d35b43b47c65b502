"""Packed kernels: parts that no value connects, each in a range of the blocks of one launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_group, part_groups
from engine.kernels.elementwise.lower import lower_elementwise
from engine.kernels.loop_nest import block_nest, loop_nest
from engine.kernels.marks import Marks
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.kernels.stitched.lower import lower_stitched
from engine.scheduling.nodes import Node, ScheduleTree, Sequence, statements_of
from engine.support.errors import Unsupported
from engine.target import Target
from engine.tensor.index import Index
from engine.tile.nodes import BLOCK, BlockRanges, Buffer, KernelConfig, TileProgram
from engine.tile.source import Footprint


@dataclass(frozen=True, slots=True)
class PackedConfig(KernelConfig):
    """What each part of the launch does."""

    threads: int
    """Of a block, in every part."""
    parts: tuple[KernelConfig, ...]
    """Of element-wise and stitched parts, in the order of their blocks."""


def lower_packed(group: FusionGroup, tree: ScheduleTree, machine: Target) -> TileProgram:
    """One kernel for independent parts."""
    taken: dict[str, Buffer] = {}
    programs: list[TileProgram] = []
    for part, node in parts_of(group, tree.root):
        is_stitched = STITCHED_FAMILY.recognises(part)
        nest = (block_nest if is_stitched else loop_nest)(part.program, ScheduleTree(node))
        if is_stitched:
            programs.append(lower_stitched(part, nest, Marks(nest), machine, taken))
        else:
            programs.append(lower_elementwise(part, nest, Marks(nest), taken))
        taken = {name: b for name, b in programs[-1].buffers.items() if b.scope != "global"} | taken
    return _together(group, programs, taken)


def parts_of(group: FusionGroup, root: Node) -> Iterator[tuple[FusionGroup, Node]]:
    """The parts and what the schedule says of each; element-wise statements that share no loop are parts, too."""
    children = root.children if isinstance(root, Sequence) else (root,)
    for part in part_groups(group):
        names = {s.name for s in part.program.statements}
        mine = [child for child in children if names & set(statements_of(child))]
        if any(not names >= set(statements_of(child)) for child in mine):
            reason = f"{' '.join(sorted(names))} share a loop with statements of another part of the kernel"
            hint = "cut them at the outermost dimension"
            raise Unsupported("codegen", f"schedule of {group.name}", reason, hint)
        if STITCHED_FAMILY.recognises(part):
            yield part, mine[0] if len(mine) == 1 else Sequence(tuple(mine))
            continue
        for child in mine:
            yield part_group(group, [part.program.statement(name) for name in statements_of(child)]), child


def _together(group: FusionGroup, programs: list[TileProgram], taken: Mapping[str, Buffer]) -> TileProgram:
    """The parts' programs as ranges of one grid."""
    threads = {program.threads for program in programs}
    if len(threads) > 1:
        reason = f"its parts ask for blocks of {' and '.join(map(str, sorted(threads)))} threads"
        raise Unsupported("codegen", group.name, reason, "mark the same number of threads on all of them")
    first = programs[0]
    # Two parts may read one array: it is one parameter of the launch.
    outside = {n: b for p in programs for n, b in p.buffers.items() if b.scope == "global"}
    footprints: list[Footprint] = []
    start = 0
    for program in programs:
        # Inside a part blocks count from 0; the launch's footprints count them through.
        footprints += [_shift_footprint(f, start, program.grid) for f in program.footprints]
        start += program.grid
    return replace(
        first,
        title=(f"{group.name}: {group.title}", *(str(s) for s in group.program.statements)),
        grid=start,
        constants={"PARTS": len(programs)},
        assertions=(),
        buffers={**outside, **taken},
        written=frozenset(n for p in programs for n in p.written),
        read=frozenset(n for p in programs for n in p.read),
        body=(BlockRanges(tuple((p.grid, p.body) for p in programs)),),
        footprints=tuple(footprints),
        placements={n: text for p in programs for n, text in p.placements.items()},
        config=PackedConfig(first.threads, tuple(p.config for p in programs if p.config is not None)),
        notes={path: note for p in programs for path, note in p.notes.items()},
        schemes={n: scheme for p in programs for n, scheme in p.schemes.items()},
    )


def _shift_footprint(footprint: Footprint, start: int, blocks: int) -> Footprint:
    """The footprint of a part whose blocks begin at `start` of the launch."""
    extents = {**footprint.counters, BLOCK: start + blocks}
    own = Index.of(BLOCK) - start
    guards = (guard.substitute({BLOCK: own}, extents) for guard in footprint.guards)
    position = footprint.position.substitute({BLOCK: own}, extents)
    return Footprint(footprint.array, position, extents, (own, own * -1 + (blocks - 1), *guards))
