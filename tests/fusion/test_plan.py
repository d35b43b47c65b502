"""The first form of fusion: which operators share a kernel, which do not, and the reason given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.tensor.evaluate import evaluate
from tests.semantics.single import Node, write_model

MODELS = Path(__file__).parents[2] / "resources" / "models"


def planned(path: Path, policy: str = "stitch") -> FusionPlan:
    return engine.fuse(engine.load(path), policy=policy)


def groups_of(plan: FusionPlan) -> list[set[str]]:
    return [set(plan.group(launch.group).instances[launch.instance].operators) for launch in plan.launches]


def model(tmp_path: Path, nodes: list[Node], inputs: dict[str, tuple[str, tuple[int, ...]]], *outputs: str) -> Path:
    return write_model(tmp_path / "m.onnx", nodes, dict(inputs), outputs)


def test_equal_layers_are_one_group_with_instances() -> None:
    plan = planned(MODELS / "bert_tiny.onnx")
    assert {g.name: len(g.instances) for g in plan.groups if len(g.instances) > 1} == {
        "matmul_0": 2, "attention_0": 2, "matmul_1": 2, "matmul_2": 2, "matmul_3": 2,
    }  # fmt: skip
    covered = [op for group in plan.groups for instance in group.instances for op in instance.operators]
    assert set(covered) == {op.name for op in engine.load(MODELS / "bert_tiny.onnx").operators}


def test_every_group_and_boundary_has_its_reason() -> None:
    plan = planned(MODELS / "bert_tiny.onnx")
    assert all(group.because for group in plan.groups)
    assert all(edge.because for group in plan.groups for edge in group.edges)
    reasons = {(b.producer, b.consumer): b.because for b in plan.boundaries}
    assert all(reasons.values())
    assert "keeps whole rows of 64 results in a block" in plan.group("matmul_1").because
    assert "not what makes their operands" in reasons["matmul_0", "attention_0"]
    assert "two matrix products" in reasons["matmul_2", "matmul_3"]


def test_policy_none_is_one_kernel_an_operator() -> None:
    fused, apart = planned(MODELS / "bert_tiny.onnx"), planned(MODELS / "bert_tiny.onnx", "none")
    assert len(apart.launches) > len(fused.launches)
    assert engine.plan_bytes(apart) > engine.plan_bytes(fused)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(engine.BadInput, match="policy"):
        planned(MODELS / "bert_tiny.onnx", "best")


def test_a_chain_with_a_detour_through_another_kernel_is_not_closed_over_it(tmp_path: Path) -> None:
    """x -> Tanh -> MatMul -> Softmax -> Add, and Tanh -> Add: one kernel of Tanh and Add would wait for itself."""
    nodes: list[Node] = [
        ("Tanh", ["x"], ["n"], {}),
        ("MatMul", ["n", "w"], ["p"], {}),
        ("Softmax", ["p"], ["q"], {"axis": 1}),
        ("Add", ["n", "q"], ["y"], {}),
    ]
    plan = planned(model(tmp_path, nodes, {"x": ("float32", (8, 8)), "w": ("float32", (8, 8))}, "y"))
    assert groups_of(plan) == [{"n0"}, {"n1", "n2", "n3"}]
    assert ["n1" in b.because for b in plan.boundaries] == [True]
    plan = planned(tmp_path / "m.onnx", "xla")
    (why,) = (b.because for b in plan.boundaries if b.tensor == "n" and "softmax" in b.consumer)
    assert "lies between them" in why


@pytest.mark.parametrize(
    ("second", "kernels"),
    [
        (("ReduceSum", ["e", "axes"], ["y"], {"keepdims": 1}), 1),
        (("Transpose", ["e"], ["y"], {"perm": [1, 0]}), 1),
        (("Add", ["e", "turned"], ["y"], {}), 1),
        (("Slice", ["e", "from", "to"], ["y"], {}), 1),
        (("MatMul", ["e", "turned"], ["y"], {}), 2),
    ],
    ids=["reduction joins", "transposed output is written turned", "own transpose is computed in place",
         "a part is computed in place", "both sides of a product do not"],
)
def test_what_joins_an_element_wise_operator(tmp_path: Path, second: Node, kernels: int) -> None:
    path = write_model(
        tmp_path / "m.onnx",
        [("Exp", ["x"], ["e"], {}), ("Transpose", ["e"], ["turned"], {"perm": [1, 0]}), second],
        {"x": ("float32", (6, 6))},
        ["y"],
        {"axes": np.array([1]), "from": np.array([1, 0]), "to": np.array([5, 6])},
    )
    assert len(planned(path).launches) == kernels


def test_layout_operators_become_indices(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Transpose", ["x"], ["t"], {"perm": [2, 0, 1]}),
        ("Reshape", ["t", "shape"], ["r"], {}),
        ("Exp", ["r"], ["y"], {}),
    ]
    path = write_model(
        tmp_path / "m.onnx", nodes, {"x": ("float32", (4, 6, 10))}, ["y"], {"shape": np.array([10, 24])}
    )
    (group,) = planned(path).groups
    (statement,) = group.program.statements
    assert str(statement.expression) == "exp(x[(j) / 6, (j) % 6, i])"
    assert group.instances[0].operators == ("n0", "n1", "n2")
    value = np.random.default_rng(3).standard_normal((4, 6, 10)).astype(np.float32)
    found = evaluate(group.program, {"x": value})["y"]
    np.testing.assert_allclose(found, np.exp(value.transpose(2, 0, 1).reshape(10, 24)), rtol=1e-6)


def test_a_small_producer_is_put_into_its_reader(tmp_path: Path) -> None:
    nodes: list[Node] = [("Neg", ["bias"], ["c"], {}), ("Add", ["x", "c"], ["y"], {})]
    inputs = {"x": ("float32", (5, 9)), "bias": ("float32", (9,))}
    (group,) = planned(model(tmp_path, nodes, inputs, "y")).groups
    assert [str(s.expression) for s in group.program.statements] == ["(x[i, j] + neg(bias[j]))"]
    (kept,) = planned(model(tmp_path, nodes, inputs, "y", "c")).groups
    written = {kept.instances[0].arrays[name] for name in kept.program.outputs}
    assert written == {"c", "y"}, "an output of the graph must be written"


@pytest.mark.parametrize(("elements", "kernels"), [(32 * 1024, 1), (33 * 1024, 2)], ids=["one block", "many blocks"])
def test_a_value_reduced_from_everything_is_awaited_in_one_block_only_where_that_is_quick(
    tmp_path: Path, elements: int, kernels: int
) -> None:
    nodes: list[Node] = [
        ("Exp", ["x"], ["e"], {}),
        ("ReduceSum", ["e"], ["s"], {"keepdims": 1}),
        ("Div", ["e", "s"], ["y"], {}),
    ]
    plan = planned(model(tmp_path, nodes, {"x": ("float32", (elements // 1024, 1024))}, "y"))
    assert len(plan.launches) == kernels
    assert [b.because for b in plan.boundaries] == [
        f"n1 has one value for all: one block would walk all {elements} elements"
    ] * (kernels - 1)


def test_loops_over_a_row_have_one_order_whatever_order_they_were_written_in(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Exp", ["x"], ["e"], {}),
        ("Transpose", ["e"], ["t"], {"perm": [2, 0, 1]}),
        ("ReduceMax", ["t"], ["y"], {"keepdims": 0}),
    ]
    (group,) = planned(model(tmp_path, nodes, {"x": ("float32", (3, 5, 7))}, "y")).groups
    assert [[(i.name, i.extent) for i in s.iterators] for s in group.program.statements] == [
        [("i", 3), ("j", 5), ("k", 7)]
    ] * 2


def test_an_index_that_views_have_made_needless_is_not_computed(tmp_path: Path) -> None:
    """Every row of an expanded tensor is the same one, whichever is looked up."""
    nodes: list[Node] = [("Expand", ["x", "shape"], ["e"], {}), ("Gather", ["e", "at"], ["y"], {"axis": 0})]
    inputs = {"x": ("float32", (1, 5)), "at": ("int64", (3,))}
    path = write_model(tmp_path / "m.onnx", nodes, dict(inputs), ["y"], {"shape": np.array([6, 5])})
    (group,) = planned(path).groups
    assert group.program.inputs == ("x",)
