"""Tensors that share memory: never two that are needed at once, and no more memory than the largest step asks for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.native.run import Measuring
from engine.execution.reference import input_values
from engine.verify.native_model import compile_launched, measure_model
from engine.verify.tensor_memory import TensorMemory, share_memory
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

SHAPE = (8, 64)
CHAIN: list[Node] = [("MatMul", ["x", "w"], ["t0"], {})]
CHAIN += [("MatMul", [f"t{n}", "w"], [f"t{n + 1}"], {}) for n in range(6)]
SKIP: list[Node] = [*CHAIN[:4], ("Add", ["t3", "t0"], ["s"], {}), ("MatMul", ["s", "w"], ["t6"], {})]


def plan_of(path: Path, nodes: list[Node], outputs: list[str]) -> engine.FusionPlan:
    weight = {"w": np.random.default_rng(0).standard_normal((64, 64), "float32") / 8}
    file = write_model(path / "m.onnx", nodes, {"x": ("float32", SHAPE)}, outputs, weight)
    return engine.fuse(engine.load(file), target="cpu", policy="none")


def memory_of(plan: engine.FusionPlan, kept: set[str]) -> TensorMemory:
    return share_memory(plan, compile_launched(plan, engine.default_recipe(plan)), kept)


@pytest.mark.parametrize(("nodes", "most"), [(CHAIN, 2), (SKIP, 3)], ids=["chain", "skip"])
def test_only_what_is_needed_at_once_has_memory(tmp_path: Path, nodes: list[Node], most: int) -> None:
    plan = plan_of(tmp_path, nodes, ["t6"])
    kept = {"x", "w", "t6"}
    memory = memory_of(plan, kept)
    lent = {memory.blocks[name] for name in memory.blocks if name not in kept}
    assert len(lent) == most and len(memory.sizes) == most + len(kept)
    assert all(memory.sizes[block] == 4 * 8 * 64 for block in lent)


def test_every_launch_has_its_tensors_apart_but_for_a_sum_over_what_is_added(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SKIP, ["t6", "t2"])
    kernels = compile_launched(plan, engine.default_recipe(plan))
    memory = share_memory(plan, kernels, {"x", "w", "t6", "t2"})
    over = []
    for launch in plan.launches:
        names = plan.group(launch.group).instances[launch.instance].arrays
        touched = sorted({*names.values()} & {*memory.blocks})
        allowed = {names[given]: names[result] for result, given in kernels[launch.group].source.in_place.items()}
        alike = [(a, b) for a in touched for b in touched if a != b and memory.blocks[a] == memory.blocks[b]]
        assert all(allowed.get(a) == b or allowed.get(b) == a for a, b in alike)
        over += alike[:1]
    assert over == [("s", "t0")], "s = t3 + t0, and nothing reads t0 afterwards"
    assert list(memory.blocks.values()).count(memory.blocks["t2"]) == 1, "a result keeps its memory"


@needs_compiler
@pytest.mark.parametrize("nodes", [CHAIN, SKIP], ids=["chain", "skip"])
def test_results_are_those_of_memory_that_nothing_shares(tmp_path: Path, nodes: list[Node]) -> None:
    plan = plan_of(tmp_path, nodes, ["t6", "t2"])
    assert plan.source is not None
    values = input_values(plan.source, 0)
    expected = {"x": np.asarray(values["x"], "float64").reshape(SHAPE)}
    weight = np.asarray(values["w"], "float64").reshape(64, 64)
    for kind, inputs, (output,), _ in nodes:
        a, b = (weight if name == "w" else expected[name] for name in inputs)
        expected[output] = a @ b if kind == "MatMul" else a + b
    found = measure_model(plan, engine.default_recipe(plan), values, Measuring(rounds=1))
    assert not isinstance(found, engine.Failure)
    for name in ("t6", "t2"):
        np.testing.assert_allclose(found.outputs[name], expected[name], rtol=1e-4, atol=1e-5)
