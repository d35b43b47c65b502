"""Which statements fit one kernel: a form for each, the simplest first, and the reason where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from tests.fuse.test_plan import groups_of
from tests.semantics.single import Node, write_model

X = {"x": ("float32", (24, 40))}
AXES = {"rows": np.array([1]), "columns": np.array([0]), "pads": np.array([0, 2, 0, 3]), "at": np.array([3, 0, 7])}


def planned(folder: Path, nodes: list[Node], *outputs: str) -> engine.FusionPlan:
    used = {name: value for name, value in AXES.items() if any(name in inputs for _, inputs, _, _ in nodes)}
    return engine.fuse(engine.load(write_model(folder / "m.onnx", nodes, dict(X), list(outputs), used)))


@pytest.mark.parametrize(
    ("nodes", "kinds"),
    [
        ([("Exp", ["x"], ["e"], {}), ("ReduceSum", ["e", "rows"], ["y"], {})], ["row reduction"]),
        ([("Exp", ["x"], ["e"], {}), ("Transpose", ["e"], ["t"], {}), ("Gather", ["t", "at"], ["y"], {"axis": 1})],
         ["element-wise"]),
        ([("Softmax", ["x"], ["s"], {"axis": 1}), ("ReduceSum", ["s", "columns"], ["y"], {})], ["stitched"]),
    ],
    ids=["one loop space", "in one statement", "several shapes"],
)  # fmt: skip
def test_the_simplest_form_that_fits(nodes: list[Node], kinds: list[str], tmp_path: Path) -> None:
    plan = planned(tmp_path, nodes, "y")
    assert [group.kind for group in plan.groups] == kinds
    assert [engine.check(engine.compile(group)).status for group in plan.groups] == ["pass"]


def test_what_is_read_under_a_condition_is_computed_under_it(tmp_path: Path) -> None:
    """Outside the frame nothing is there to compute from: the exponential of nothing is not the frame's zero."""
    nodes: list[Node] = [("Exp", ["x"], ["e"], {}), ("Pad", ["e", "pads"], ["p"], {}), ("Neg", ["p"], ["y"], {})]
    plan = planned(tmp_path, nodes, "y")
    assert groups_of(plan) == [{"n0", "n1", "n2"}]
    assert engine.check_model(plan.source, plan).status == "pass"


@pytest.mark.parametrize(("count", "kernels"), [(2, 1), (4, 1), (5, 2)], ids=["two", "four", "too many"])
def test_a_concatenation_of_few_fuses_like_an_element_wise_operator(count: int, kernels: int, tmp_path: Path) -> None:
    nodes: list[Node] = [
        *((("Exp", "Neg", "Abs", "Tanh", "Relu")[n], ["x"], [f"p{n}"], {}) for n in range(count)),
        ("Concat", [f"p{n}" for n in range(count)], ["c"], {"axis": 1}),
        ("Mul", ["c", "c"], ["y"], {}),
    ]
    plan = planned(tmp_path, nodes, "y")
    assert len(plan.launches) == kernels
    covered = {op for group in groups_of(plan) for op in group}
    assert covered == {f"n{n}" for n in range(count + 2)}
    assert engine.check_model(plan.source, plan).status == "pass"


def test_an_index_that_is_looked_up_is_in_memory(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Abs", ["at"], ["i"], {}),
        ("Gather", ["x", "i"], ["g"], {"axis": 0}),
        ("Exp", ["g"], ["y"], {}),
    ]
    inputs = {**X, "at": ("int64", (5, 3))}
    plan = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"])))
    assert groups_of(plan) == [{"n0", "n1"}, {"n1", "n2"}], "negative indices count from the end: a step of the gather"
    assert "looked up in memory" in plan.boundaries[0].because
    assert engine.check_model(plan.source, plan).status == "pass"
