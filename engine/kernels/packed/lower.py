"""Packed kernels: parts that no value connects, each in a range of the blocks of one launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_group, part_groups
from engine.kernels.elementwise.lower import lower_elementwise
from engine.kernels.family import Setting
from engine.kernels.gemm.family import GEMM_FAMILY, lower_product
from engine.kernels.loop_nest import block_nest, loop_nest
from engine.kernels.marks import Marks
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.kernels.stitched.lower import lower_stitched
from engine.scheduling.nodes import Node, ScheduleTree, statements_of
from engine.scheduling.nodes import Sequence as Steps
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import BLOCK, BlockRanges, Buffer, KernelConfig, TileProgram
from engine.tile.source import Footprint


@dataclass(frozen=True, slots=True)
class PackedConfig(KernelConfig):
    """What each part of the launch does."""

    threads: int
    """Of a block, in every part."""
    parts: tuple[KernelConfig, ...]
    """Of element-wise and stitched parts, in the order of their blocks."""


@dataclass(frozen=True, slots=True)
class SharedProductsConfig(KernelConfig):
    """Products that share a factor, all in tiles of one kind."""

    copies_tiles: ClassVar[bool] = True

    tiles: GemmConfig
    products: int

    def with_stages(self, stages: int, register_stages: int) -> SharedProductsConfig:
        """As the base says."""
        return replace(self, tiles=self.tiles.with_stages(stages, register_stages))

    @property
    def product(self) -> GemmConfig:
        """As the base says."""
        return self.tiles


def lower_packed(group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
    """One kernel for independent parts."""
    taken: dict[str, Buffer] = {}
    programs: list[TileProgram] = []
    for number, (part, node) in enumerate(parts_of(group, tree.root), 1):
        if GEMM_FAMILY.recognises(part):
            programs.append(_of_part(lower_product(part, ScheduleTree(node), setting, taken), number))
            taken = {name: b for name, b in programs[-1].buffers.items() if b.scope != "global"} | taken
            continue
        is_stitched = STITCHED_FAMILY.recognises(part)
        nest = (block_nest if is_stitched else loop_nest)(part.program, ScheduleTree(node))
        if is_stitched:
            programs.append(lower_stitched(part, nest, Marks(nest), setting.machine, taken))
        else:
            programs.append(lower_elementwise(part, nest, Marks(nest), taken))
        taken = {name: b for name, b in programs[-1].buffers.items() if b.scope != "global"} | taken
    return _together(group, programs, taken)


def _of_part(program: TileProgram, number: int) -> TileProgram:
    """A part's program, whose shared memory lies where that of the other parts does."""
    config = program.config
    if isinstance(config, GemmConfig) and config.split_k > 1:
        reason = f"{config.split_k} blocks share the depth of a product, in a launch of several"
        raise Unsupported("codegen", program.name, reason, "take split_k off its marks")
    buffers = {n: replace(b, part=b.part or number) if b.scope == "shared" else b for n, b in program.buffers.items()}
    return replace(program, buffers=buffers)


def parts_of(group: FusionGroup, root: Node) -> Iterator[tuple[FusionGroup, Node]]:
    """The parts and what the schedule says of each; element-wise statements that share no loop are parts, too."""
    children = root.children if isinstance(root, Steps) else (root,)
    for part in part_groups(group):
        names = {s.name for s in part.program.statements}
        mine = [child for child in children if names & set(statements_of(child))]
        if any(not names >= set(statements_of(child)) for child in mine):
            reason = f"{' '.join(sorted(names))} share a loop with statements of another part of the kernel"
            hint = "cut them at the outermost dimension"
            raise Unsupported("codegen", f"schedule of {group.name}", reason, hint)
        if STITCHED_FAMILY.recognises(part) or GEMM_FAMILY.recognises(part):
            yield part, mine[0] if len(mine) == 1 else Steps(tuple(mine))
            continue
        for child in mine:
            yield part_group(group, [part.program.statement(name) for name in statements_of(child)]), child


def _together(group: FusionGroup, programs: list[TileProgram], taken: Mapping[str, Buffer]) -> TileProgram:
    """The parts' programs as ranges of one grid."""
    config, threads = _config(group, programs), {program.threads for program in programs}
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
        constants={"PARTS": len(programs), **_common(programs)},
        assertions=(),
        buffers={**outside, **taken},
        written=frozenset(n for p in programs for n in p.written),
        read=frozenset(n for p in programs for n in p.read),
        body=(BlockRanges(tuple((p.grid, p.body) for p in programs)),),
        footprints=tuple(footprints),
        placements={n: text for p in programs for n, text in p.placements.items()},
        config=config,
        requests=tuple(request for p in programs for request in p.requests),
        orders=tuple(order for p in programs for order in p.orders),
        notes={path: note for p in programs for path, note in p.notes.items()},
        schemes={n: scheme for p in programs for n, scheme in p.schemes.items()},
    )


def _config(group: FusionGroup, programs: Sequence[TileProgram]) -> KernelConfig:
    """What the parts have in common, where they are products, else each part's own."""
    configs = [p.config for p in programs if p.config is not None]
    # Each product's blocks take its tiles in an order of their own.
    products = [replace(config, raster=1) for config in configs if isinstance(config, GemmConfig)]
    if not products:
        return PackedConfig(programs[0].threads, tuple(configs))
    if len(set(products)) > 1:
        reason = f"its products ask for tiles of {' and of '.join(dict.fromkeys(map(str, products)))}"
        raise Unsupported("codegen", group.name, reason, "mark the same tiles on all of them")
    return SharedProductsConfig(products[0], len(products))


def _common(programs: Sequence[TileProgram]) -> dict[str, int]:
    """The sizes that all products of a launch have: those of their tiles, and of the factor that they share."""
    first = programs[0].constants
    products = [p for p in programs if isinstance(p.config, GemmConfig)]
    alike = {n: size for n, size in first.items() if all(p.constants.get(n) == size for p in products)}
    return alike if products else {}


def _shift_footprint(footprint: Footprint, start: int, blocks: int) -> Footprint:
    """The footprint of a part whose blocks begin at `start` of the launch."""
    extents = {**footprint.counters, BLOCK: start + blocks}
    own = Index.of(BLOCK) - start
    guards = (guard.substitute({BLOCK: own}, extents) for guard in footprint.guards)
    position = footprint.position.substitute({BLOCK: own}, extents)
    return Footprint(footprint.array, position, extents, (own, own * -1 + (blocks - 1), *guards))
