"""Our kernels beside ONNX Runtime: the same values, in memory that arrays share one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.reference import input_values
from tests.benchmarks.cpu_side_by_side import OurModel, take_turns
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

pytestmark = needs_compiler
STEPS = 6
SHAPE = ("float32", (48, 48))


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Products, each of the one before and the first: all values but two are needed by the next kernel alone."""
    nodes: list[Node] = [("MatMul", ["x", "x"], ["t0"], {})]
    nodes += [("MatMul", [f"t{n - 1}", "t0" if n % 2 else "x"], [f"t{n}"], {}) for n in range(1, STEPS)]
    scale = {"s": np.float32([48**-0.5])}
    nodes.append(("Mul", [f"t{STEPS - 1}", "s"], ["y"], {}))
    return write_model(tmp_path / "chain.onnx", nodes, {"x": SHAPE}, ["y", f"t{STEPS - 2}"], scale)


def test_both_sides_agree_however_often_ours_ran(chain: Path) -> None:
    assert take_turns(chain, 1, 0.1).difference < 1e-5


def test_memory_is_used_again_and_no_value_that_is_needed_is_overwritten(chain: Path) -> None:
    graph = engine.load(chain)
    plan = engine.fuse(graph, target="cpu")
    model = OurModel(plan, engine.default_recipe(plan), input_values(graph, 0))
    model.run()
    first = {name: model.output(name).copy() for name in graph.outputs}
    model.run()
    assert all(np.array_equal(first[name], model.output(name)) for name in graph.outputs)
    made = {name: memory.ctypes.data for name, memory in model.memory.items() if name not in model.graph.inputs}
    assert len(set(made.values())) < len(made), "a value that nothing reads any more lends its memory"
    own = [made[name] for name in graph.outputs]
    assert all(list(made.values()).count(place) == 1 for place in own), "results have memory of their own"
