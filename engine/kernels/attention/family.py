"""Attention kernels: two products with an online softmax between them, scores kept in registers."""

from __future__ import annotations

from collections.abc import Iterator

from engine.fusion.kinds import ATTENTION, CHAINED
from engine.fusion.nodes import FusionGroup
from engine.kernels.attention.advise import attention_group
from engine.kernels.attention.advise_chain import chained_group
from engine.kernels.attention.lower import lower_attention
from engine.kernels.attention.nest import attention_nest, chained_nest
from engine.kernels.attention.space import attention_tasks, promised_best
from engine.kernels.family import KernelFamily, Rival, Setting
from engine.kernels.intrinsic import marked_intrinsic
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tensorize.bind import pair_misfit
from engine.tensorize.nodes import Intrinsic
from engine.tile.nodes import TileProgram


class AttentionFamily(KernelFamily):
    """Two products with an online softmax between them: the scores never leave the registers of a block.

    o = softmax(q k^T) v    ->    for each tile of keys: s = q k^T;  rescale o to the new maximum;  o += exp(s - m) v
    """

    name = "attention"
    kinds = frozenset((ATTENTION.name, CHAINED.name))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        if group.kind == CHAINED.name:
            return chained_group(group, setting, compile_group)
        return attention_group(group, setting.machine, setting.numerics)

    def rivals(self, group: FusionGroup, kernel: Kernel) -> Iterator[Rival]:
        """As `KernelFamily` says: other tiles, and other numbers of blocks that share the keys."""
        found = None if group.kind == CHAINED.name else promised_best(group, kernel)
        if found is not None:
            template, program = found
            yield Rival(template.decided, template.entries(program), template.rank(program))

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        parts = (chained_nest if group.kind == CHAINED.name else attention_nest)(group.program, tree)
        marks = Marks(parts.nest)

        def why_not(intrinsic: Intrinsic) -> str:
            held = parts.rounded or "float32"
            return pair_misfit(parts.scores, parts.value_factor.expression, held, group.program, intrinsic)

        intrinsic = marked_intrinsic(marks, setting, why_not)
        return lower_attention(group, parts, marks, intrinsic)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        if group.kind == CHAINED.name:
            return Space(())  # its tiles follow from its rows
        found, refused = attention_tasks(group, kernel, compile_group)
        return Space(tuple(found), tuple(refused))


ATTENTION_FAMILY = AttentionFamily()
