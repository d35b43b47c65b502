"""From a schedule to a tile program: which kind of kernel a nest becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.fusion.attention import ATTENTION
from engine.fusion.nodes import FusionGroup
from engine.fusion.packing import KIND as PACKED
from engine.fusion.row_epilogue import row_reductions
from engine.fusion.shape import is_contraction
from engine.fusion.stitched import KIND as STITCHED
from engine.kernels.attention.lower import lower_attention
from engine.kernels.attention.nest import attention_nest
from engine.kernels.elementwise.lower import lower_elementwise
from engine.kernels.elementwise.transpose import lower_transpose, turned_reads
from engine.kernels.gemm.cuda_cores import lower_contraction
from engine.kernels.gemm.row_nest import row_nest
from engine.kernels.gemm.tensor_cores import lower_tensor_cores
from engine.kernels.loop_nest import Nest, block_nest, loop_nest
from engine.kernels.marks import Marks
from engine.kernels.packed.lower import lower_packed
from engine.kernels.reduction.lower import lower_reduction
from engine.kernels.stitched.lower import lower_stitched
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.registers import MAX_PRIVATE
from engine.tensorize.attention import intrinsic_misfit
from engine.tensorize.bind import allowed, bind
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tile.nodes import TileProgram

MOST_ELEMENTS = 2**31 - 2**20
"""Elements of an array whose positions fit an int, with room for the threads past its end."""


def lower(
    group: FusionGroup, tree: ScheduleTree, machine: Target, numerics: Mapping[str, str] | None = None
) -> TileProgram:
    """The tile program of a group under a schedule; Unsupported where no kernel of ours follows that order.

    machine: whose instructions and shared memory the kernel may use.  numerics: the recipe's, which say whether tensor
    cores may round float32.
    """
    outside = {*group.program.inputs, *group.program.outputs}
    largest = max((group.program.arrays[name] for name in outside), key=lambda array: array.elements)
    if largest.elements > MOST_ELEMENTS:
        raise Unsupported("codegen", f"array {largest.name}", f"has {largest.elements} elements, an index is an int")
    if group.kind == PACKED:
        return _with_room(lower_packed(group, tree, machine))
    marks, tile = _kernel(group, tree, machine, numerics or {})
    return _with_room(replace(tile, notes=marks.unread()))


def _with_room(tile: TileProgram) -> TileProgram:
    """The program itself; Unsupported where a thread would keep more of an array than its registers hold."""
    for buffer in tile.buffers.values():
        if buffer.scope == "register" and buffer.elements > MAX_PRIVATE:
            raise Unsupported(
                "codegen",
                f"{buffer.name} of {tile.name}",
                f"a thread would keep {buffer.elements:,} elements, in registers it keeps {MAX_PRIVATE} at most",
                "ask for more threads, or for smaller tiles of a thread",
            )
    return tile


def _kernel(
    group: FusionGroup, tree: ScheduleTree, machine: Target, numerics: Mapping[str, str]
) -> tuple[Marks, TileProgram]:
    if group.kind == ATTENTION:
        parts = attention_nest(group.program, tree)
        marks = Marks(parts.nest)

        def why_not(intrinsic: Intrinsic) -> str:
            return intrinsic_misfit(parts.scores, parts.values, group.program, intrinsic)

        return marks, lower_attention(group, parts, marks, _intrinsic(marks, machine, numerics, why_not))
    if group.kind == STITCHED:
        nest = block_nest(group.program, tree)
        marks = Marks(nest)
        return marks, lower_stitched(group, nest, marks, machine)
    anchor = next((s for s in group.program.statements if is_contraction(s)), None)
    if group.kind == "contraction" and anchor is not None and row_reductions(group.program.statements, anchor):
        nest = row_nest(group.program, tree, anchor)
    else:
        nest = loop_nest(group.program, tree)
    marks = Marks(nest)
    return marks, _of_nest(group, nest, marks, machine, numerics)


def _of_nest(
    group: FusionGroup, nest: Nest, marks: Marks, machine: Target, numerics: Mapping[str, str]
) -> TileProgram:
    if group.kind == "contraction":
        anchor = next(s for s in group.program.statements if is_contraction(s))

        def why_not(intrinsic: Intrinsic) -> str:
            binding = bind(anchor, group.program.arrays, intrinsic)
            return binding if isinstance(binding, str) else ""

        intrinsic = _intrinsic(marks, machine, numerics, why_not)
        if intrinsic is None:
            return lower_contraction(group, nest, marks)
        return lower_tensor_cores(group, nest, marks, intrinsic, machine)
    if any(s.reduction for s in group.program.statements):
        # On a walked loop `lane` asks for threads along the reduced elements, `warp` for some along the kept ones too.
        wish = marks.first("lane", "warp", members=[m for phase in nest.phases for m in phase.members])
        by_row = wish == "lane" if wish else group.kind != "column reduction"
        return lower_reduction(group, nest, marks, by_row)
    if marks.first("tile") and turned_reads(group.program, nest) is not None:
        return lower_transpose(group, nest, marks)
    return lower_elementwise(group, nest, marks)


def _intrinsic(
    marks: Marks, machine: Target, numerics: Mapping[str, str], misfit: Callable[[Intrinsic], str]
) -> Intrinsic | None:
    """The instruction that an `intrinsic` mark names, if it computes what it should; else a note says why not.

    misfit: why an instruction does not compute it; "" where it does.
    """
    name = marks.word("intrinsic")
    if name is None:
        return None
    intrinsic = INTRINSICS.get(name)
    if intrinsic is None:
        why_not = f"known are {', '.join(INTRINSICS)}"
    elif _generation(machine.architecture) < _generation(intrinsic.architecture):
        instruction = intrinsic.ptx.partition(".row")[0]
        why_not = f"{machine.architecture} has no {instruction}, the first with it is {intrinsic.architecture}"
    else:
        why_not = misfit(intrinsic)
        if not why_not and not allowed(intrinsic, numerics):
            asked = f'the recipe\'s numerics must say "tensor_cores": "{intrinsic.numerics}"'
            why_not = f"{intrinsic.because}; {asked}"
    if why_not:
        marks.refuse({"intrinsic": f"runs on CUDA cores: {why_not}"})
        return None
    return intrinsic


def _generation(architecture: str) -> int:
    """The number in "sm_90a"."""
    return int("".join(filter(str.isdecimal, architecture)))
