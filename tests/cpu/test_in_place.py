"""Results that may be written over what is added to them: which may, and that they come out the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.cpu.nodes import CpuKernel
from engine.execution.native.run import Measuring
from engine.execution.reference import input_values
from engine.verify.native_model import compile_launched, measure_model
from engine.verify.tensor_memory import share_memory
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

ROWS, COLUMNS = 70, 70
SUM: list[Node] = [("MatMul", ["x", "w"], ["p"], {})]
SAME = [*SUM, ("Add", ["p", "r"], ["y"], {})]
BROADCAST = [*SUM, ("Add", ["p", "b"], ["y"], {})]
TURNED = [*SUM, ("Transpose", ["r"], ["t"], {"perm": [1, 0]}), ("Add", ["p", "t"], ["y"], {})]
FACTOR = [*SUM, ("Add", ["p", "x"], ["y"], {})]
TWICE = [*SUM, ("Add", ["p", "r"], ["s"], {}), ("Mul", ["s", "r"], ["y"], {})]


@pytest.mark.parametrize(
    ("nodes", "outputs", "over"),
    [
        (SAME, ["y"], {"y": "r"}),
        (TWICE, ["y"], {"y": "r"}),
        (TWICE, ["y", "s"], {"y": "r"}),  # s is written before r is read again
        (BROADCAST, ["y"], {}),
        (TURNED, ["y"], {}),
        (FACTOR, ["y"], {}),
    ],
    ids=["same element", "read twice", "read again later", "another size", "another element", "a factor, too"],
)
def test_what_a_result_may_be_written_over(
    tmp_path: Path, nodes: list[Node], outputs: list[str], over: dict[str, str]
) -> None:
    shapes = {"x": ("float32", (ROWS, COLUMNS)), "r": ("float32", (ROWS, COLUMNS)), "b": ("float32", (COLUMNS,))}
    read = {name for _, names, _, _ in nodes for name in names}
    weight = {"w": np.eye(COLUMNS, dtype="float32")}
    given = {name: shape for name, shape in shapes.items() if name in read}
    path = write_model(tmp_path / "m.onnx", nodes, given, outputs, weight)
    groups = engine.fuse(engine.load(path), target="avx2").groups
    kernel = engine.compile(groups[-1])
    assert isinstance(kernel, CpuKernel) and kernel.family == "gemm"
    names = kernel.group.instances[0].arrays
    assert {names[result]: names[array] for result, array in kernel.source.in_place.items()} == over
    assert ("__restrict__ y" in kernel.source.text) == (not over)


@needs_compiler
def test_a_chain_of_residuals_stays_in_one_place_and_is_right(tmp_path: Path) -> None:
    """x + x w + (x + x w) w ...: each sum lies where the one before did, but the first, whose operand is an input."""
    nodes: list[Node] = []
    before = "x"
    for n in range(4):
        nodes += [("MatMul", [before, "w"], [f"p{n}"], {}), ("Relu", [f"p{n}"], [f"a{n}"], {})]
        nodes += [("MatMul", [f"a{n}", "w"], [f"q{n}"], {}), ("Add", [f"q{n}", before], [f"s{n}"], {})]
        before = f"s{n}"
    nodes.append(("Neg", [before], ["y"], {}))
    weight = np.random.default_rng(1).standard_normal((COLUMNS, COLUMNS), "float32") / 10
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (ROWS, COLUMNS))}, ["y"], {"w": weight})
    graph = engine.load(path)
    plan = engine.fuse(graph, target="cpu")
    recipe, values = engine.default_recipe(plan), input_values(graph, 0)
    blocks = share_memory(plan, compile_launched(plan, recipe), {*values, "y"}).blocks
    assert blocks["s0"] == blocks["s1"] == blocks["s2"] != blocks["a1"]
    found = measure_model(plan, recipe, values, Measuring(rounds=1))
    assert not isinstance(found, engine.Failure)
    x = np.asarray(values["x"], "float64").reshape(ROWS, COLUMNS)
    for _ in range(4):
        x = np.maximum(x @ weight, 0) @ weight + x
    np.testing.assert_allclose(found.outputs["y"], -x, rtol=1e-4, atol=1e-5)
