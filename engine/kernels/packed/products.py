"""Products of one launch that share a factor: what a search may choose, tiles of one kind for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cost.nodes import Work, side_by_side
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import part_groups
from engine.kernels.gemm.entries import entries_of
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import gemm_axes
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.space import CUDA_CORES, GemmTemplate, task_of
from engine.kernels.gemm.work import work
from engine.kernels.nodes import Kernel
from engine.kernels.packed.lower import SharedProductsConfig
from engine.kernels.space import Program, Task
from engine.recipe import Entry
from engine.tensor.traffic import compulsory_bytes
from engine.tensorize.bind import GemmAxes
from engine.tensorize.intrinsics import INTRINSICS


@dataclass(frozen=True, slots=True)
class SharedProductsTemplate(GemmTemplate):
    """The programs of several products: those of the first, whose tiles all of them take."""

    others: tuple[tuple[GemmAxes, FusedGemm], ...] = ()
    moved: tuple[int, int] = (0, 0)
    """Bytes that all of them read from and write to DRAM together."""

    def entries(self, program: Program) -> Sequence[Entry]:
        """Those of each product."""
        config, on_tensor_cores = self.config(program), bool(self.problem.unit)
        found = list(self.kept)
        for axes in (self.axes, *(axes for axes, _ in self.others)):
            found += entries_of(axes, config, on_tensor_cores=on_tensor_cores)
        return found

    def work(self, program: Program) -> Work:
        """Of all products side by side."""
        config = self.config(program)
        gemms = (self.gemm, *(gemm for _, gemm in self.others))
        return side_by_side([work(gemm, config, self.machine) for gemm in gemms], self.moved)

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = kernel.tile.config
        is_ours = isinstance(config, SharedProductsConfig) and (kernel.tile.intrinsic or CUDA_CORES) == self.name
        return self.program(config.tiles) if is_ours and isinstance(config, SharedProductsConfig) else None


def product_pack_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """The task of the instruction that the kernel multiplies with, or of CUDA cores."""
    intrinsic = INTRINSICS.get(kernel.tile.intrinsic)
    found: list[tuple[GemmAxes, FusedGemm]] = []
    kept: list[Entry] = []
    for part in part_groups(group):
        axes = gemm_axes(part.program)
        assert axes is not None, part.program.name
        found.append((axes, fused_gemm(part.program, intrinsic)))
        if intrinsic:
            kept.append(Entry((axes.statement.name,), axes.depth[-1].name, "mark", ("intrinsic", intrinsic.name)))
    (axes, gemm), *others = found
    name = intrinsic.name if intrinsic else CUDA_CORES
    template = SharedProductsTemplate(
        group, name, axes, gemm, kernel.target, tuple(kept), blocks_may_share=False, others=tuple(others),
        moved=compulsory_bytes(group.program),
    )  # fmt: skip
    return [task_of(template, kernel)]
