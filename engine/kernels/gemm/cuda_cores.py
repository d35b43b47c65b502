"""Blocked contractions on CUDA cores: a thread owns rows and columns of the block's tile and multiplies registers.

Where slices of the block share the depth of the tile, a thread of each owns the same rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.cost.alcop_work import estimated_registers
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.base import GemmLowering, Owned
from engine.kernels.gemm.intra_block_split_k import Sliced, add_slices
from engine.kernels.gemm.nodes import SUMS_AT_ONCE
from engine.kernels.gemm.problem import gemm_problem, window_axes
from engine.kernels.gemm.read_marks import choose_for_cuda_cores
from engine.kernels.gemm.row_epilogue import RowThreads, store_rows
from engine.kernels.gemm.split_k import Held, add_parts
from engine.kernels.gemm.thread_fragment import ThreadPart, fragment_elements, load_part, part_of
from engine.kernels.gemm.thread_grid import ThreadPlace, thread_grid
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, pipeline_requests
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Scalar, Statement
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import rewrite_scalar
from engine.tensorize.space import GemmConfig
from engine.tile.emit import Emitter, at
from engine.tile.nodes import Buffer, Slot, TileProgram
from engine.tile.source import Line

AT_EASE = 1.5
"""Times the estimated registers that nine in ten of 115 products of the models take where they may have 255 (NVRTC
13.0): the estimate is fitted to what kernels make do with, some by spilling."""


def lower_contraction(
    group: FusionGroup, nest: Nest, marks: Marks, machine: Target, taken: Mapping[str, Buffer] | None = None
) -> TileProgram:
    """One kernel for a contraction and the element-wise statements after it.  taken: buffers of other parts of it."""
    gemm = GemmLowering(group, nest, taken)
    if gemm.sibling is not None:
        reason = f"{gemm.statement.operator} and {gemm.sibling.operator} share a main loop on tensor cores alone"
        raise Unsupported("codegen", group.program.name, reason, "let them be two kernels, or ask for an intrinsic")
    config = choose_for_cuda_cores(gemm, marks, machine)
    tile = _emit(gemm, config)
    return marks.describe(_with_registers(tile, gemm, config, machine), config)


def _with_registers(tile: TileProgram, gemm: GemmLowering, config: GemmConfig, machine: Target) -> TileProgram:
    """The same, with registers for as many blocks as come, where these leave enough."""
    if config.slices > 1 and config.split_k > 1:
        # Sums that slices have handed over leave registers, which NVRTC 13 fills with the parts of other blocks if it
        # may have many: it loads more of them at once than there is room for, and spills 16 bytes.
        return replace(tile, together=0)
    # The addresses and guards of windows stand beside the sums, and so do codes that are taken apart: no estimate knows
    # how many registers they take.
    if window_axes(gemm.statement) > 0 or gemm.has_codes:
        return tile.with_registers(machine.sm_count)
    needed = estimated_registers(gemm_problem(gemm.program, None, config.outer), config) * AT_EASE
    return tile.with_registers(machine.sm_count, needed)


def _emit(gemm: GemmLowering, config: GemmConfig) -> TileProgram:
    operands = gemm.begin(config, config.parts)
    emitter = gemm.emitter
    step = min(config.block[2] // config.slices, *(fragment_elements(o.copy.element_bytes) for o in operands))
    thread = _bind_thread(gemm)
    factors = tuple(
        part_of(emitter, operand, owned, slot, step)
        for operand, owned, slot in zip(operands, config.part, thread.slots, strict=True)
    )
    accumulator = emitter.register("acc", gemm.held, config.part)
    emitter.declare(accumulator, gemm.nothing)
    gemm.main_loop(operands, lambda tile: _multiply(gemm, factors, accumulator, (tile, thread.slice)))
    of_thread, across = config.part
    parts = Sliced(
        slices=config.slices,
        slice=thread.slice,
        group=Index(),
        groups=1,
        lane=thread.number,
        lanes=config.parts_of_slice,
        sums=accumulator,
        shape=config.part,
        width=min(across, SUMS_AT_ONCE),
    )
    sums = add_slices(gemm, parts) if config.slices > 1 else accumulator
    if config.split_k > 1:
        add_parts(gemm, _held_sums(sums, parts))
    rows, columns = factors
    first = parts.share * parts.rows
    results = Owned(
        shape=(parts.rows, across),
        vector=columns.run,
        row=lambda r: rows.operand.side.start + rows.local(emitter, first + r, rows.run),
        column=lambda s: columns.operand.side.start + columns.local(emitter, s, columns.run),
        sums=lambda r, s: Access(sums, (r, s)),
    )
    if gemm.has_whole_rows:
        store_rows(gemm, results, _sharers(gemm, rows.operand.side.start, parts.has_share))
    else:
        gemm.epilogue(results, parts.has_share)
    sliced = {"SLICES": config.slices} if config.slices > 1 else {}
    all_slices = "SLICES * " if sliced else ""
    return gemm.finish(
        constants={**sliced, "OWNED": of_thread * across},
        assertions=((f"THREADS * OWNED == {all_slices}TILE_ROWS * TILE_COLUMNS", "the threads own the tile exactly"),),
        held=f"{of_thread} x {across} registers of a thread: its part of the tile",
        requests=pipeline_requests(
            config.stages, config.register_stages, (name for operand in operands for name in operand.copied),
            tuple(part.registers for part in factors),
        ),
    )


def _held_sums(sums: str, parts: Sliced) -> Held:
    """The sums that a thread finishes as vectors of neighbouring columns."""
    width, (vectors,) = parts.width, parts.vectors
    threads = parts.shares * parts.lanes
    return Held(threads, parts.rows, vectors, width, lambda r, s, v: Slot(sums, (r, s * width + v)))


def _bind_thread(gemm: GemmLowering) -> ThreadPlace:
    """Where this thread is in its block, and which part of the tile it owns."""
    link = Line((gemm.statement.name,), gemm.names)
    grid = thread_grid(gemm.config, gemm.has_whole_rows)
    return grid.place(lambda name, index: gemm.emitter.bind(name, index, link), gemm.emitter.extents)


def _sharers(gemm: GemmLowering, first: Index, is_ours: tuple[Index, ...]) -> RowThreads:
    """Which threads hold parts of the rows that this thread has parts of: neighbours."""
    thread, extents = Index.of("thread"), gemm.emitter.extents
    across = gemm.config.block[1] // gemm.config.part[1]
    lanes = min(across, WARP)
    number = thread.mod(across, extents)
    lane, group = number.mod(lanes, extents), number.floordiv(lanes, extents)
    return RowThreads(lanes, lane, across // lanes, group, gemm.config.block[0], first, is_ours)


def _multiply(
    gemm: GemmLowering, parts: tuple[ThreadPart, ...], accumulator: str, where: tuple[Index, Index]
) -> None:
    """Outer products of the fragments of one tile; terms past the depth that would not be 0 are left out.

    where: the tile, and the slice of it that this thread multiplies.
    """
    emitter, link, (tile, slice_) = gemm.emitter, gemm.link, where
    depths = gemm.tiling.tile // gemm.config.slices
    first = slice_ * depths
    step = parts[0].step if any(part.operand.depth_inner for part in parts) else 1
    rows, columns = (part.owned for part in parts)
    past = gemm.steps * gemm.tiling.tile - gemm.depth
    is_masked = past > 0 and not adds_nothing(gemm.statement)
    with emitter.loop("depth", depths // step, link, always=True) as depth:
        for part in parts:
            load_part(emitter, part, first + depth * step, step, link)
        with emitter.loop("q", step, link) as q:
            limit = Index((), gemm.depth - 1) - tile * gemm.tiling.tile - first - depth * step - q
            inside = emitter.mask("depth_inside", [limit], link) if is_masked else None
            with emitter.loop("r", rows, link) as r, emitter.loop("s", columns, link) as s:
                term = _term(emitter, gemm.statement, parts, (r, s), q)
                if inside:
                    term = Apply("select", (Access(inside, ()), term, gemm.nothing), gemm.held)
                emitter.assign(Slot(accumulator, (r, s)), term, link, "sum")


def _term(
    emitter: Emitter, statement: Statement, parts: tuple[ThreadPart, ...], owned: tuple[Index, Index], q: Index
) -> Scalar:
    """The product over fragments: the statement's expression with its two wide reads replaced."""
    replaced = {_element(p): p.element(index, q) for p, index in zip(parts, owned, strict=True)}

    def read(access: Access) -> Scalar:
        return replaced[access] if access in replaced else emitter.read(access, {}, at(statement))

    def change(value: Scalar) -> Scalar:
        if value in replaced:
            return replaced[value]
        if isinstance(value, Apply):
            return Apply(value.function, tuple(map(change, value.operands)), value.dtype)
        return rewrite_scalar(value, {}, read, statement.extents)

    return change(statement.expression)


def _element(part: ThreadPart) -> Scalar:
    """What a thread's part holds of a factor: what is read, or what is computed from codes."""
    operand = part.operand
    return operand.codes.element if operand.codes else operand.access
