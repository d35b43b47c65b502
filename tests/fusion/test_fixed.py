"""What a person decides about groups: kept while the rest is explored, refused with a reason, and told at any edge."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.fusion.choices import choices_of, fusion_of
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import BadInput
from tests.fusion.test_plan import groups_of, model
from tests.semantics.single import Node

SHAPE = ("float32", (64, 96))
NORM: list[Node] = [
    ("Exp", ["x"], ["e"], {}),
    ("Softmax", ["e"], ["p"], {"axis": 1}),
    ("Mul", ["p", "g"], ["m"], {}),
    ("Tanh", ["m"], ["y"], {}),
]
"""n0 to n3: one kernel unless somebody says otherwise."""


@pytest.fixture
def graph(tmp_path: Path) -> engine.OperatorGraph:
    return engine.load(model(tmp_path, NORM, {"x": SHAPE, "g": ("float32", (96,))}, "y"))


def test_without_a_wish_all_is_one_kernel(graph: engine.OperatorGraph) -> None:
    assert groups_of(engine.fuse(graph)) == [{"n0", "n1", "n2", "n3"}]


def test_a_fixed_group_stays_and_the_rest_is_explored(graph: engine.OperatorGraph) -> None:
    plan = engine.fuse(graph, fixed=Fixed(groups=(("n1", "n2"),)))
    assert groups_of(plan) == [{"n0"}, {"n1", "n2"}, {"n3"}]
    assert engine.check_model(graph, plan).status == "pass"


def test_an_operator_fixed_alone_is_out_of_its_group(graph: engine.OperatorGraph) -> None:
    assert groups_of(engine.fuse(graph, fixed=Fixed(groups=(("n3",),)))) == [{"n0", "n1", "n2"}, {"n3"}]


def test_operators_kept_apart_are_in_two_kernels(graph: engine.OperatorGraph) -> None:
    plan = engine.fuse(graph, fixed=Fixed(apart=(("n2", "n3"),)))
    assert not any({"n2", "n3"} <= group for group in groups_of(plan))
    assert any("you keep n2 and n3 apart" in b.because for b in plan.boundaries)


def test_an_epilogue_is_taken_out_of_a_product(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("Relu", ["p"], ["y"], {})]
    g = engine.load(model(tmp_path, nodes, {"x": ("float32", (32, 32)), "w": ("float32", (32, 32))}, "y"))
    assert groups_of(engine.fuse(g)) == [{"n0", "n1"}]
    assert groups_of(engine.fuse(g, fixed=Fixed(apart=(("n0", "n1"),)))) == [{"n0"}, {"n1"}]
    assert groups_of(engine.fuse(g, fixed=Fixed(groups=(("n1",),)))) == [{"n0"}, {"n1"}]


CHAIN: list[Node] = [
    ("Tanh", ["x"], ["a"], {}),
    ("MatMul", ["a", "w"], ["b"], {}),
    ("MatMul", ["b", "w"], ["c"], {}),
    ("Add", ["a", "c"], ["y"], {}),
]


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (("n0", "n3"), "n1, n2 lie between them and are other kernels"),
        (("n1", "n2"), "two matrix products need two main loops"),
        (("nothing",), "names no operator that has a kernel"),
    ],
    ids=["cyclic", "two products", "unknown"],
)
def test_a_group_that_cannot_be_is_refused_with_its_operators(
    tmp_path: Path, group: tuple[str, ...], reason: str
) -> None:
    g = engine.load(model(tmp_path, CHAIN, {"x": ("float32", (16, 16)), "w": ("float32", (16, 16))}, "y"))
    with pytest.raises(BadInput) as refused:
        engine.fuse(g, fixed=Fixed(groups=(group,)))
    assert " + ".join(group) in refused.value.subject and reason in refused.value.reason
    tried = engine.regroup(engine.fuse(g), Fixed(groups=(group,)))
    assert not tried.legal and reason in tried.because and tried.terms == ()


def test_blocks_that_would_need_each_others_values_are_refused(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Exp", ["x"], ["e"], {}),
        ("ReduceSum", ["e"], ["s"], {"keepdims": 1}),
        ("Div", ["e", "s"], ["y"], {}),
    ]
    g = engine.load(model(tmp_path, nodes, {"x": ("float32", (64, 1024))}, "y"))
    with pytest.raises(BadInput, match="one block would walk all 65536 elements"):
        engine.fuse(g, fixed=Fixed(groups=(("n0", "n1", "n2"),)))


def test_rows_beyond_shared_memory_are_refused_with_the_bytes(tmp_path: Path) -> None:
    """Both softmaxes share the batch alone: 30,000 floats of each are handed over in a block of 227 KiB."""
    nodes: list[Node] = [
        ("Softmax", ["x"], ["a"], {"axis": 2}),
        ("Softmax", ["a"], ["b"], {"axis": 1}),
        ("Softmax", ["b"], ["y"], {"axis": 2}),
    ]
    legal, large = (
        engine.load(model(tmp_path, nodes, {"x": ("float32", (4, rows, 300))}, "y")) for rows in (20, 100)
    )
    group = Fixed(groups=(("n0", "n1", "n2"),))
    assert len(engine.fuse(legal, fixed=group).launches) == 1
    with pytest.raises(BadInput, match=r"a block of h200 may have 224,256; n\d is the cheapest"):
        engine.fuse(large, fixed=group)


def test_what_a_change_brings_is_told_before_it_is_made(graph: engine.OperatorGraph) -> None:
    told = engine.regroup(engine.fuse(graph), Fixed(groups=(("n0",),)))
    assert told.legal and told.terms[0].because == "1 become 2"
    change = {term.name: term.value for term in told.terms}
    assert change["kernels"] == 1 and change["memory"] == 2 * 64 * 96 * 4 and change["time"] > 0
    assert "more, predicted" in told.because


def test_why_an_edge_is_a_boundary(graph: engine.OperatorGraph) -> None:
    apart = engine.fuse(graph, fixed=Fixed(groups=(("n3",),)))
    first, second = (f"{launch.group}#{launch.instance}" for launch in apart.launches)
    why = engine.why_apart(apart, first, second)
    assert why.legal and why.because == "you made a kernel of n3 alone, which takes in no other"
    assert [term.name for term in why.terms] == ["memory", "calls", "penalty"]
    assert why.microseconds == pytest.approx(sum(term.value for term in why.terms))
    with pytest.raises(BadInput, match="launch nothing#0"):
        engine.why_apart(apart, "nothing#0", second)


def test_choices_survive_a_recipe() -> None:
    fixed = Fixed((("a", "b"), ("c",)), (("a", "c"),))
    assert choices_of(fusion_of("xla", fixed)) == ("xla", fixed)
    assert fusion_of("stitch", Fixed()) == {} and choices_of({}) == ("stitch", Fixed())


@pytest.mark.parametrize(
    ("fusion", "reason"),
    [
        ({"policy": "best"}, "policy best is not known"),
        ({"pack": "yes"}, "nothing here follows"),
        ({"groups": "a b"}, "is not a list in JSON"),
        ({"groups": "[1]"}, "no list of operators"),
        ({"apart": '[["a", "b", "c"]]'}, "takes pairs"),
    ],
)
def test_malformed_choices_are_refused(fusion: dict[str, str], reason: str) -> None:
    with pytest.raises(BadInput, match="fusion") as refused:
        choices_of(fusion)
    assert reason in refused.value.reason
