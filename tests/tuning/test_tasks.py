"""What is a task and what is not: mappings with and without kernels, wishes of a person, kernels that spill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import engine
from engine.execution.nvrtc import CompileError
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.mapping_tasks import CONSIDERED, MOST_MAPPINGS
from engine.kernels.gemm.space import CUDA_CORES, GemmTemplate
from engine.kernels.space import Program
from engine.recipe import Entry
from engine.tensorize.space import GemmConfig
from engine.tuning import compiler_pruning as compiled
from engine.tuning.compiler_pruning import COMPILED_RULES, REFUSED, SPILLS, compiled_limits, rule_of
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from tests.support.needs import needs_nvrtc

MMA = "mma_m16n8k16_f16"


@cache
def group_of(file: str, kind: str) -> FusionGroup:
    return next(g for g in engine.fuse(engine.load(file)).groups if g.kind == kind)


def found(group: FusionGroup, *wishes: Entry) -> SearchProblem:
    recipe = engine.default_recipe(group)
    result = problem(group, recipe.advise("user", *wishes) if wishes else recipe)
    assert isinstance(result, SearchProblem), result
    return result


@pytest.mark.slow(sentinel=True)
def test_every_mapping_is_a_task_or_counted_with_its_reason() -> None:
    group = group_of("suite:gta/conv3d-1x512x2x7x7-512-k3-s1", "contraction")
    one, listed = found(group), engine.mappings(group)
    on_tensor_cores = [task.name for task in one.tasks if task.name != CUDA_CORES]
    assert on_tensor_cores[0] == MMA and len(on_tensor_cores) == len(one.tasks) - 1 == MOST_MAPPINGS
    assert all(name.startswith(f"{MMA} inside ") for name in on_tensor_cores[1:])
    told = {(r.mapping, r.because): r.count for r in one.refused}
    refused = sum(count for (name, _), count in told.items() if name == MMA)
    assert refused == len([m for m in listed.mappings if m.intrinsic == MMA]) - MOST_MAPPINGS
    assert all(because for _, because in told)
    assert any("the fewest multiplications" in because for name, because in told if name == MMA)
    assert ("avx512_vpdpbusd_16x4", "x holds float16, avx512_vpdpbusd_16x4 takes uint8") in told


@cache
def convolution() -> FusionGroup:
    return group_of("suite:gta/conv2d-C11-b1", "contraction")


@pytest.mark.slow(sentinel=True)
def test_programs_of_every_mapping_are_followed() -> None:
    """The cheapest, the middle and the dearest of each have the loops around the intrinsic that their mapping says."""
    group = convolution()
    one = found(group)
    multiplications = {tuple(sorted(m.outer)): m.cost for m in engine.mappings(group).mappings if m.intrinsic == MMA}
    most = sorted(multiplications.values())[CONSIDERED]
    for task in one.tasks:
        ranked = sorted(task.programs, key=task.rank)
        outer = tuple(sorted(task.name.partition(" inside ")[2].split()))
        assert task.name == CUDA_CORES or multiplications[outer] <= most
        for program in (ranked[0], ranked[len(ranked) // 2], ranked[-1]):
            kernel = engine.compile(group, one.recipe_of(program))
            assert why_not_followed(kernel) == "" and isinstance(kernel.tile.config, GemmConfig)
            assert tuple(sorted(kernel.tile.config.outer)) == outer
            assert task.template.program_of(kernel) == program
            assert [t.template.program_of(kernel) for t in one.tasks if t is not task] == [None] * (len(one.tasks) - 1)


def test_loops_that_a_person_puts_around_the_intrinsic_stay() -> None:
    group = convolution()
    anchor = group.program.statements[0]
    around = anchor.reduced[0].name
    asked = found(group, engine.entry(anchor.name, at=around, mark=("axis", "outer"), because="a person says so"))
    assert [task.name for task in asked.tasks] == [f"{MMA} inside {around}"]
    refused = found(group, engine.entry(anchor.name, at=around, mark=("axis", "inner"), because="a person says so"))
    assert [task.name for task in refused.tasks] == [MMA, CUDA_CORES]


def test_operands_that_no_instruction_takes_are_multiplied_on_cuda_cores_alone() -> None:
    one = found(group_of("resources/models/matmul_bias_gelu_128x256x512.onnx", "contraction"))
    assert [task.name for task in one.tasks] == [CUDA_CORES]
    assert any(r.mapping == "mma_m16n8k8_tf32" and "numerics" in r.because for r in one.refused)


def test_the_mapping_that_a_person_asks_for_is_the_only_one() -> None:
    group = group_of("suite:gta/gemm-256x1024x256", "contraction")
    statement = group.program.statements[0].name
    wish = engine.entry(statement, at="k", mark=("intrinsic", MMA), because="a person says so")
    assert [task.name for task in found(group, wish).tasks] == [MMA]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("file", "kind", "wish", "dimension"),
    [
        ("softmax_96x512.onnx", "row reduction", engine.entry(at="innermost", mark=("lane", 16)), ("sharers", {16})),
        ("softmax_96x512.onnx", "row reduction", engine.entry(at="outermost", mark=("block", 2)), ("rows", {2})),
        ("add_relu_odd_3x5x127.onnx", "element-wise", engine.entry(at="k", mark=("thread", 128)), ("threads", {128})),
        ("transpose_2x12x64x64.onnx", "layout", engine.entry("S0", at="k", mark=("thread", 512)), ("threads", {512})),
    ],
)
def test_a_persons_entries_are_fixed_in_every_program(
    file: str, kind: str, wish: Entry, dimension: tuple[str, set[int]]
) -> None:
    group = group_of(f"resources/models/{file}", kind)
    one, (name, values) = found(group, wish), dimension
    task = one.tasks[0]
    assert {program.number(name) for program in task.programs} == values
    assert any(d.rule == "entries of the user" and d.count and str(wish) in d.example for d in task.funnel.dropped)
    recipe = one.recipe_of(task.programs[-1])
    kept = [e for a in recipe.groups[group.name] if a.author == "user" for e in a.scenario.entries]
    assert kept == [wish]
    assert why_not_followed(engine.compile(group, recipe)) == ""


def test_a_persons_order_of_loops_is_not_searched() -> None:
    group = group_of("resources/models/transpose_2x12x64x64.onnx", "layout")
    one = found(group, engine.entry(pin="k", at="innermost", because="a person says so"))
    assert [task.name for task in one.tasks] == ["walks"]
    assert {str(program["walk"]).partition(",")[0].split()[-1] for program in one.programs} == {"k"}


SPILLING = {
    "row_warps": 4, "column_warps": 2, "row_tiles": 1, "column_tiles": 2, "chunks": 8, "stages": 1,
    "register_stages": 2, "slices": 1,
}  # fmt: skip


@needs_nvrtc
def test_what_the_compiler_spills_is_dropped_before_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of("suite:gta/gemm-256x1024x256", "contraction")
    one = found(group)
    assert isinstance(one.tasks[0].template, GemmTemplate)
    kernel = engine.compile(group, one.recipe_of(Program(MMA, tuple(SPILLING.items()))))
    assert compiled_limits(kernel) == ""
    told = compiled.compile_cuda(kernel.source.text, kernel.target.architecture)
    monkeypatch.setattr(compiled, "compile_cuda", lambda text, architecture: replace(told, spill_bytes=256))
    reason = compiled_limits(kernel)
    assert rule_of(reason) == SPILLS in COMPILED_RULES and "256 bytes" in reason
    monkeypatch.setattr(compiled, "compile_cuda", lambda text, architecture: replace(told, spill_bytes=80))
    assert compiled_limits(kernel) == ""

    def refuse(text: str, architecture: str) -> None:
        raise CompileError("NVRTC", 3, "too much", "")

    monkeypatch.setattr(compiled, "compile_cuda", refuse)
    assert rule_of(compiled_limits(kernel)) == REFUSED in COMPILED_RULES
