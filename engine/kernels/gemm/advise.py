"""The authors of a contraction's advice: `tensorize` or `map` (tiles on tensor cores or CUDA cores), `pipeline`, and
`stitch`, where the kernel reduces rows of the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work, side_by_side
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction, is_of_codes
from engine.kernels.advice import AS_IN_TEXT, mark, ranked_scenario
from engine.kernels.gemm.block_order import bytes_again, in_order, panels_of_wave
from engine.kernels.gemm.fitting_tiles import fits_registers, power_above, thread_tiles, warp_tiles, without_spills
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.outer_loops import outer_entries
from engine.kernels.gemm.problem import gemm_axes, product_misfit, reaches
from engine.kernels.gemm.promise import floor_of, fused_gemm
from engine.kernels.gemm.tiles import (
    Floor,
    Loop,
    Promise,
    Tile,
    candidates,
    pipelines,
    promised_best,
    promised_pipeline,
)
from engine.kernels.gemm.work import work
from engine.kernels.intrinsic import has_instruction
from engine.kernels.preferences import preferences
from engine.recipe import Advice, Entry, Scenario
from engine.support.errors import Unsupported
from engine.support.units import bytes_text
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensorize.bind import GemmAxes, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tensorize.space import GemmConfig

LEAST = 8
"""Rows, columns and depths below which most of an instruction would multiply zeros."""
DEPTH_BYTES = 64
"""Of one row of a tile: 32 halves, two steps of an instruction for each barrier."""
MOST_SINGLE = 32
"""Depths of a tile whose elements go one by one through registers, of which a thread has so many."""
WHOLE = "every warp spans the block's tile"


def row_pins(program: TensorProgram) -> Advice:
    """One loop around all statements for each axis that no reduction of results walks; nothing for other groups."""
    anchor = next(s for s in program.statements if is_contraction(s))
    columns = reduced_columns(program.statements, anchor)
    everyone = tuple(s.name for s in program.statements)
    rows = [i.name for i in anchor.parallel if i.name not in columns] if columns else []
    places = ("outermost", *(f"after {row}" for row in rows))
    because = "rows are independent: what {} makes of one stays in its block"
    return Advice("stitch", Scenario(tuple(
        Entry(everyone, place, "pin", (row,), because=because.format(row))
        for place, row in zip(places, rows, strict=False)
    )))  # fmt: skip


def intrinsic_of(program: TensorProgram, numerics: Mapping[str, str]) -> Intrinsic | None:
    """The instruction that the adviser takes for a program's contraction; None where CUDA cores multiply it.

    numerics: the recipe's, which say whether float32 may be rounded to tf32.
    """
    axes = gemm_axes(program)
    if axes is None or min(axes.sizes) < LEAST:
        return None
    usable = (i for i in INTRINSICS.values() if is_allowed(i, numerics))
    return next((i for i in usable if not product_misfit(program, i)), None)


def advise_tiles(
    program: TensorProgram, intrinsic: Intrinsic | None, machine: Target, outer: tuple[str, ...] = ()
) -> tuple[tuple[Entry, ...], GemmConfig]:
    """(entries, what they ask for): the instruction, if any, and the tiles that the model promises most of.

    machine: whose streaming multiprocessors want a block each.  outer: as for `axes_of_contraction`.
    """
    choice = _BlockTiles.of(_Fitting.of(program, intrinsic, machine, outer))
    best = in_order(choice.fitting.gemm.problem, choice.best, machine)
    return (*choice.common(), *choice.entries(choice.best)), best


def advised_work(program: TensorProgram, intrinsic: Intrinsic | None, machine: Target) -> Work | None:
    """What the kernel does that `advise_tiles` asks for; None where no such kernel is made of what is asked for."""
    fitting = _Fitting.of(program, intrinsic, machine)
    return _work_in_order(fitting.gemm, _BlockTiles.of(fitting).best, machine) if fitting.is_made else None


def _work_in_order(gemm: FusedGemm, config: GemmConfig, machine: Target) -> Work:
    return work(gemm, in_order(gemm.problem, config, machine), machine)


@dataclass(frozen=True, slots=True)
class ProductPack:
    """Products of one launch with the tiles that the model promises most of for all of them together."""

    programs: Sequence[TensorProgram]
    choices: Sequence[_BlockTiles]
    """Of each, all with the same promise, floor and best: the time that is told is the launch's."""
    works: Sequence[Work]
    """Of each alone."""
    moved: tuple[int, int]
    """Bytes that they read from and write to DRAM together."""

    @staticmethod
    def of(
        programs: Sequence[TensorProgram], moved: tuple[int, int], numerics: Mapping[str, str], machine: Target
    ) -> ProductPack:
        """Those of programs that each have a product."""
        intrinsics = [intrinsic_of(program, numerics) for program in programs]
        intrinsic = intrinsics[0] if len(set(intrinsics)) == 1 else None
        fitting = [_Fitting.of(program, intrinsic, machine) for program in programs]
        first = fitting[0]
        common = [c for c in first.configs if c.split_k == 1 and all(c in one.configs for one in fitting[1:])]
        gemms = [one.gemm for one in fitting]
        alike = [gemms.index(gemm) for gemm in gemms]  # most packs multiply by factors of one shape

        def works_of(config: GemmConfig) -> list[Work]:
            works = {n: _work_in_order(gemms[n], config, machine) for n in dict.fromkeys(alike)}
            return [works[n] for n in alike]

        floor = floor_of(gemms, moved, machine)
        promise = cache(lambda config: model_microseconds(side_by_side(works_of(config), moved), machine))
        best, _ = promised_best(common, promise, floor)
        best = promised_pipeline(best, first.pipelines(best), promise)
        choices = [_BlockTiles(one, promise, floor, best) for one in fitting]
        return ProductPack(programs, choices, works_of(best), moved)

    def entries(self) -> list[Entry]:
        """What asks for the tiles of each."""
        found: list[Entry] = []
        for program, choice in zip(self.programs, self.choices, strict=True):
            found += [*choice.common(), *choice.entries(choice.best)]
            found += advise_pipeline(program, choice.best, choice.fitting.intrinsic).scenario.entries
        return found

    def work(self) -> Work | None:
        """What the launch does; None where blocks differ in steps, which are counted of the kernel."""
        is_even = len({one.serial_steps for one in self.works}) == 1
        is_made = all(choice.fitting.is_made for choice in self.choices)
        return side_by_side(self.works, self.moved) if is_even and is_made else None


def tile_scenario(program: TensorProgram, intrinsic: Intrinsic | None, machine: Target) -> tuple[Scenario, GemmConfig]:
    """`advise_tiles` as a scenario: where the accesses disagree, the runner-up stands behind the best tiles."""
    choice, wishes = _BlockTiles.of(_Fitting.of(program, intrinsic, machine)), preferences(program)
    best, others = choice.entries(choice.best), choice.others()
    if not wishes.disagreement or not others:
        why = "no other tiles fit" if wishes.disagreement else "all accesses agree"
        return Scenario((*choice.common(), *best), label=f"{why}: best {AS_IN_TEXT}"), choice.best
    runner_up, _ = promised_best(others, choice.promise, choice.floor)
    offered = (
        (f"{_in_words(choice.best)}, {AS_IN_TEXT}", "", (*choice.common(), *best)),
        (_in_words(runner_up), "", (*choice.common(), *choice.entries(runner_up))),
    )
    because = f"{wishes.disagreement}: each factor is copied along its own; {wishes.scores}"
    return ranked_scenario(offered, because), choice.best


def _in_words(config: GemmConfig) -> str:
    """ "tiles of 128 x 64, 4 blocks share the depth"."""
    shared = f", {config.split_k} blocks share the depth" if config.split_k > 1 else ""
    sliced = f", {config.slices} slices" if config.slices > 1 else ""
    return f"tiles of {config.block[0]} x {config.block[1]}{sliced}{shared}"


@dataclass(frozen=True, slots=True)
class _Fitting:
    """The tiles that fit a product."""

    axes: GemmAxes
    intrinsic: Intrinsic | None
    machine: Target
    gemm: FusedGemm
    loop: Loop
    tiles: Sequence[Tile]
    configs: Sequence[GemmConfig]

    @staticmethod
    def of(
        program: TensorProgram, intrinsic: Intrinsic | None, machine: Target, outer: tuple[str, ...] = ()
    ) -> _Fitting:
        """Those of a program's contraction.  outer: as for `axes_of_contraction`."""
        axes, gemm = gemm_axes(program, outer), fused_gemm(program, intrinsic, outer)
        assert axes is not None, program.name
        m, n, k = axes.sizes
        if intrinsic:
            singly = any(reach.is_single for reach in gemm.reaches)
            most = MOST_SINGLE if singly else DEPTH_BYTES // intrinsic.element_bytes
            depth = min(most, max(FRAGMENT_SIZE, intrinsic.k, power_above(k)))
            loop = Loop(k, depth, intrinsic.k, singly, axes.rounds)
            tiles = warp_tiles(axes, loop, gemm, machine)
        else:
            loop = Loop(k, max(4, min(16, power_above(k))))
            tiles = thread_tiles(axes, loop, gemm, machine)
        choices = list(candidates(tiles, loop, m * n * axes.batches, machine))
        if axes.outer:
            choices = [replace(config, outer=axes.outer) for config in choices]
        choices = without_spills(choices, gemm.problem, machine)
        return _Fitting(axes, intrinsic, machine, gemm, loop, tiles, choices)

    def pipelines(self, config: GemmConfig) -> list[GemmConfig]:
        """The same tiles with other depths and buffers."""
        found = [config, *pipelines(config, self.loop)]
        if self.loop.through_registers:
            found = [c for c in found if fits_registers(c.block, c.parts, self.gemm.reaches)]
        return without_spills(found, self.gemm.problem, self.machine)

    @property
    def is_made(self) -> bool:
        """Whether a kernel of these tiles is what comes of asking for them."""
        axes, intrinsic = self.axes, self.intrinsic
        return axes.siblings == 1 if intrinsic is None else has_instruction(self.machine, intrinsic)


@dataclass(frozen=True, slots=True)
class _BlockTiles:
    """The tiles that fit a product, and what the model promises of them."""

    fitting: _Fitting
    promise: Promise
    floor: Floor
    best: GemmConfig

    @staticmethod
    def of(fitting: _Fitting) -> _BlockTiles:
        """Those that the model promises most of for the product alone."""
        gemm, machine = fitting.gemm, fitting.machine
        promise = cache(lambda config: model_microseconds(_work_in_order(gemm, config, machine), machine))
        floor = floor_of([gemm], gemm.dram_bytes, machine)
        best, _ = promised_best(fitting.configs, promise, floor)
        best = promised_pipeline(best, fitting.pipelines(best), promise)
        return _BlockTiles(fitting, promise, floor, best)

    def others(self) -> list[GemmConfig]:
        """What fits beside the best, in a pipeline of as many stages: other tiles, else the same with another depth."""
        best, found = self.best, []
        for config in self.fitting.configs:
            if config != best and (config.stages, config.register_stages) == (best.stages, best.register_stages):
                with suppress(Unsupported):
                    self.promise(config)
                    found.append(config)
        return [config for config in found if config.block[:2] != best.block[:2]] or found

    def common(self) -> tuple[Entry, ...]:
        """What all tiles have in common: the instruction, if any, and the loops around it."""
        axes, intrinsic = self.fitting.axes, self.fitting.intrinsic
        if intrinsic is None:
            return ()
        return (_intrinsic(axes, intrinsic, self.best), *outer_entries(axes.statement.name, axes.outer))

    def entries(self, config: GemmConfig) -> list[Entry]:
        """The marks that ask for tiles."""
        fitting = self.fitting
        axes, sms, intrinsic = fitting.axes, fitting.machine.sm_count, fitting.intrinsic
        blocks = axes.batches * math.prod(
            -(-size // b) for size, b in zip(axes.sizes[:2], config.block[:2], strict=True)
        )
        names, along = (axes.statement.name,), ((axes.statement.name,), axes.depth[-1].name)
        time = f"{self.promise(config):.3g} µs predicted"
        why_tile = f"{blocks} tiles for {sms} SMs, {time}"
        why_tile += f", {axes.siblings} products have as many of its columns each" if axes.siblings > 1 else ""
        if config == self.best:
            why_tile += f": none of {len(fitting.tiles)} tiles is much faster"
        entries: list[Entry] = []
        for side, tile, part in zip((axes.rows, axes.columns), config.block[:2], config.part, strict=True):
            entries.append(mark(names, side[-1].name, "block", tile, why_tile))
            if intrinsic:
                sharers = f"{tile // part} warps of the block share it"
                because = f"{sharers if tile > part else WHOLE}; wider ones read shared memory less often"
                entries.append(mark(names, side[-1].name, "warp", part, because))
            else:
                entries.append(mark(names, side[-1].name, "thread", part, "each operand read serves several products"))
        if config.slices > 1:
            why = f"{blocks} tiles leave SMs empty" if blocks < sms else "a tile has few warps"
            why_sliced = f"{why}: {config.slices} times as many hide each other's waiting"
            entries.append(mark(*along, "slices", config.slices, why_sliced))
        if config.split_k > 1:
            whole = (one for one in fitting.configs if one.split_k == 1)
            alone = promised_best(whole, self.promise, self.floor)[1]
            why_split = f"{blocks} tiles on {sms} SMs: {time}, {alone:.3g} where no blocks share a depth"
            entries.append(mark(*along, "split_k", config.split_k, why_split))
        entries.append(mark(*along, "tile", config.block[2], _why_depth(config, intrinsic)))
        return entries + _raster_entries(fitting, config)


def _raster_entries(fitting: _Fitting, config: GemmConfig) -> list[Entry]:
    """The order of blocks, where another than by rows reads less again."""
    problem, machine, axes = fitting.gemm.problem, fitting.machine, fitting.axes
    best, by_rows = in_order(problem, config, machine), replace(config, raster=1)
    if best.raster == 1:
        return []
    sms = machine.sm_count
    panels = panels_of_wave((problem.m, problem.n), config.block, sms)
    because = f"{sms} blocks at once read {panels[best.raster]:,} rows and columns of the operands, not {panels[1]:,}"
    ours, theirs = (bytes_again(problem, one, machine) for one in (best, by_rows))
    if ours < theirs:
        because += f"; {bytes_text(ours)} are read from DRAM again as L2 lost them, not {bytes_text(theirs)}"
    return [mark((axes.statement.name,), axes.rows[-1].name, "raster", best.raster, because)]


def _intrinsic(axes: GemmAxes, intrinsic: Intrinsic, chosen: GemmConfig) -> Entry:
    waste = axes.padding(chosen.block)
    padded = f"{waste:.0%} of the products fill ragged tiles" if waste else "whole tiles, no padding"
    because = f"{axes}; {padded}; {intrinsic.because}"
    names = (axes.statement.name,)
    return Entry(names, axes.depth[-1].name, "mark", ("intrinsic", intrinsic.name), because=because)


def _why_depth(chosen: GemmConfig, intrinsic: Intrinsic | None) -> str:
    if intrinsic is None:
        return "a tile of both factors in shared memory"
    slices = f" and slice, {chosen.slices} slices" if chosen.slices > 1 else ""
    row_bytes = chosen.block[2] * intrinsic.element_bytes
    steps = chosen.block[2] // chosen.slices // intrinsic.k
    return f"{steps} steps of {intrinsic.k} to a barrier{slices}, rows of {row_bytes} bytes"


def advise_pipeline(program: TensorProgram, chosen: GemmConfig, intrinsic: Intrinsic | None) -> Advice:
    """Tiles under way at once, in shared memory and, on tensor cores, fragments in registers."""
    axes = gemm_axes(program, chosen.outer)
    assert axes is not None, program.name
    along = ((axes.statement.name,), axes.depth[-1].name)
    tiles = axes.rounds * -(-axes.sizes[2] // chosen.block[2])
    tiles = -(-tiles // chosen.split_k)  # each block walks its own part of the depth
    because = f"{chosen.stages - 1} copies are under way while a tile is used, of {tiles} tiles"
    if chosen.stages <= 2:
        alone = "one tile: there is nothing to overlap"
        because = alone if chosen.stages == 1 else f"the copy of one of {tiles} tiles runs under the use of the other"
    if intrinsic and tiles > 1 and any(reach.is_single for reach in reaches(program, chosen.outer)):
        because = "elements go one by one through registers, which hold one tile: it is loaded while another is used"
    entries = [mark(*along, "stages", chosen.stages, because)]
    if chosen.register_stages > 1 and intrinsic:
        steps = chosen.block[2] // chosen.slices // intrinsic.k
        # Of codes a tile has no fragments before all threads have taken theirs apart.
        across = "" if any(map(is_of_codes, axes.expressions)) else ", across tiles"
        because = f"a tile has {steps} steps: the next one's fragments are loaded while one is multiplied{across}"
        entries.append(mark(*along, "register_stages", chosen.register_stages, because))
    return Advice("pipeline", Scenario(tuple(entries)))
