"""The pipeline model in its limits, where the answer is known in closed form, and as it ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.cost.alcop import allowed_registers, distinct_bytes, pipelined_time, predict_bottleneck, predict_pipeline
from engine.cost.alcop_nodes import AlcopWork, GemmProblem
from engine.cost.alcop_work import alcop_work_of_config, alcop_work_of_kernel, estimated_registers
from engine.cost.estimate import model_prediction
from engine.kernels.gemm.problem import config_of_tile, gemm_problem
from engine.support.errors import Unsupported
from engine.target import Figure, Target, target
from engine.target.teams import team_seconds
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.space import GemmConfig

A100, H200 = target("a100"), target("h200")
CUBE = GemmProblem(4096, 4096, 4096)
TILE = GemmConfig((128, 128, 32), (64, 32), 4)
TIMES = st.floats(0.001, 10.0)
COUNTS = st.integers(1, 40)


def lone(steps: int = 16, **changes: object) -> AlcopWork:
    """One block on a whole GPU, without results: nothing but its main loop."""
    work = alcop_work_of_config(GemmProblem(64, 64, 32 * steps), GemmConfig((64, 64, 32), (32, 32)), registers=64)
    return replace(work, results=0.0, **changes)  # type: ignore[arg-type]


@given(TIMES, TIMES, COUNTS)
def test_one_stage_and_one_worker_load_and_use_in_turn(load: float, use: float, steps: int) -> None:
    assert pipelined_time(load, use, steps, stages=1, workers=1) == pytest.approx(steps * (load + use))


@given(TIMES, TIMES, COUNTS, COUNTS)
def test_a_deep_pipeline_fills_once_and_never_waits_again(load: float, use: float, steps: int, workers: int) -> None:
    deep = int(load / use) + 2
    assert pipelined_time(load, use, steps, deep, workers) == pytest.approx(load + steps * workers * use)


@given(TIMES, TIMES, COUNTS, st.integers(2, 6))
def test_too_shallow_a_pipeline_waits_for_its_copies(load: float, use: float, steps: int, stages: int) -> None:
    """stages - 1 copies are under way: as many tiles arrive in each load's time, and the last is used."""
    slow = load + (stages - 1) * use
    assert pipelined_time(slow, use, steps, stages, workers=1) == pytest.approx(steps * slow / (stages - 1) + use)


@given(TIMES, COUNTS, st.integers(2, 6), st.integers(1, 8))
def test_workers_hide_what_stages_hide(use: float, steps: int, stages: int, workers: int) -> None:
    """As long as the copies under way, of all workers, cover the load, the unit never starves; just beyond it does."""
    covered = (stages - 1) * workers * use
    assert pipelined_time(covered * 0.999, use, steps, stages, workers) < covered + steps * workers * use
    assert pipelined_time(covered * 2, use, steps, stages, workers) == pytest.approx(2 * steps * workers * use + use)
    alone = (workers - 1) * use
    assert pipelined_time(alone * 0.999, use, steps, 1, workers) == pytest.approx(alone * 0.999 + steps * workers * use)


def test_one_block_of_one_stage_costs_launch_and_every_step_in_full() -> None:
    work = lone()
    found = predict_pipeline(work, A100)
    assert found.occupancy.blocks > 1 and found.pace.resident == 1  # only one block is there to be resident
    step = found.pace.latency + found.pace.transfer + found.pace.use
    assert found.microseconds == pytest.approx(A100.launch_overhead.value * 1e6 + 16 * step)


def test_the_use_of_a_tile_is_the_inner_pipeline() -> None:
    """One fragment set: each of the two inner steps reads, then multiplies; four warps have a scheduler each."""
    found = predict_pipeline(lone(), A100)
    assert found.pace.use == pytest.approx(2 * (found.pace.read + found.pace.multiply))
    sets = predict_pipeline(lone(register_stages=4), A100)
    assert sets.pace.use == pytest.approx(sets.pace.multiply * 2 + sets.pace.read / 16)  # fills once in 16 tiles


def test_a_wave_is_added_for_each_round_of_blocks() -> None:
    """Grids of one, two and three full waves differ by the same wave, and one block more costs another round."""
    one = replace(lone(), distinct_from_grid=False)
    places = int(A100.sms.value) * predict_pipeline(one, A100).occupancy.blocks
    times = [predict_pipeline(replace(one, grid=(1, 1, count)), A100) for count in (places, 2 * places, 3 * places)]
    launch = A100.launch_overhead.value * 1e6
    wave = times[0].microseconds - launch
    assert [t.microseconds for t in times] == pytest.approx([launch + count * wave for count in (1, 2, 3)])
    alone = predict_pipeline(one, A100).microseconds - launch
    more = predict_pipeline(replace(one, grid=(1, 1, places + 1)), A100)
    assert more.microseconds > launch + wave and more.waves == pytest.approx((places + 1) / places)
    assert more.microseconds >= launch + wave + alone * 0.99


def test_bandwidth_bounds_even_the_deepest_pipeline() -> None:
    """Where the copies of a step take longer than its arithmetic, no number of stages helps."""
    thin = lone(stages=6, fetched=3e6)
    found = predict_pipeline(thin, A100)
    assert found.pace.transfer > 10 * found.pace.use
    assert found.term("main loop").value == pytest.approx(16 * found.pace.transfer)
    assert found.term("main loop").value == predict_bottleneck(thin, A100).term("main loop").value


def test_the_bottleneck_model_knows_no_stages_but_through_occupancy() -> None:
    shallow, deep = (predict_bottleneck(lone(stages=stages), A100).microseconds for stages in (1, 3))
    assert shallow == deep
    assert predict_pipeline(lone(stages=3), A100).microseconds < predict_pipeline(lone(), A100).microseconds


@pytest.mark.parametrize("machine", [A100, H200])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_bottleneck_is_never_slower(machine: Target, stages: int) -> None:
    work = alcop_work_of_config(CUBE, replace(TILE, stages=stages))
    assert predict_bottleneck(work, machine).microseconds <= predict_pipeline(work, machine).microseconds


def test_blocks_of_a_wave_share_panels_in_memory() -> None:
    """Rows and columns of tiles are counted once each: 3 x 4 tiles, columns fastest, two batches."""
    work = replace(lone(), grid=(3, 4, 2), panels=(10.0, 1.0))
    assert distinct_bytes(work, 1) == 11
    assert distinct_bytes(work, 4) == 10 + 4
    assert distinct_bytes(work, 5) == 20 + 4
    assert distinct_bytes(work, 12) == 30 + 4
    assert distinct_bytes(work, 14) == 30 + 4 + 10 + 2
    assert distinct_bytes(replace(work, distinct_from_grid=False, fetched=7.0), 5) == 35


def test_more_stages_help_until_they_cost_a_resident_block() -> None:
    """Two more stages hide the copies of two blocks; six leave room for one block, and that is slower again."""
    found = {s: predict_pipeline(alcop_work_of_config(CUBE, replace(TILE, stages=s)), A100) for s in range(1, 7)}
    assert [found[s].occupancy.blocks for s in range(1, 7)] == [2, 2, 2, 2, 2, 1]
    times = {stages: prediction.microseconds for stages, prediction in found.items()}
    assert times[1] > 1.3 * times[2] > 1.3 * times[3] and times[3] == times[4] == times[5] < times[6]
    for prediction in found.values():
        assert prediction.origin == "predicted" and prediction.note == "uncalibrated"
        assert all(term.unit and term.because for term in prediction.terms)
        parts = [prediction.term(name).value for name in ("launch", "main loop", "epilogue")]
        assert prediction.microseconds == pytest.approx(sum(parts))


def test_slices_of_the_depth_bring_warps_and_pay_for_their_sums() -> None:
    """One warp to a block waits for its own fragments; four share the depth and add 48 kB of sums at the end."""
    narrow, tile = GemmProblem(64, 64, 16384), GemmConfig((64, 64, 64), (64, 64), 3)
    alone, sliced = (alcop_work_of_config(narrow, replace(tile, slices=slices)) for slices in (1, 4))
    assert sliced.blocks == alone.blocks and sliced.threads == 4 * alone.threads
    assert sliced.inner_steps * 4 == alone.inner_steps and sliced.fragments == 4 * alone.fragments
    assert (alone.partial, sliced.partial) == (0, 3 * 64 * 64 * 4)
    sheet = Figure(5120 * 1.41e9, "bytes/s", "data sheet")  # so that L2 does not hold the copies up
    one, four = (predict_pipeline(work, replace(A100, l2_bandwidth=sheet)) for work in (alone, sliced))
    assert four.term("main loop").value < one.term("main loop").value / 2
    assert four.term("epilogue").value > one.term("epilogue").value


def test_split_k_fills_the_sms_and_pays_for_its_meeting() -> None:
    """16 tiles on 108 SMs: six blocks share each, walk a sixth of the depth, and hand over 96 kB of sums."""
    deep, tile = GemmProblem(256, 256, 6144), GemmConfig((64, 64, 64), (32, 32), 3)
    alone, split = (alcop_work_of_config(deep, replace(tile, split_k=parts)) for parts in (1, 6))
    assert (alone.grid, split.grid) == ((4, 4, 1), (4, 4, 6)) and alone.steps == 96 == 6 * split.steps
    assert (alone.team_bytes, split.team_bytes) == (0, 6 * 64 * 64 * 4)
    one, six = (predict_pipeline(work, A100) for work in (alone, split))
    assert six.term("main loop").value < one.term("main loop").value / 3
    finish = (replace(work, results=0.0) for work in (alone, split))
    met = [predict_pipeline(work, A100).term("epilogue").value for work in finish]
    to_one_sm = A100.l2_bandwidth.value / A100.sms.value
    assert met == [0, pytest.approx((2 * A100.dram_latency.value + split.team_bytes / to_one_sm) * 1e6)]


def test_registers_are_estimated_from_sums_and_fragments() -> None:
    """64 x 32 of a warp: 64 sums a lane, 24 registers of fragments for each set."""
    one, two = (estimated_registers(CUBE, replace(TILE, register_stages=sets)) for sets in (1, 2))
    assert two - one == 24
    wide = estimated_registers(CUBE, GemmConfig((128, 128, 32), (64, 64)))
    assert wide - one == 64 + 16 + 8 + 4  # addresses for 64 sums more, copies shared by half the threads
    gathered = replace(CUBE, widths=(1, 8))  # 16 elements of the first operand for each of 256 threads
    assert 110 < estimated_registers(gathered, TILE) - one < 130
    in_turns = GemmConfig((128, 128, 32), (64, 64))  # 32 elements for each of 128 threads
    assert 0 < estimated_registers(gathered, in_turns) - wide < 20


def test_a_block_that_does_not_fit_is_refused_with_figures() -> None:
    with pytest.raises(Unsupported, match=r"bytes of shared memory; a block of a100 may have 166,912"):
        predict_pipeline(alcop_work_of_config(CUBE, GemmConfig((256, 256, 64), (64, 64), 3)), A100)
    assert predict_pipeline(alcop_work_of_config(CUBE, GemmConfig((256, 256, 64), (64, 64), 2)), A100).microseconds > 0


@pytest.mark.parametrize(
    ("row", "contraction"),
    [
        ("MM_BERT_FC1", GemmProblem(512, 3072, 768, operand_bytes=(786_432, 4_718_592), takes_thirds=True)),
        # Few blocks: slices of the depth.
        ("MM_RN50_FC", GemmProblem(1024, 64, 2048, operand_bytes=(4_194_304, 262_144), takes_thirds=True)),
        ("BMM_BERT_SV", GemmProblem(512, 64, 512, batch=12, operand_bytes=(524_288, 65_536), takes_thirds=True)),
    ],
)
def test_a_compiled_kernel_has_the_figures_of_its_knobs(row: str, contraction: GemmProblem) -> None:
    """The facts of the tile program, counted independently, are those that the knobs promise."""
    group = engine.fuse(engine.load(f"suite:alcop/{row}")).groups[0]
    kernel = engine.compile(group, engine.default_recipe(group, target="a100"))
    knobs = config_of_tile(kernel.tile)
    intrinsic = INTRINSICS.get(kernel.tile.intrinsic)
    assert knobs is not None and gemm_problem(kernel.program, intrinsic) == contraction
    counted = alcop_work_of_kernel(kernel.tile, replace(kernel.facts, registers=100), contraction)
    promised = alcop_work_of_config(contraction, knobs, registers=100)
    assert counted == promised


def test_a_compiled_split_has_the_figures_of_its_knobs() -> None:
    group = engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0]
    recipe = engine.default_recipe(group, target="a100")
    kernel = engine.compile(group, recipe.advise("user", engine.entry("S0", mark=("split_k", 4), at="k")))
    knobs = config_of_tile(kernel.tile)
    assert knobs is not None and knobs.split_k == kernel.source.team == 4
    contraction = GemmProblem(1024, 64, 2048)
    counted = alcop_work_of_kernel(kernel.tile, replace(kernel.facts, registers=100), contraction)
    assert counted == alcop_work_of_config(contraction, knobs, registers=100)
    whole = model_prediction(replace(kernel.facts, team=1), A100).microseconds
    met = 1e6 * team_seconds(kernel.facts.team_bytes, A100)
    assert model_prediction(kernel.facts, A100).microseconds - whole == pytest.approx(met)


def test_a_kernel_on_cuda_cores_has_a_pace_too() -> None:
    group = engine.fuse(engine.load("resources/models/matmul_bias_gelu_128x256x512.onnx")).groups[0]
    kernel = engine.compile(group)
    work = alcop_work_of_kernel(kernel.tile, kernel.facts, gemm_problem(kernel.program, None))
    found = predict_pipeline(work, H200)
    assert kernel.tile.intrinsic == "" and kernel.facts.stages > 1
    assert found.pace.use > 0 and found.pace.transfer > 0 and found.microseconds > 2


def test_more_registers_than_a_block_may_have_are_spilled_and_cost_time() -> None:
    """512 threads get 128 registers each; what is estimated above that passes through local memory in every step."""
    assert allowed_registers(128, A100) == 255 and allowed_registers(512, A100) == 128
    fits = alcop_work_of_config(CUBE, GemmConfig((128, 256, 32), (64, 64), 2))
    tight = alcop_work_of_config(CUBE, GemmConfig((256, 256, 32), (64, 64), 2))
    assert fits.threads == 256 and fits.registers is not None and fits.registers < 255
    assert tight.threads == 512 and tight.registers is not None and tight.registers > 128
    known = predict_pipeline(replace(tight, registers=128), A100)
    assert predict_pipeline(tight, A100).pace.transfer > known.pace.transfer
    spilled = replace(tight, registers=128, spill_bytes=4 * (tight.registers - 128))
    assert predict_pipeline(spilled, A100).microseconds == pytest.approx(predict_pipeline(tight, A100).microseconds)
