"""From a configuration, or from a compiled kernel, to the numbers that the equations of `alcop.py` need."""

from __future__ import annotations

from engine.cost.alcop_nodes import AlcopWork, GemmProblem
from engine.cost.nodes import Work
from engine.target.copies import COPIED_IN_TURN, MOST_HELD, SMALLEST_COPY
from engine.target.hardware import REGISTER_BYTES, SUM_BYTES, VECTOR_BYTES
from engine.target.registers import (
    GEMM_BASE,
    GEMM_IN_TURNS,
    GEMM_PER_COPY,
    GEMM_PER_HELD,
    GEMM_PER_NARROW_COPY,
    GEMM_PER_SUM,
)
from engine.target.teams import parts_read
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import For, TileOp, TileProgram, before_meeting, only_copies, operations


def alcop_work_of_config(problem: GemmProblem, config: GemmConfig, registers: int | None = None) -> AlcopWork:
    """The kernel that a contraction would have.  registers: of a thread, where known; else they are estimated."""
    (m, n, k), step = config.block, problem.instruction[2]
    size = problem.element_bytes
    tile = problem.tile_bytes(config)
    grid = (-(-problem.m // m), -(-problem.n // n), problem.batch * config.split_k)
    turns = copy_turns(problem, config)
    steps = problem.steps(k)
    return AlcopWork(
        grid=grid,
        threads=config.parts * problem.lanes,
        registers=estimated_registers(problem, config) if registers is None else registers,
        shared_bytes=problem.shared_bytes(config),
        steps=-(-steps // config.split_k) * turns,
        stages=config.stages,
        inner_steps=max(1, k // step // config.slices),
        register_stages=config.register_stages,
        fetched=sum(tile) / turns,
        panels=(tile[0] * problem.distinct[0] / turns, tile[1] * problem.distinct[1] / turns),
        fragments=sum(config.part) * step * size * config.parts / turns,
        operations=2 * m * n * step * config.slices / turns,
        unit=problem.unit,
        results=m * n * problem.result_bytes,
        finish=(problem.finish[0] * m * n, problem.finish[1] * m * n),
        partial=_partial_sums(config),
        team=config.split_k,
        team_bytes=m * n * SUM_BYTES * parts_read(config.split_k),
    )


def _partial_sums(config: GemmConfig) -> float:
    """Bytes of the sums that slices of the depth hand to the first of them."""
    rows, columns, _ = config.block
    return float(rows * columns * SUM_BYTES * (config.slices - 1))


def copy_turns(problem: GemmProblem, config: GemmConfig) -> int:
    """Times that a thread waits for its copies of a tile: more than one where registers hold only some of them."""
    held = [int(copies.number) for copies in problem.copies(config) if copies.size < SMALLEST_COPY]
    return max([1, *(count // COPIED_IN_TURN for count in held if count > MOST_HELD)])


def estimated_registers(problem: GemmProblem, config: GemmConfig) -> int:
    """Of one thread: its sums, its fragment sets, its copies.  An estimate: the compiler has the last word."""
    rows, columns = config.part
    sums = rows * columns // problem.lanes
    held = (rows + columns) * problem.instruction[2] * problem.element_bytes
    fragments = config.register_stages * max(1, held // problem.lanes // REGISTER_BYTES)
    copies = 0.0
    for size, count in problem.copies(config):
        if size < SMALLEST_COPY:
            copies += GEMM_PER_HELD * count if count <= MOST_HELD else GEMM_IN_TURNS
        else:
            copies += (GEMM_PER_COPY + GEMM_PER_NARROW_COPY * (1 - size / VECTOR_BYTES)) * count
    return round(sums * (1 + GEMM_PER_SUM) + fragments + copies) + GEMM_BASE


def alcop_work_of_kernel(tile: TileProgram, facts: Work, problem: GemmProblem | None) -> AlcopWork:
    """What was compiled, counted from its tile program; `facts.registers` as NVRTC says, where it was asked.

    problem: what it multiplies; None for a kernel that is no tiled contraction.
    """
    config = tile.config if isinstance(tile.config, GemmConfig) else None
    blocks, steps = facts.blocks, facts.serial_steps
    fetched = _bytes_read(tile, "global") * facts.threads
    inner = _inner_steps(tile)
    total = facts.tensor_flops or facts.flops
    grid, panels = _grid_and_panels(problem, config, blocks, fetched)
    last = blocks / facts.team
    """Blocks that finish."""
    outputs = facts.dram_bytes_written / last
    finish = (facts.flops / last, facts.special / last) if facts.tensor_flops else (0.0, facts.special / last)
    return AlcopWork(
        grid=grid,
        threads=facts.threads,
        registers=facts.registers,
        shared_bytes=facts.shared_bytes,
        steps=steps,
        stages=facts.stages,
        inner_steps=inner,
        register_stages=tile.register_stages,
        fetched=fetched,
        panels=panels,
        fragments=_bytes_read(tile, "shared") * facts.threads / inner,
        operations=total / (blocks * steps * inner),
        unit=facts.tensor_type,
        results=outputs,
        finish=finish,
        partial=_partial_sums(config) if config else 0.0,
        team=facts.team,
        team_bytes=facts.team_bytes,
        distinct_from_grid=grid != (1, 1, blocks),
    )


def _grid_and_panels(
    problem: GemmProblem | None, config: GemmConfig | None, blocks: int, fetched: float
) -> tuple[tuple[int, int, int], tuple[float, float]]:
    """Blocks along rows and columns, and what they share; of other kernels nothing is shared."""
    if problem is None or config is None:
        return (1, 1, blocks), (fetched, 0.0)
    tile_rows, tile_columns, _ = config.block
    rows, columns = -(-problem.m // tile_rows), -(-problem.n // tile_columns)
    share = tile_rows / (tile_rows + tile_columns)
    return (rows, columns, blocks // (rows * columns)), (fetched * share, fetched * (1 - share))


def main_loop(body: tuple[TileOp, ...]) -> For | None:
    """The loop over tiles: the longest outermost one that every block walks."""
    loops = [op for op in before_meeting(body) if isinstance(op, For)]
    walked = [loop for loop in loops if not loop.is_unrolled and not only_copies(loop.body)]
    return max(walked, key=lambda loop: loop.extent, default=None)


def copied_buffers(tile: TileProgram) -> frozenset[str]:
    """Shared buffers that the main loop copies to: those that have stages.

    What a step computes and its threads exchange (weights of attention, sums of warps) is no copy and has no stages.
    """
    loop = main_loop(tile.body)
    ops = tuple(operations(loop.body)) if loop else ()
    scopes = {name: buffer.scope for name, buffer in tile.buffers.items()}
    fetching = (op for op in ops if any(scopes[r.buffer] == "global" for r in op.regions_read))
    fetched = {name for op in fetching for name in op.buffers_written}
    copies = (op for op in ops if op.is_asynchronous or not fetched.isdisjoint(op.buffers_read) or tile.stages == 1)
    return frozenset(r.buffer for op in copies for r in op.regions_written if scopes[r.buffer] == "shared")


def _inner_steps(tile: TileProgram) -> int:
    """Steps in which the main loop brings fragments to registers; 1 where it brings them at once."""
    intrinsic, loop = INTRINSICS.get(tile.intrinsic), main_loop(tile.body)
    if isinstance(tile.config, GemmConfig) and intrinsic:
        return max(1, tile.config.block[2] // intrinsic.k // tile.config.slices)
    for op in loop.body if loop else ():
        if isinstance(op, For) and any(_is_fragment_load(inner, tile) for inner in operations(op.body)):
            return op.extent
    return 1


def _is_fragment_load(op: TileOp, tile: TileProgram) -> bool:
    """Whether an operation reads shared memory."""
    return any(tile.buffers[region.buffer].scope == "shared" for region in op.regions_read)


def _bytes_read(tile: TileProgram, scope: str) -> float:
    """Bytes that one thread reads from `scope` in one step of the main loop, where every branch is taken."""

    def read_in(body: tuple[TileOp, ...]) -> float:
        regions = (region for op in body for region in op.regions_read)
        own = sum(r.bytes_in(tile.buffers[r.buffer]) for r in regions if tile.buffers[r.buffer].scope == scope)
        return own + sum(inner.extent * read_in(inner.operations) for op in body for inner in op.bodies)

    loop = main_loop(tile.body)
    return float(read_in(loop.body)) if loop else 0.0
