"""Steps of recurrences: one kernel for a step, several steps in one launch, where the estimate gains by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion import plan as planning
from engine.fusion import recurrent_steps
from tests.semantics.single import Node, write_model
from tests.support.large_models import blocks
from tests.support.needs import needs_compiler

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RESETS_BEFORE: dict[str, dict[str, object]] = {"LSTM": {}, "GRU": {"linear_before_reset": 1}, "RNN": {}}


def layer(folder: Path, kind: str, steps: int, batch: int, hidden: int, size: int = 16) -> engine.OperatorGraph:
    """A recurrent layer; its weights are small, so that states do not saturate."""
    gates = GATES[kind] * hidden
    draw = np.random.default_rng(0)
    weights = {"w": draw.normal(0, 0.2, (1, gates, size)), "r": draw.normal(0, 0.2, (1, gates, hidden))}
    constants = {name: value.astype(np.float32) for name, value in weights.items()}
    nodes: list[Node] = [(kind, ["x", "w", "r"], ["y"], {"hidden_size": hidden, **RESETS_BEFORE[kind]})]
    path = write_model(folder / "r.onnx", nodes, {"x": ("float32", (steps, batch, size))}, ["y"], constants)
    return engine.load(path)


def microseconds(plan: engine.FusionPlan) -> float:
    return sum(engine.predict(engine.compile(group)).microseconds * len(group.instances) for group in plan.groups)


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.parametrize("kind", GATES)
def test_small_steps_share_launches(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a third of the launches, predicted faster, right at both levels and as a whole model."""
    graph = layer(tmp_path, kind, 13, 12, 24)
    plan = engine.fuse(graph, target="h100")
    monkeypatch.setattr(planning, "with_recurrent_steps", lambda partition, before, fixed: partition)
    alone = engine.fuse(graph, target="h100")
    assert 3 * len(plan.launches) <= len(alone.launches) + 3 and microseconds(plan) < microseconds(alone)
    for group in plan.groups:
        kernel = engine.compile(group)
        assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]
    assert engine.check_model(graph, plan).status == "pass"


@pytest.mark.slow(sentinel=True)
def test_equal_launches_of_steps_are_one_kernel(tmp_path: Path) -> None:
    plan = engine.fuse(layer(tmp_path, "LSTM", 25, 8, 16), target="a100")
    joined = [group for group in plan.groups if len(group.program.statements) > 10]
    # The last one keeps no state for steps behind it.
    assert [len(group.instances) for group in joined] == [2, 1] and len(plan.launches) <= 6


def test_steps_of_other_functions_are_no_recurrence(tmp_path: Path) -> None:
    """Equal steps share launches, also of two functions in turn; three products with one matrix are no equal steps."""

    def launches(*functions: str) -> int:
        nodes: list[Node] = []
        for n, function in enumerate(functions):
            nodes += [("MatMul", [f"x{n}", "w"], [f"p{n}"], {}), (function, [f"p{n}"], [f"x{n + 1}"], {})]
        weight = {"w": np.random.default_rng(0).normal(0, 0.2, (16, 16)).astype(np.float32)}
        inputs, outputs = {"x0": ("float32", (8, 16))}, [f"x{len(functions)}"]
        return len(engine.fuse(engine.load(write_model(tmp_path / "f.onnx", nodes, inputs, outputs, weight))).launches)

    assert launches(*["Tanh"] * 4) == 1 and launches("Tanh", "Relu", "Tanh", "Relu") == 1
    assert launches("Tanh", "Relu", "Sigmoid") == 3


@pytest.mark.slow(sentinel=True)
def test_kinds_of_launches_that_are_judged_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged before goes on to be joined; chance makes other kinds without end."""
    made = blocks(200, seed=3)
    made.save(tmp_path)
    graph = engine.load(tmp_path / f"{made.name}.onnx")

    def launches(kinds: int) -> int:
        monkeypatch.setattr(recurrent_steps, "MOST_JUDGED", kinds)
        return len(engine.fuse(graph, target="h100").launches)

    assert launches(0) > launches(1) > launches(64)


def test_a_recurrence_may_lead_into_another(tmp_path: Path) -> None:
    """In this graph the groups behind one run of equal steps are those of an earlier run."""
    made = blocks(300, seed=18)
    made.save(tmp_path)
    graph = engine.load(tmp_path / f"{made.name}.onnx")
    plan = engine.fuse(graph, target="h100")
    covered = [op for group in plan.groups for one in group.instances for op in one.statements.values()]
    assert set(covered) == {op.name for op in graph.operators} and len(plan.launches) < len(graph.operators) / 3


def test_blocks_of_large_steps_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that goes on by itself would read a megabyte of weights in every step; on a CPU no threads meet."""
    graph = layer(tmp_path, "LSTM", 6, 16, 256)
    plan = engine.fuse(graph, target="a100")
    assert plan.groups[-1].kind == "recurrence" and len(plan.launches) == 3
    assert "recurrence" not in {group.kind for group in engine.fuse(graph, target="cpu").groups}
    monkeypatch.setattr(planning, "with_recurrent_steps", lambda partition, before, fixed: partition)
    alone = engine.fuse(graph, target="a100")
    # One kernel for a step: gates are used where they are made.
    assert [group.kind for group in alone.groups][-2:] == ["stitched", "stitched"] and len(alone.launches) == 7
    assert microseconds(plan) < microseconds(alone)


def test_steps_of_many_rows_keep_their_tiles(tmp_path: Path) -> None:
    plan = engine.fuse(layer(tmp_path, "LSTM", 4, 64, 64), target="a100")
    assert "contraction" in {group.kind for group in plan.groups if len(group.instances) > 1}


@needs_compiler
def test_a_missing_barrier_between_steps_is_found(tmp_path: Path) -> None:
    plan = engine.fuse(layer(tmp_path, "RNN", 5, 4, 32), target="a100")
    group = max(plan.groups, key=lambda one: len(one.program.statements))
    kernel = engine.compile(group)
    assert engine.check(kernel).status == "pass" and kernel.source.text.count("barrier();") > 2
    text = kernel.source.text.replace("barrier();", "")
    assert engine.check(replace(kernel, source=replace(kernel.source, text=text))).status == "fail"
