"""Packed kernels: parts that no value connects, each in a range of the blocks of one launch."""

from __future__ import annotations

from engine.cost.nodes import Work
from engine.fusion.kinds import PACKED
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_groups, parts_of
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.kernels.gemm.limits import registers_of
from engine.kernels.gemm.mapping_tasks import refused_mappings
from engine.kernels.gemm.problem import gemm_problem
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.packed.advise import pack_group, product_pack
from engine.kernels.packed.lower import SharedProductsConfig, lower_packed
from engine.kernels.packed.products import product_pack_tasks
from engine.kernels.packed.space import packed_tasks
from engine.kernels.space import Space
from engine.kernels.stitched.advise import with_own_schemes
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensorize.intrinsics import INTRINSICS
from engine.tile.nodes import TileProgram


class PackedFamily(KernelFamily):
    """Parts that no value connects share a launch: each has a range of its blocks.

    y = relu(x) over 4096 elements;  m = row sums of z    ->    blocks 0 to 3 make y, blocks 4 to 35 make m
    q = x @ wq;  k = x @ wk                               ->    blocks 0 to 63 make q, blocks 64 to 127 make k
    """

    name = "packed"
    kinds = frozenset((PACKED.name,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        advice = pack_group(group, setting)
        if any(map(GEMM_FAMILY.recognises, part_groups(group))):
            return (advice,)
        return (with_own_schemes(advice, group, setting, compile_group),)

    def work(self, group: FusionGroup, setting: Setting) -> Work | None:
        """As `KernelFamily` says: of products."""
        products = product_pack(group, setting)
        return products.work() if products else None

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        return lower_packed(group, tree, setting)

    def registers(self, program: TensorProgram, tile: TileProgram, machine: Target) -> int | None:
        """As `KernelFamily` says: of the product that takes most."""
        if not isinstance(tile.config, SharedProductsConfig):
            return None
        intrinsic, tiles = INTRINSICS.get(tile.intrinsic), tile.config.tiles
        parts = [program.cut_out(part, program.needed_outside(part)) for part in parts_of(program.statements)]
        return max(registers_of(gemm_problem(part, intrinsic), tiles, machine) for part in parts)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        is_of_products = isinstance(kernel.tile.config, SharedProductsConfig)
        tasks = (product_pack_tasks if is_of_products else packed_tasks)(group, kernel)
        refused = refused_mappings(group, kernel.recipe, {task.name for task in tasks})
        return Space(tuple(tasks), tuple(refused))


PACKED_FAMILY = PackedFamily()
