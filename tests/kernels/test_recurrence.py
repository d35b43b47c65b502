"""Steps of recurrences in one launch whose blocks meet: right at both levels, faster, written once; planted faults."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest

import engine
from engine.api import group_values
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_ptx
from engine.execution.ptx.execute import execute
from engine.fusion import recurrent_steps
from engine.fusion.nodes import GLOBAL
from engine.fusion.recurrence import ONE_STEP, recurrence_shape, recurrence_steps
from engine.target import target
from engine.tile.nodes import GridBarrier, operations
from engine.verify.levels import LINE_TABLE
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.recurrences import GRU, LAYERS, LSTM, UNEVEN, Layer, graph_of, group_of, kernel_of, plan_of
from tests.verify.test_planted_faults import Fault, assert_caught

EVERY_LAYER = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
TARGETS = pytest.mark.parametrize("gpu", ["a100", "h100"])


@pytest.mark.few(4)
@TARGETS
@EVERY_LAYER
def test_several_steps_are_one_launch(layer: Layer, gpu: str) -> None:
    """One barrier between each two products that wait for each other; all blocks run at once."""
    group, kernel = group_of(layer, gpu), kernel_of(layer, gpu)
    steps = recurrence_steps(group.program.statements)
    assert (group.kind, kernel.family, kernel.tile.misfit) == ("recurrence", "recurrence", "")
    barriers = [op for op in operations(kernel.tile.body) if isinstance(op, GridBarrier)]
    assert [op.number.constant for op in barriers] == list(range(len(steps) - 1))
    assert {op.of for op in barriers} == {kernel.facts.meetings} == {len(steps) - 1}
    (launch,) = kernel.source.launches
    assert launch.meets_as_grid and 1 < launch.least_sms <= target(gpu).sm_count
    assert launch.blocks <= launch.resident * target(gpu).sm_count
    assert f"__launch_bounds__(THREADS, {launch.resident})" in kernel.source.text


@EVERY_LAYER
def test_what_one_step_hands_to_another_is_memory_of_the_launch(layer: Layer) -> None:
    """Nobody else reads states: no array of the program, and one counter that is zero before and after."""
    kernel = kernel_of(layer)
    workspaces = {w.name: w for w in kernel.source.workspaces}
    program, steps = kernel.group.program, recurrence_steps(kernel.group.program.statements)
    by_others = {a for n, step in enumerate(steps) for s in step for a in s.sources
                 if any(a in {t.write.array for t in other} for other in steps[:n])}  # fmt: skip
    handed = by_others - set(program.outputs)
    assert handed and set(workspaces) == {*handed, "arrivals"}
    assert [name for name, one in workspaces.items() if one.zeroed] == ["arrivals"]
    assert not set(workspaces) & {b.array for b in kernel.source.buffers}
    makers = {s.name for s in program.statements if s.write.array in by_others}
    assert all(kernel.tile.placements[name].startswith(GLOBAL) for name in makers)


@pytest.mark.parametrize("layer", [LSTM, GRU, LAYERS[3], LAYERS[4]], ids=lambda layer: layer.title)
def test_steps_that_are_alike_are_written_once(layer: Layer) -> None:
    """The first step takes its input elsewhere, the last one keeps no state: those between are a loop."""
    kernel = kernel_of(layer)
    steps = kernel.tile.constants["STEPS"]
    assert f"for (int phase = 0; phase < {steps - 2}; ++phase) {{" in kernel.source.text
    assert f"grid_barrier(arrivals, 0, (1 + phase), {steps - 1});" in kernel.source.text
    assert f"grid_barrier(arrivals, 0, {steps - 1}, {steps - 1});" in kernel.source.text
    assert kernel.source.text.count("grid_barrier(") == 2
    (growth,) = {int(n) for n in re.findall(r"phase \* (\d+)\)", kernel.source.text)}
    assert growth % layer.hidden == 0


@pytest.mark.slow(sentinel=True)
def test_steps_of_two_kinds_in_turn_are_written_once() -> None:
    """A GRU that resets before it multiplies has two products to a step, which meet twice in each turn."""
    kernel = kernel_of(replace(LAYERS[2], steps=9))
    assert kernel.facts.meetings == kernel.tile.constants["STEPS"] - 1 == 15
    for text in ("for (int phase = 0; phase < 6; ++phase) {", "0, (3 + phase * 2), 15);", "0, (4 + phase * 2), 15);"):
        assert kernel.source.text.count(text) == 1
    assert engine.check(kernel).status == "pass"


@pytest.mark.few(3)
@needs_compiler
@needs_nvrtc
@TARGETS
@EVERY_LAYER
def test_right_at_both_levels(layer: Layer, gpu: str) -> None:
    for level in ("source", "ptx"):
        report = engine.check(kernel_of(layer, gpu), level=level)
        assert report.status == "pass" and not report.findings, report.message
        assert report.orders == ORDERS and report.elements_compared > 0


@pytest.mark.few(3)
@needs_compiler
@TARGETS
@EVERY_LAYER
def test_the_whole_model_is_right(layer: Layer, gpu: str) -> None:
    """Against the graph's own values, which know nothing of groups."""
    report = engine.check_model(graph_of(layer), plan_of(layer, gpu))
    assert report.status == "pass", report


@TARGETS
@EVERY_LAYER
def test_meetings_are_quicker_than_launches(layer: Layer, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Than the plan that is made where blocks cannot meet: launches of a step, or of steps that a block makes alone."""
    plan = plan_of(layer, gpu)
    monkeypatch.setattr(recurrent_steps, "recurrence_shape", lambda statements, kept: "blocks cannot meet")
    apart = engine.fuse(graph_of(layer), target=gpu)
    assert "recurrence" not in {group.kind for group in apart.groups}
    are_joined = any(len(recurrence_steps(group.program.statements)) > 1 for group in apart.groups)
    assert len(plan.launches) < len(apart.launches) or are_joined
    assert microseconds(plan) < microseconds(apart)


def microseconds(plan: engine.FusionPlan) -> float:
    return sum(engine.predict(engine.compile(group)).microseconds * len(group.instances) for group in plan.groups)


def test_a_cpu_has_no_blocks_that_meet() -> None:
    plan = engine.fuse(graph_of(GRU), target="cpu")
    assert "recurrence" not in {group.kind for group in plan.groups}
    assert "recurrence" in {group.kind for group in plan_of(GRU, "h100").groups}


# What is a recurrence


def test_steps_are_cut_before_a_product_that_reads_what_the_step_made() -> None:
    statements = group_of(GRU).program.statements
    steps = recurrence_steps(statements)
    assert [len(step) for step in steps] == [3] * 5 and [s for step in steps for s in step] == [*statements]
    assert recurrence_shape(statements[:3]) == ONE_STEP
    kept = frozenset(group_of(GRU).program.outputs)
    shape = recurrence_shape(statements[:6], kept)
    assert not isinstance(shape, str) and shape.kind.name == "recurrence"
    # Equal steps call their axes by the same names.
    assert shape.axes[statements[0].name, "i"] == shape.axes[statements[3].name, "i"]
    assert len(shape.extents) == 4


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_steps_of_fewer_points_leave_blocks_idle() -> None:
    kernel = kernel_of(UNEVEN)
    assert "    if (block < 300) {" in kernel.source.text and kernel.source.grid == (400, 1, 1)
    assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]


# Marks by hand


def asked(layer: Layer, points: int = 0, threads: int = 0, *more: str) -> engine.Kernel:
    """The kernel where a user asks for points of a block, for its threads, and for what else there is."""
    group = group_of(layer)
    wishes = [f"all @ outermost: mark {name} {n}" for name, n in (("block", points), ("thread", threads)) if n]
    lines = "".join(f"  {line}\n" for line in (*wishes, *more))
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, f"advice user\n{lines}"))
    assert isinstance(kernel, engine.Kernel)
    return kernel


@needs_compiler
@pytest.mark.parametrize(("points", "threads", "blocks"), [(2, 128, 96), (1, 64, 192), (4, 256, 48), (0, 256, 192)])
def test_other_numbers_of_points_and_threads_work(points: int, threads: int, blocks: int) -> None:
    kernel = asked(GRU, points, threads)
    assert (kernel.family, kernel.source.grid[0], kernel.source.block[0]) == ("recurrence", blocks, threads)
    assert {v.outcome for v in kernel.verdicts if v.placed.author == "user"} == {"honoured"}
    assert engine.check(kernel).status == "pass"


@needs_compiler
def test_blocks_that_do_not_run_at_once_are_refused_in_words() -> None:
    """512 threads of 96 registers leave no room for a second block: 108 run, 192 would wait for ever."""
    fits, refused = asked(GRU, 2, 512), asked(GRU, 1, 512)
    assert fits.family == "recurrence" and fits.source.launches[0].least_sms == 96
    reason = own_refusal(refused)
    assert "its 192 blocks wait for each other; a100 runs 108 of 512 threads" in str(reason)
    assert reason.hint == "mark more points for each block"
    assert not refused.source.meets_as_grid and engine.check(refused).status == "pass"


def test_steps_that_ask_for_other_threads_are_refused_in_words() -> None:
    first = recurrence_steps(group_of(GRU).program.statements)[0]
    names = ", ".join(s.name for s in first)
    refused = own_refusal(asked(GRU, 0, 0, f"{names} @ outermost: mark thread 256"))
    assert "its steps ask for blocks of 128 and 256 threads" in str(refused)


def test_steps_that_are_not_cut_are_told() -> None:
    """A loop over i around all steps: rows do not need each other, so the schedule is legal."""
    group = group_of(GRU)
    plain = engine.default_recipe(group).with_group(group.name, ())
    kernel = engine.compile(group, engine.merge_advice(plain, group, "advice user\n  all @ outermost: pin i\n"))
    refused = own_refusal(kernel)
    assert "its steps share a loop, and each of them needs all of what the one before makes" in str(refused)
    assert refused.hint == "cut the steps at the outermost dimension"


def test_a_recipe_that_was_stored_gives_the_same_text() -> None:
    for layer in (GRU, LSTM):
        kernel = kernel_of(layer)
        again = engine.Recipe.loads(kernel.recipe.dumps())
        assert again == kernel.recipe
        assert engine.compile(kernel.group, again).source.text == kernel.source.text


def test_a_plan_is_made_the_same_twice() -> None:
    texts = [
        [engine.compile(group).source.text for group in engine.fuse(engine.load(GRU.model()), target="h100").groups]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


# Planted faults

IN_LOOP = r"(grid_barrier\(arrivals, 0, )\(1 \+ phase\), 4\);"
VICTIM, CELLS, IN_TURN = (partial(kernel_of, layer) for layer in (GRU, LSTM, LAYERS[2]))
AT_MEETING = r"grid_barrier|\.load|\.store"
FAULTS = (
    Fault("blocks do not meet in the loop", VICTIM, r"grid_barrier\(arrivals, 0, \(1 \+ phase.*;", "barrier();",
          ("race",), r"y_hidden\d\.(load|store)"),
    Fault("blocks do not meet before the last step", VICTIM, r"grid_barrier\(arrivals, 0, 4, 4\);", "barrier();",
          ("race",), r"y_hidden\d\.(load|store)"),
    Fault("a number too high", VICTIM, IN_LOOP, r"\1phase + 2, 4);", ("hang",), "grid_barrier"),
    Fault("a number too low", VICTIM, IN_LOOP, r"\1phase, 4);", ("race",), "grid_barrier"),
    Fault("the same number each time", VICTIM, IN_LOOP, r"\g<1>1, 4);", ("race",), "grid_barrier"),
    Fault("a meeting less is counted", VICTIM, IN_LOOP, r"\1phase + 1, 3);", ("race", "hang"), AT_MEETING),
    Fault("a step less in the loop", VICTIM, "phase < 3;", "phase < 2;", ("hang",), "grid_barrier"),
    Fault("one block does not come", VICTIM, r"grid_barrier\(arrivals, 0, \(1", "if (block != 5) "
          "grid_barrier(arrivals, 0, (1", ("hang",), "grid_barrier"),
    Fault("some threads do not come", VICTIM, r"grid_barrier\(arrivals, 0, \(1", "if (thread < 96) "
          "grid_barrier(arrivals, 0, (1", ("divergent barrier",), "barrier"),
    Fault("a counter beyond its memory", VICTIM, r"\(arrivals, 0, \(1", "(arrivals, 1, (1",
          ("out of bounds",), "grid_barrier"),
    Fault("the state before the last", VICTIM, r"(y_hidden1\(phase == 0 \? )y_hidden1_ : phase == 1 \? y_hidden2_",
          r"\1y_hidden1_ : phase == 1 ? y_hidden1_", ("wrong result",), r"y_\d\.store"),
    Fault("the state that is made now", VICTIM, r"(y_hidden1\(phase == 0 \? )y_hidden1_", r"\1y_hidden2_",
          ("uninitialised", "race"), r"y_hidden\d\.(load|store)"),
    Fault("one state for two steps", VICTIM, r"(y_hidden2\(phase == 0 \? )y_hidden2_", r"\1y_hidden1_",
          ("race",), r"y_hidden\d\.(load|store)"),
    Fault("inputs of the step before", VICTIM, r"576 \+ phase \* 576", "phase * 576",
          ("wrong result",), r"y_\d\.store"),
    Fault("inputs grow too fast", VICTIM, r"768 \+ phase \* 576", "768 + phase * 577",
          ("wrong result",), r"y_\d\.store"),
    Fault("a state is not kept", VICTIM, r"if \(exists_2\) y_hidden2\.store.*;", ";", ("uninitialised",), r"\.load"),
    Fault("sums of a block are not waited for", VICTIM, r"(for \(int phase[\s\S]*?)\n\s+barrier\(\);", r"\1",
          ("race", "uninitialised"), r"_block\.(load|store)"),
    Fault("cells do not meet", CELLS, r"grid_barrier\(arrivals, 0, \(1 \+ phase.*;", "barrier();",
          ("race",), AT_MEETING),
    Fault("one of many meetings is missing", IN_TURN, r"grid_barrier\(arrivals, 0, 3, \d\);", "barrier();",
          ("race", "hang"), AT_MEETING),
)  # fmt: skip


@pytest.mark.few(7)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)


@needs_nvrtc
@pytest.mark.parametrize("number", range(4))
def test_a_missing_fence_is_found(number: int) -> None:
    """Of the compiled text: before the counter moves and after, in the loop and before the last step."""
    kernel = kernel_of(GRU)
    good = compile_ptx(kernel.source.text, "sm_80", LINE_TABLE)
    values, _ = group_values(kernel.group)
    fences = list(re.finditer(r"membar\.gl;", good))
    assert len(fences) == 4
    gone = fences[number]
    without = good[: gone.start()] + good[gone.end() :]
    inputs = {b.array: values[b.array] for b in kernel.source.buffers if b.read}
    assert execute(kernel.source, good, inputs)[0].findings == ()
    findings = execute(kernel.source, without, inputs)[0].findings
    assert findings and all(one.kind == "race" and "fence" in one.message for one in findings), findings
