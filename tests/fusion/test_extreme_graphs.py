"""Graphs of one operator, of constants alone, of parts that nothing connects, and of very many operators."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest

import engine
from engine.documents.exploration import JOIN, SPLIT, TAKE_OUT, FusionEdit
from engine.explore.fusion_attempts import Attempts
from engine.fusion.stitching.nodes import POLICIES, STITCH, Fixed
from engine.support.errors import BadInput
from tests.fusion.test_growth import chain, layers
from tests.fusion.test_plan import groups_of
from tests.graph.models import model, node, save
from tests.support.needs import needs_compiler

SINGLE = {
    "element-wise": [node("Tanh", "x", "y")],
    "a row reduction": [node("Softmax", "x", "y")],
    "a sum of all": [node("ReduceSum", "x", "y", keepdims=0)],
    "a product": [node("MatMul", "x x", "y")],
    "a layout": [node("Transpose", "x", "y")],
    "nothing to compute": [node("Identity", "x", "y")],
}
CONSTANTS = {
    "a stored tensor": [],
    "a node": [node("Constant", "", "y", value=onnx.numpy_helper.from_array(np.ones((4, 8), np.float32)))],
    "computed from stored ones": [node("Add", "w w", "a"), node("Exp", "a", "y")],
}
APART = [
    node("Exp", "x", "a"), node("Softmax", "a", "first"),
    node("MatMul", "z z", "b"), node("Relu", "b", "second"),
    node("Tanh", "v", "third"),
]  # fmt: skip
"""Three parts: n0 and n1, n2 and n3, n4."""


def named(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    for number, one in enumerate(nodes):
        one.name = f"n{number}"
    return nodes


def checked(graph: engine.OperatorGraph, policy: str) -> engine.FusionPlan:
    plan = engine.fuse(graph, policy=policy)
    assert plan.unsupported == {}
    assert engine.check_model(graph, plan).status == "pass"
    assert engine.model_doc(graph, plan).nodes is not None
    return plan


@needs_compiler
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", SINGLE)
def test_one_operator(kind: str, policy: str, tmp_path: Path) -> None:
    graph = engine.load(save(tmp_path / "m.onnx", model(named(SINGLE[kind]), {"x": [8, 8]}, ["y"])))
    plan = checked(graph, policy)
    assert len(plan.launches) == 1 and plan.boundaries == ()


def test_one_operator_has_nothing_to_part(tmp_path: Path) -> None:
    graph = engine.load(save(tmp_path / "m.onnx", model(named(SINGLE["element-wise"]), {"x": [8, 8]}, ["y"])))
    attempts = Attempts(engine.fuse(graph))
    for wish in (FusionEdit(SPLIT, ("n0",)), FusionEdit(TAKE_OUT, ("n0",))):
        assert "there is nothing to part" in attempts.attempt(wish).because
    assert attempts.attempt(FusionEdit(JOIN, ("n0",))).legal


@needs_compiler
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", CONSTANTS)
def test_only_constants(kind: str, policy: str, tmp_path: Path) -> None:
    stored = {} if kind == "a node" else {"y" if not CONSTANTS[kind] else "w": np.full((4, 8), 0.5, np.float32)}
    proto = model(named(CONSTANTS[kind]), {}, ["y"], stored)
    graph = engine.load(save(tmp_path / "m.onnx", proto))
    plan = engine.fuse(graph, policy=policy)
    if plan.launches:
        assert engine.check_model(graph, plan).status == "pass"
    assert len(plan.launches) <= len(CONSTANTS[kind])


@pytest.mark.parametrize("policy", POLICIES)
@needs_compiler
def test_parts_that_nothing_connects(policy: str, tmp_path: Path) -> None:
    proto = model(named(APART), {"x": [16, 24], "z": [16, 16], "v": [5]}, ["first", "second", "third"])
    graph = engine.load(save(tmp_path / "m.onnx", proto))
    plan = checked(graph, policy)
    whole = {op for group in groups_of(plan) for op in group}
    assert whole == {f"n{k}" for k in range(5)}
    assert len(plan.launches) == {"none": 4, "xla": 3, "stitch": 2}[policy], "the product takes in what follows it"
    reasons = {"none": "policy none makes a kernel of each operator", "xla": "rules of the policy xla"}
    assert all(reasons.get(policy, "") in boundary.because for boundary in plan.boundaries)


def test_a_forced_group_over_parts_is_packed_or_refused_by_the_part(tmp_path: Path) -> None:
    proto = model(named(APART), {"x": [16, 24], "z": [16, 16], "v": [5]}, ["first", "second", "third"])
    graph = engine.load(save(tmp_path / "m.onnx", proto))
    assert {"n0", "n1", "n4"} in groups_of(engine.fuse(graph, fixed=Fixed(groups=(("n0", "n1", "n4"),))))
    with pytest.raises(BadInput, match="n2 is a matrix product: its tiles fill a kernel of their own"):
        engine.fuse(graph, fixed=Fixed(groups=(("n0", "n1", "n2", "n3"),)))


FORCED = {
    "cyclic": ((("l3/n", "l3/a"),), "l3/m lies between them"),
    "across blocks": ((("l3/n", "l3/m"),), "a tile of the matrix product holds only part of each reduced row"),
    "two products": ((("l3/m", "l3/a", "l3/r", "l3/o"),), "two matrix products need two main loops: l3/m and l3/o"),
    "unknown": ((("l3/n", "nothing"), ("nobody",)), "names no operator that has a kernel"),
}


@pytest.mark.parametrize("case", FORCED)
def test_forced_groups_of_many_layers_are_refused_alike(case: str, tmp_path: Path) -> None:
    groups, reason = FORCED[case]
    graph = engine.load(layers(tmp_path / "m.onnx", 60))
    with pytest.raises(BadInput) as refused:
        engine.fuse(graph, fixed=Fixed(groups=groups))
    assert reason in refused.value.reason


@pytest.mark.slow
def test_wishes_about_fifty_thousand_operators(tmp_path: Path) -> None:
    """Layers with weights in common are steps of a recurrence, four in a launch; none begins behind the last launch."""
    graph = engine.load(layers(tmp_path / "m.onnx", 8_400))
    attempts = Attempts(engine.fuse(graph))
    attempts.attempt(FusionEdit(SPLIT, ("l5/m", "l5/a")))  # works out once what does not depend on the wish
    start = time.process_time()
    found = attempts.attempt(FusionEdit(TAKE_OUT, ("l77/r",)))
    assert found.legal and found.places == 8_400 // 4 - 1 and found.terms
    assert not attempts.attempt(FusionEdit(JOIN, ("l9/n", "l9/a"))).legal
    assert time.process_time() - start < 20
    graph = engine.load(chain(tmp_path / "c.onnx", 50_000))
    plan = engine.fuse(graph, policy=STITCH, fixed=Fixed(groups=(("n7", "n8"), ("n40000", "n40001"))))
    assert {"n40000", "n40001"} in groups_of(plan)
    with pytest.raises(BadInput, match="would wait for itself: n8 lies between them"):
        engine.fuse(graph, fixed=Fixed(groups=(("n7", "n9"),)))
