"""Wishes about groups: legal or not with the operators in the way, the change, equal places, what is fixed after."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import engine
from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, AttemptDoc, FusionEdit
from engine.explore.fusion_attempts import (
    Attempts,
    join_operators,
    release_operators,
    split_operators,
)
from engine.fusion.stitching.nodes import Fixed
from tests.fusion.test_plan import groups_of, model
from tests.semantics.single import Node

FLOAT = "float32"
NORM: list[Node] = [
    ("Exp", ["x"], ["e"], {}),
    ("Softmax", ["e"], ["p"], {"axis": 1}),
    ("Mul", ["p", "g"], ["m"], {}),
    ("Tanh", ["m"], ["t"], {}),
    ("MatMul", ["t", "w"], ["y"], {}),
]
"""n0 to n3 are one kernel, n4 is another."""
SHAPES = {"x": (FLOAT, (64, 96)), "g": (FLOAT, (96,)), "w": (FLOAT, (96, 32))}
SHARED = Path(__file__).parents[3] / "shared" / "models"
BERT = SHARED / "bert_base_b1_s128.onnx"
HANG = 10.0
"""Seconds after which an attempt counts as hanging; it takes milliseconds."""


@pytest.fixture
def graph(tmp_path: Path) -> engine.OperatorGraph:
    return engine.load(model(tmp_path, NORM, SHAPES, "y"))


def tried(graph: engine.OperatorGraph, wish: FusionEdit, fixed: Fixed | None = None) -> AttemptDoc:
    return Attempts(engine.fuse(graph, fixed=fixed)).attempt(wish)


def carried_out(graph: engine.OperatorGraph, wish: FusionEdit, fixed: Fixed | None = None) -> list[set[str]]:
    """The groups once a wish is carried out."""
    found = tried(graph, wish, fixed)
    assert found.legal, found.because
    return groups_of(engine.fuse(graph, fixed=Fixed(found.groups, found.apart)))


@pytest.mark.parametrize(
    ("wish", "groups"),
    [
        (FusionEdit(SPLIT, ("n1", "n2")), [{"n0", "n1"}, {"n2", "n3"}, {"n4"}]),
        (FusionEdit(SPLIT, ("n3",)), [{"n0", "n1", "n2"}, {"n3"}, {"n4"}]),
        (FusionEdit(TAKE_OUT, ("n3",)), [{"n0", "n1", "n2"}, {"n3"}, {"n4"}]),
        (FusionEdit(JOIN, ("n0", "n1")), [{"n0", "n1"}, {"n2", "n3"}, {"n4"}]),
    ],
    ids=["split at an edge", "split before an operator", "take out", "join a part"],
)
def test_a_wish_becomes_what_it_says(graph: engine.OperatorGraph, wish: FusionEdit, groups: list[set[str]]) -> None:
    assert carried_out(graph, wish) == groups


def test_a_fixed_group_is_split_in_two_fixed_ones(graph: engine.OperatorGraph) -> None:
    fixed = Fixed(groups=(("n0", "n1", "n2"),))
    found = tried(graph, FusionEdit(SPLIT, ("n0", "n1")), fixed)
    assert found.groups == (("n0",), ("n1", "n2")) and found.apart == (("n0", "n1"),)
    assert carried_out(graph, FusionEdit(SPLIT, ("n0", "n1")), fixed)[:2] == [{"n0"}, {"n1", "n2"}]


def test_what_is_joined_is_apart_no_more_and_leaves_its_old_group() -> None:
    fixed = Fixed((("a", "b", "c"),), (("c", "d"), ("a", "e")))
    assert join_operators(fixed, ("c", "d")) == Fixed((("a", "b"), ("c", "d")), (("a", "e"),))
    assert split_operators(Fixed((("a", "b"),)), ("a",), ("b",), [("a", "b")]) == Fixed((("a",), ("b",)), (("a", "b"),))
    unpaired = release_operators(fixed, ("c", "d"))
    assert unpaired == Fixed(fixed.groups, (("a", "e"),)), "a pair kept apart, and nothing else"
    assert release_operators(fixed, ("b",)) == Fixed((), fixed.apart)


def test_releasing_leaves_the_rest_fixed(graph: engine.OperatorGraph) -> None:
    fixed = Fixed((("n3",),), (("n0", "n1"),))
    assert carried_out(graph, FusionEdit(RELEASE, ("n3",)), fixed) == [{"n0"}, {"n1", "n2", "n3"}, {"n4"}]
    refused = tried(graph, FusionEdit(RELEASE, ("n4",)), fixed)
    assert not refused.legal and refused.because == "nothing is fixed about it"


def test_the_change_is_that_of_the_whole_plan(graph: engine.OperatorGraph) -> None:
    """Where the rest has nothing to gain, what is told around the operators is what exploring everything tells."""
    wish = FusionEdit(SPLIT, ("n1", "n2"))
    near = {term.name: term.value for term in tried(graph, wish).terms}
    plan = engine.fuse(graph)
    whole = engine.fuse(graph, fixed=Fixed(apart=(("n1", "n2"),)))
    assert plan.choice is not None and whole.choice is not None
    old, new = plan.choice.figures(), whole.choice.figures()
    assert near["kernels"] == new.kernels - old.kernels == 1
    assert near["memory"] == new.bytes - old.bytes == 2 * 64 * 96 * 4
    assert near["time"] == pytest.approx(new.microseconds - old.microseconds, rel=1e-6) and near["time"] > 0


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (FusionEdit(JOIN, ("n0", "n2")), "n1 lies between them"),
        (
            FusionEdit(JOIN, ("n1", "n2", "n3", "n4")),
            "a tile of the matrix product holds only part of each reduced row",
        ),
        (FusionEdit(SPLIT, ("n4",)), "there is nothing to part"),
    ],
    ids=["cyclic", "across blocks", "nothing to part"],
)
def test_what_cannot_be_is_refused_with_what_is_in_the_way(
    graph: engine.OperatorGraph, wish: FusionEdit, reason: str
) -> None:
    found = tried(graph, wish)
    assert not found.legal and reason in found.because and found.terms == ()


def test_shared_memory_is_refused_with_its_bytes(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Softmax", ["x"], ["a"], {"axis": 2}),
        ("Softmax", ["a"], ["b"], {"axis": 1}),
        ("Softmax", ["b"], ["y"], {"axis": 2}),
    ]
    graph = engine.load(model(tmp_path, nodes, {"x": (FLOAT, (4, 100, 300))}, "y"))
    found = tried(graph, FusionEdit(JOIN, ("n0", "n1", "n2")))
    assert not found.legal and "bytes of shared memory; a block of h200 may have 224,256" in found.because


@pytest.mark.parametrize("wish", [FusionEdit("fuse", ("n0",)), FusionEdit(JOIN, ()), FusionEdit(JOIN, ("nobody",))])
def test_malformed_wishes_are_bad_input(graph: engine.OperatorGraph, wish: FusionEdit) -> None:
    with pytest.raises(engine.BadInput):
        tried(graph, wish)


def test_equal_layers_are_changed_alike() -> None:
    if not BERT.exists():
        pytest.skip(f"{BERT} is not there")
    graph = engine.load(BERT)
    plan = engine.fuse(graph)
    attempts = Attempts(plan)
    started = time.perf_counter()
    found = attempts.attempt(FusionEdit(SPLIT, ("node_linear_3", "node_add_5")))
    assert time.perf_counter() - started < HANG
    assert found.places == 12 and len(found.apart) == 12
    changed = engine.fuse(graph, fixed=Fixed(found.groups, found.apart))
    group = next(g for g in changed.groups if any("node_add_5" in i.operators for i in g.instances))
    assert len(group.instances) % 12 == 0, "twelve layers stay equal"


def test_links_tell_scheme_and_bytes(graph: engine.OperatorGraph) -> None:
    plan = engine.fuse(graph, fixed=Fixed(apart=(("n2", "n3"),)))
    document = engine.model_doc(graph, plan)
    links = [(link.producer, link.consumer, link.scheme, link.bytes) for link in document.links]
    size = 64 * 96 * 4
    assert links == [("n0", "n1", "register", 2 * size), ("n1", "n2", "register", 2 * size)]
    assert [edge.fixed for edge in document.edges if edge.tensor in ("m", "t")] == [True, False]
    assert not any(node.fixed for node in document.nodes)
    held = engine.model_doc(graph, engine.fuse(graph, fixed=Fixed(groups=(("n3",),))))
    assert [node.operators for node in held.nodes if node.fixed] == [("n3",)]


def test_wishes_are_a_verb_of_the_library(graph: engine.OperatorGraph) -> None:
    plan = engine.fuse(graph)
    found = engine.Attempts(plan).attempt(engine.FusionEdit(SPLIT, ("n1", "n2")))
    assert found == Attempts(plan).attempt(FusionEdit(SPLIT, ("n1", "n2"))) and found.legal
    with pytest.raises(engine.BadInput, match="target"):
        engine.Attempts(plan, target="abacus")
