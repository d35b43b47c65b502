"""Programs that the rules open, and those that pruning drops: counted, explained, and never one that would run."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import engine
from engine.cost.alcop_nodes import GemmProblem
from engine.kernels.gemm.limits import SEARCH_LIMITS
from engine.kernels.gemm.mapping_tasks import MOST_MAPPINGS
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.space import CUDA_CORES, GemmTemplate, prune_programs, situation
from engine.kernels.prune import KEPT_ANYWAY, PROMISE, promising
from engine.kernels.sketch_rules import RULES, sketch
from engine.kernels.space import Applied, Funnel, Program
from engine.target import target
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.space import GemmConfig
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from engine.tuning.statistics import rank_correlation

H200 = target("h200")
INTRINSIC = "mma_m16n8k16_f16"
SQUARE = GemmProblem(2048, 2048, 2048)
CORES = GemmProblem(2048, 2048, 2048, unit="", instruction=(1, 1, 4), element_bytes=4, widths=(4, 4))
GOOD = GemmConfig((128, 128, 32), (64, 64), 3, 2)


@cache
def kernel_of(row: str) -> engine.Kernel:
    group = next(g for g in engine.fuse(engine.load(f"suite:{row}")).groups if g.kind == "contraction")
    return engine.compile(group)


@cache
def problem_of(row: str) -> SearchProblem:
    found = problem(kernel_of(row).group, kernel_of(row).recipe)
    assert isinstance(found, SearchProblem)
    return found


def template_of(row: str) -> GemmTemplate:
    kernel = kernel_of(row)
    axes, intrinsic = gemm_axes(kernel.program), INTRINSICS.get(kernel.tile.intrinsic)
    assert axes is not None
    gemm = fused_gemm(kernel.program, intrinsic)
    return GemmTemplate(kernel.group, kernel.tile.intrinsic or CUDA_CORES, axes, gemm, H200)


def template(problem: GemmProblem) -> GemmTemplate:
    name = INTRINSIC if problem.unit else CUDA_CORES
    found = template_of("gta/gemm-1024x1024x1024")
    return replace(found, gemm=replace(found.gemm, problem=problem), name=name)


def prune(points: Iterable[GemmConfig], problem: GemmProblem) -> Funnel:
    return prune_programs(template(problem), map(template(problem).program, points))


def told(problem: GemmProblem) -> dict[str, Applied]:
    return {t.rule: t for t in sketch(situation(template(problem)))[1]}


def test_the_table_is_the_published_one() -> None:
    assert [rule.name for rule in RULES] == [
        "add cache read", "special compute location", "always inline", "simplify with constant tensor",
        "cross-thread reduction", "add cache write", "multi-level tiling with fusion", "multi-level tiling",
        "partial multi-level tiling", "place main", "place output", "skip stage",
    ]  # fmt: skip


def is_applied(told: Applied) -> bool:
    """Whether the reason is the rule's own, not one why it does not apply."""
    return told.because == next(rule.because for rule in RULES if rule.name == told.rule)


@pytest.mark.slow(sentinel=True)
def test_rules_open_choices_and_say_why() -> None:
    made, said = sketch(situation(template_of("gta/gemm-1024x1024x1024")))
    assert len(made) == len(set(made.points())) == said[-1].opened
    opened = {t.rule: t.opened for t in said}
    assert opened["add cache read"] == 4 * 6
    assert opened["partial multi-level tiling"] == opened["multi-level tiling"] * 4 * 3 * 3 * 3
    assert opened["place main"] == 3 * opened["partial multi-level tiling"]
    assert all(t.because for t in said)


def test_only_a_narrow_and_deep_product_shares_its_depth() -> None:
    shapes = (GemmProblem(8192, 8192, 1024), GemmProblem(256, 256, 1024), GemmProblem(256, 256, 64))
    said = [told(shape)["cross-thread reduction"] for shape in shapes]
    assert [is_applied(t) for t in said] == [False, True, False]
    assert "fill 132 SMs" in said[0].because and "too few" in said[2].because
    opened = [sketch(situation(template(replace(SQUARE, m=256, n=256, k=k))))[0].dimensions for k in (1024, 1008)]
    assert [d["slices"] for d in opened] == [(1, 2, 4)] * 2
    assert [d["split_k"] for d in opened] == [(1, 2, 3, 4, 6, 8, 12, 16), (1,)]


@pytest.mark.slow(sentinel=True)
def test_operands_without_an_instruction_are_tiled_by_thread() -> None:
    cores = template(CORES)
    made, _ = sketch(situation(cores))
    said = told(CORES)
    assert "no instruction" in said["partial multi-level tiling"].because and is_applied(said["multi-level tiling"])
    assert len(made) == len(set(made.points())) == 3 * 8 * (5 * 3) * 4**2 * 6**2
    assert {program.number("register_stages") for program in made.points()} == {1}
    assert {program.number("split_k") for program in made.points()} == {1, 2, 3, 4, 6, 8, 12, 16}
    assert {program.number("slices") for program in made.points()} == {1, 2, 4}
    standing = GemmConfig((64, 64, 16), (4, 4), slices=8)
    assert sketch(situation(cores, standing))[0].dimensions["slices"] == (1, 2, 4, 8)
    left = [cores.config(program) for program in prune_programs(cores, made.points()).left]
    assert left and all(max(knobs.block[:2]) <= 128 and knobs.parts <= 1024 for knobs in left)
    assert all(knobs.parts % 32 == 0 for knobs in left)


BROKEN = [
    (replace(GOOD, block=(96, 128, 32), part=(48, 64)), "tile shape", "96 of a block"),
    (replace(GOOD, block=(128, 128, 256)), "tile shape", "256 of a tile's depth"),
    (replace(GOOD, block=(128, 128, 64), part=(64, 64), slices=4), "register stages", "has 1 steps"),
    (replace(GOOD, stages=7), "stages", "up to 6"),
    (replace(GOOD, register_stages=4), "register stages", "2 steps"),
    (replace(GOOD, block=(256, 256, 64), stages=6), "shared memory", "KiB"),
    (replace(GOOD, block=(256, 256, 32), part=(16, 16)), "tile shape", "256 warps"),
    (replace(GOOD, block=(256, 256, 32), part=(64, 32), register_stages=2), "registers", "a thread may have 64"),
    (GemmConfig((64, 256, 64), (32, 64), 1, 1, 4), "exchange of sums", "4 slices exchange"),
    (GemmConfig((32, 256, 64), (32, 64), 1, 1, 2), "", ""),
    (GOOD, "", ""),
]


@pytest.mark.parametrize(("knobs", "rule", "figures"), BROKEN, ids=[str(knobs) for knobs, *_ in BROKEN])
def test_each_rule_drops_what_breaks_it(knobs: GemmConfig, rule: str, figures: str) -> None:
    funnel = prune((knobs,), SQUARE)
    assert [d.rule for d in funnel.dropped if d.count] == ([rule] if rule else [])
    assert len(funnel.left) == (not rule)
    if rule:
        (dropped,) = (d for d in funnel.dropped if d.count)
        assert figures in dropped.example and "row_warps" in dropped.example and dropped.because


def test_grids_half_empty_tiles_and_narrow_copies() -> None:
    def rule(problem: GemmProblem, knobs: GemmConfig) -> list[str]:
        return [d.rule for d in prune((knobs,), problem).dropped if d.count]

    assert rule(replace(SQUARE, batch=2**24), GOOD) == ["grid"]
    assert rule(replace(SQUARE, m=64), GOOD) == ["tile utilisation"]
    assert rule(replace(SQUARE, m=65), GOOD) == []
    # 128 x 32 elements of two bytes, one by one, are 32 for each of 128 threads, 16 for each of 256.
    gathered = replace(SQUARE, widths=(1, 8))
    assert rule(gathered, GOOD) == ["asynchronous copies"]
    assert rule(gathered, replace(GOOD, part=(64, 32))) == ["asynchronous copies"]  # registers hold one tile, not two
    assert rule(gathered, replace(GOOD, part=(64, 32), stages=2)) == []
    assert rule(gathered, replace(GOOD, block=(128, 128, 64), stages=1)) == []
    assert rule(gathered, replace(GOOD, block=(128, 128, 64))) == ["asynchronous copies"]
    assert rule(replace(SQUARE, widths=(2, 8)), replace(GOOD, block=(128, 128, 64))) == []


@pytest.mark.slow(sentinel=True)
def test_the_funnel_adds_up() -> None:
    made, _ = sketch(situation(template(SQUARE)))
    total = len(made)
    funnel = prune_programs(template(SQUARE), made.points())
    assert funnel.total == total == len(funnel.left) + sum(d.count for d in funnel.dropped)
    assert [d.rule for d in funnel.dropped] == [rule.name for rule in SEARCH_LIMITS]
    assert 0 < len(funnel.left) < total
    assert str(funnel).endswith(f"{len(funnel.left):,} left")


@pytest.mark.parametrize(
    "row", ["conv2d-C1-b16", "transposed-1x256x7x7-512-k3-s1", "conv1d-1x512x892-512-k3-s1", "gemm-16x512x128"]
)
def test_what_the_advisers_chose_is_never_dropped(row: str) -> None:
    knobs, here = config_of_tile(kernel_of(f"gta/{row}").tile), template_of(f"gta/{row}")
    assert knobs is not None
    assert prune_programs(here, [here.program(knobs)]).left == (here.program(knobs),)


def test_everything_dropped_says_by_which_rule() -> None:
    funnel = prune([replace(GOOD, stages=9)] * 3, SQUARE)
    assert funnel.left == ()
    assert [(d.rule, d.count) for d in funnel.dropped if d.count] == [("stages", 3)]


@pytest.mark.few(1)
@pytest.mark.parametrize(("row", "mappings"), [("gta/gemm-256x1024x256", 1), ("gta/conv2d-C1-b1", MOST_MAPPINGS)])
def test_what_is_left_is_compiled_as_asked(row: str, mappings: int) -> None:
    kernel, found = kernel_of(row), problem_of(row)
    first, *others, last = (task.name for task in found.tasks)
    assert (first, len(others), last) == (INTRINSIC, mappings - 1, CUDA_CORES)
    for task in found.tasks:
        for program in task.programs[:: max(1, len(task.programs) // 8)]:
            made = engine.compile(kernel.group, found.recipe_of(program))
            assert why_not_followed(made) == ""
            assert task.template.program_of(made) == program


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("row", ["gta/gemm-256x1024x256", "gta/conv2d-C9-b1"])
def test_promises_rank_tiles_as_the_model_of_their_kernels_does(row: str) -> None:
    """Of windows, too, whose elements go one by one and wait as often as the kernel's loop does."""
    here, kernel, found = template_of(row), kernel_of(row), problem_of(row)
    left = prune_programs(here, sketch(situation(here))[0].points()).left
    programs = random.Random(4).sample(left, 24)
    came = [engine.predict(engine.compile(kernel.group, found.recipe_of(program))).microseconds for program in programs]
    assert rank_correlation(np.array([here.rank(program) for program in programs]), np.array(came)) > 0.7


def test_what_is_promised_far_more_time_is_dropped_but_not_the_advisers_choice() -> None:
    points = [Program("a mapping", (("n", n),)) for n in range(1, 201)]
    funnel = Funnel(300, (), tuple(points))
    slowest = points[-1]
    promised = {program: float(program.number("n")) for program in points}
    made = promising(funnel, promised, (slowest,))
    assert made.left == (*points[:KEPT_ANYWAY], slowest)
    assert (made.total, made.dropped[-1].rule, made.dropped[-1].count) == (300, PROMISE, 200 - KEPT_ANYWAY - 1)
    near = {program: 1 + program.number("n") / 400 for program in points}
    assert promising(funnel, near, ()).left == tuple(points)
    few = Funnel(KEPT_ANYWAY, (), tuple(points[:KEPT_ANYWAY]))
    assert promising(few, promised, ()) is few
