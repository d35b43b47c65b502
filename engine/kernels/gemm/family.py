"""Matrix products and convolutions: tiles in shared memory, on tensor cores or CUDA cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from engine.cost.nodes import Work
from engine.fusion.kinds import CONTRACTION
from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.kernels.advice import with_content
from engine.kernels.family import KernelFamily, MarkMenu, Setting
from engine.kernels.gemm.advise import advise_pipeline, advised_work, intrinsic_of, row_pins, tile_scenario
from engine.kernels.gemm.cuda_cores import lower_contraction
from engine.kernels.gemm.limits import registers_of
from engine.kernels.gemm.mapping_tasks import product_tasks
from engine.kernels.gemm.problem import config_of_tile, gemm_axes, gemm_problem, product_misfit
from engine.kernels.gemm.row_nest import row_nest
from engine.kernels.gemm.tensor_cores import lower_tensor_cores
from engine.kernels.intrinsic import marked_intrinsic
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensorize.intrinsics import INTRINSICS
from engine.tile.nodes import Buffer, TileProgram


class GemmFamily(KernelFamily):
    """Tiles of both factors wait in shared memory; warps multiply them on tensor cores, threads on CUDA cores.

    c[i,j] = sum(k) a[i,k] * b[k,j]    ->    for each tile of k: copy a tile of a and one of b, then multiply them
    """

    name = "gemm"
    kinds = frozenset((CONTRACTION.name,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        program, machine = group.program, setting.machine
        intrinsic = intrinsic_of(program, setting.numerics)
        scenario, chosen = tile_scenario(program, intrinsic, machine)
        tiles = Advice("tensorize" if intrinsic else "map", scenario)
        return with_content(row_pins(program), tiles, advise_pipeline(program, chosen, intrinsic))

    def work(self, group: FusionGroup, setting: Setting) -> Work | None:
        """As `KernelFamily` says."""
        program = group.program
        return advised_work(program, intrinsic_of(program, setting.numerics), setting.machine)

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        return lower_product(group, tree, setting)

    def registers(self, program: TensorProgram, tile: TileProgram, machine: Target) -> int | None:
        """As `KernelFamily` says."""
        config = config_of_tile(tile)
        if config is None or gemm_axes(program) is None:
            return None
        return registers_of(gemm_problem(program, INTRINSICS.get(tile.intrinsic), config.outer), config, machine)

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        return MarkMenu({"warp": "Warp tile along {}"}, ("split_k",), by_dimension=True)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        found, refused = product_tasks(group, kernel, compile_group)
        return Space(tuple(found), tuple(refused))


def lower_product(
    group: FusionGroup, tree: ScheduleTree, setting: Setting, taken: Mapping[str, Buffer] | None = None
) -> TileProgram:
    """The tile program of a product under a schedule.  taken: buffers of other parts of its kernel."""
    anchor = next(s for s in group.program.statements if is_contraction(s))
    if reduced_columns(group.program.statements, anchor):
        nest = row_nest(group.program, tree, anchor)
    else:
        nest = loop_nest(group.program, tree)
    marks = Marks(nest)
    intrinsic = marked_intrinsic(marks, setting, partial(product_misfit, group.program))
    if intrinsic:
        return lower_tensor_cores(group, nest, marks, intrinsic, setting.machine, taken)
    return lower_contraction(group, nest, marks, setting.machine, taken)


GEMM_FAMILY = GemmFamily()
