"""What a wish changes, told around its operators, against exploring the whole graph: attentions, packs, releases."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, AttemptDoc, FusionEdit
from engine.explore.fusion_attempts import Attempts
from engine.explore.local_refusion import LocalRefusion
from engine.fusion.stitching.nodes import Fixed
from tests.fusion.test_plan import MODELS, groups_of, model
from tests.semantics.single import Node
from tests.support.needs import needs_compiler

FLOAT = "float32"
ATTENTION = ("node_scores_0", "node_scaled_0", "node_masked_0", "node_softmax_0", "node_context_0")
"""The first of two equal ones."""
ROWS: list[Node] = [("Softmax", ["x"], ["a"], {"axis": 1}), ("Softmax", ["z"], ["b"], {"axis": 1})]
"""Nothing connects the two."""


@pytest.fixture(scope="module")
def bert() -> engine.OperatorGraph:
    return engine.load(MODELS / "bert_tiny.onnx")


def tried(graph: engine.OperatorGraph, wish: FusionEdit, fixed: Fixed | None = None) -> AttemptDoc:
    return Attempts(engine.fuse(graph, fixed=fixed)).attempt(wish)


def carried_out(graph: engine.OperatorGraph, found: AttemptDoc) -> engine.FusionPlan:
    assert found.legal, found.because
    return engine.fuse(graph, fixed=Fixed(found.groups, found.apart))


def change(found: AttemptDoc) -> tuple[float, float, float]:
    values = {term.name: term.value for term in found.terms}
    return values["kernels"], values["memory"], values["time"]


def of_whole_plan(graph: engine.OperatorGraph, found: AttemptDoc, fixed: Fixed | None = None) -> tuple[float, ...]:
    old, new = (plan.choice.figures() for plan in (engine.fuse(graph, fixed=fixed), carried_out(graph, found)))
    return new.kernels - old.kernels, new.bytes - old.bytes, new.microseconds - old.microseconds


@pytest.mark.parametrize(
    ("wish", "more"),
    [
        (FusionEdit(SPLIT, ATTENTION[2:4]), 2),
        (FusionEdit(SPLIT, ATTENTION[3:5]), 1),
        (FusionEdit(TAKE_OUT, ("node_softmax_0",)), 2),
    ],
    ids=["before the softmax", "after it: the scores' kernel keeps their rows", "the softmax out"],
)
def test_an_attention_comes_apart_and_the_change_is_that_of_the_plan(
    bert: engine.OperatorGraph, wish: FusionEdit, more: int
) -> None:
    found = tried(bert, wish)
    assert found.places == 2, "both layers"
    kernels, moved, time = change(found)
    assert (kernels, moved) == of_whole_plan(bert, found)[:2] and kernels == more * found.places
    assert time == pytest.approx(of_whole_plan(bert, found)[2], rel=1e-6) and time > 0
    apart = [set(wish.operators), {"node_softmax_0", "node_context_0"}]
    groups = groups_of(carried_out(bert, found))
    assert not any(pair <= group for pair in apart for group in groups if len(pair) == 2 and wish.kind == SPLIT)
    assert not any(set(ATTENTION) <= group for group in groups)


@needs_compiler
def test_an_attention_is_joined_again_by_hand(bert: engine.OperatorGraph) -> None:
    split = tried(bert, FusionEdit(SPLIT, ATTENTION[3:5]))
    fixed = Fixed(split.groups, split.apart)
    found = tried(bert, FusionEdit(JOIN, ATTENTION), fixed)
    kernels, _, time = change(found)
    assert kernels == -found.places and time < 0 and found.apart == ()
    plan = carried_out(bert, found)
    assert [g.kind for g in plan.groups if "node_softmax_0" in g.instances[0].operators] == ["attention"]
    assert engine.check_model(bert, plan).status == "pass"


def test_part_of_an_attention_is_none(bert: engine.OperatorGraph) -> None:
    found = tried(bert, FusionEdit(JOIN, ("node_scores_0", "node_softmax_0", "node_context_0")))
    assert not found.legal and "node_scaled_0, node_masked_0 lie between them" in found.because
    with pytest.raises(engine.BadInput, match="two matrix products"):
        engine.fuse(bert, fixed=Fixed(groups=(("node_value_0_product", "node_value_0", *ATTENTION[-2:]),)))
    third = tried(bert, FusionEdit(JOIN, ("node_value_0_product", "node_value_0", *ATTENTION)))
    assert third.because.endswith("an attention has two matrix products, node_value_0_product would be a third")


def test_a_group_of_a_person_keeps_an_attention_apart(bert: engine.OperatorGraph) -> None:
    plan = engine.fuse(bert, fixed=Fixed(groups=(("node_softmax_0",),)))
    assert {"node_softmax_0"} in groups_of(plan)
    assert sum(len(g.instances) for g in plan.groups if g.kind == "attention") == 1, "the other layer's"


def test_the_bytes_of_an_attention_are_those_of_its_kernel(bert: engine.OperatorGraph) -> None:
    """Scores and weights never leave the block: queries, keys, values, a mask and the result do."""
    choice = engine.fuse(bert).choice
    places = [n for n, (_, shape) in enumerate(choice.groups) if shape.kind.name == "attention"]
    float_bytes, hidden, sequence = 4, 64, 32
    assert [choice.figures([n]).bytes for n in places] == [float_bytes * (4 * sequence * hidden + sequence**2)] * 2
    assert sum(choice.figures([n]).bytes for n in range(len(choice.groups))) == choice.figures().bytes


def packable(folder: Path, shapes: tuple[tuple[int, int], tuple[int, int]]) -> engine.OperatorGraph:
    inputs = {name: (FLOAT, shape) for name, shape in zip("xz", shapes, strict=True)}
    return engine.load(model(folder, ROWS, inputs, "a", "b"))


@needs_compiler
@pytest.mark.parametrize("shapes", [((64, 96), (32, 200)), ((64, 960), (320, 2000))], ids=["alike", "different"])
def test_what_nothing_connects_is_packed_by_hand(shapes: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    graph = packable(tmp_path, shapes)
    apart = Fixed(apart=(("n0", "n1"),))
    found = tried(graph, FusionEdit(JOIN, ("n0", "n1")), apart)
    assert change(found)[:2] == (-1, 0) and change(found)[2] < 0, "a launch less, no byte less"
    plan = carried_out(graph, found)
    assert len(plan.launches) == 1 and engine.check_model(graph, plan).status == "pass"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (("MatMul", ["z", "w"], ["b"], {}), "n1 is a matrix product: its tiles fill a kernel of their own"),
        (("ReduceSum", ["z"], ["b"], {"keepdims": 0}), "n1 has one value for all: one block would walk all 640000"),
    ],
    ids=["a product", "a sum of everything"],
)
def test_a_pack_that_cannot_be_names_the_part_in_the_way(other: Node, reason: str, tmp_path: Path) -> None:
    inputs = {"x": (FLOAT, (64, 96)), "z": (FLOAT, (800, 800)), "w": (FLOAT, (800, 16))}
    inputs = inputs if "w" in other[1] else {name: inputs[name] for name in "xz"}
    graph = engine.load(model(tmp_path, [ROWS[0], other], inputs, "a", "b"))
    found = tried(graph, FusionEdit(JOIN, ("n0", "n1")))
    assert not found.legal and reason in found.because


def test_a_release_tells_what_the_search_makes_of_it(tmp_path: Path) -> None:
    apart = Fixed(apart=(("n0", "n1"),))
    nodes: list[Node] = [("Exp", ["x"], ["e"], {}), ("Tanh", ["e"], ["y"], {})]
    chain = engine.load(model(tmp_path, nodes, {"x": (FLOAT, (64, 96))}, "y"))
    found = tried(chain, FusionEdit(RELEASE, ("n0", "n1")), apart)
    assert change(found)[:2] == (-1, -2 * 64 * 96 * 4) == of_whole_plan(chain, found, apart)[:2]


def test_a_large_part_of_a_graph_is_not_explored_while_somebody_waits(
    bert: engine.OperatorGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = engine.fuse(bert)
    around, places = LocalRefusion(plan), range(len(plan.launches))
    assert around.change(places, Fixed()) is not None
    monkeypatch.setattr("engine.explore.local_refusion.MOST_STATEMENTS", 10)
    assert around.change(places, Fixed()) is None
