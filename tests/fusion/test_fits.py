"""Which statements fit one kernel: a form for each, the simplest first, and the reason where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.partition import FusionRequest, _EstimateJudge
from engine.fusion.plan import plan
from engine.fusion.stitching.nodes import STITCH, Fixed
from engine.fusion.stitching.shared_memory import SCRATCH_BYTES, stitched_limit
from engine.target import DEFAULT_TARGET, DEVICES, Target
from engine.verify.values import lowering
from tests.fusion.test_plan import groups_of
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

H200 = DEVICES[DEFAULT_TARGET]
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
    assert groups_of(plan) == [{"n0"}, {"n1", "n2"}]
    assert "looked up in memory" in plan.boundaries[0].because
    assert engine.check_model(plan.source, plan).status == "pass"


def shifted_softmax(folder: Path, columns: int) -> engine.FusionPlan:
    """A softmax whose elements are read one place off: other threads made them, whatever the walk."""
    ends = {"one": np.array([1]), "none": np.array([0]), "all": np.array([columns]), "less": np.array([-1])}
    nodes: list[Node] = [
        ("Softmax", ["x"], ["s"], {"axis": 1}),
        ("Slice", ["s", "one", "all", "one"], ["a"], {}),
        ("Slice", ["s", "none", "less", "one"], ["b"], {}),
        ("Sub", ["a", "b"], ["y"], {}),
    ]
    inputs = {"x": ("float32", (128, columns))}
    return engine.fuse(engine.load(write_model(folder / "m.onnx", nodes, inputs, ["y"], ends)))


@pytest.mark.parametrize(("columns", "kinds"), [
    (stitched_limit(H200) // 4, ["stitched"]),
    (stitched_limit(H200) // 4 + 4, ["row reduction", "element-wise"]),
], ids=["the last row that fits", "the first that does not"])  # fmt: skip
def test_the_plan_and_the_kernel_have_one_limit_of_shared_memory(
    columns: int, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kernels would be quicker by the estimate: here one is made wherever it can be."""
    monkeypatch.setattr(_EstimateJudge, "_pays", lambda *_: True)
    plan = shifted_softmax(tmp_path, columns)
    kernels = [engine.compile(group) for group in plan.groups]
    assert [kernel.group.kind for kernel in kernels] == kinds
    assert all(kernel.source.shared_bytes <= H200.shared_limit for kernel in kernels)
    assert (kernels[0].source.shared_bytes >= stitched_limit(H200)) == (len(kinds) == 1)


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda device: device.name)
def test_a_stitched_kernel_leaves_its_reductions_their_scratch(device: Target) -> None:
    assert stitched_limit(device) == device.shared_per_block.value - SCRATCH_BYTES


def test_blocks_take_no_more_points_than_their_rows_have_room_for(tmp_path: Path) -> None:
    """One row of 8 kB a point; neighbouring points would fill sectors, but 20 of them more than shared memory."""
    nodes: list[Node] = [("Softmax", ["x"], ["s"], {"axis": 0}), ("Softmax", ["s"], ["y"], {"axis": 1})]
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (1024, 2, 40))}, ["y"]))
    plan = engine.fuse(graph, fixed=Fixed(groups=(("n0", "n1"),)))
    (kernel,) = [engine.compile(group) for group in plan.groups]
    assert kernel.group.kind == "stitched" and kernel.tile.constants["BLOCK_POINTS"] > 1
    assert kernel.source.shared_bytes <= H200.shared_limit


def test_long_rows_are_computed_again_from_their_mean_where_nothing_has_room_for_them(tmp_path: Path) -> None:
    """39,000 elements a row: neither registers nor shared memory keep two such rows, and the mean is one value."""
    ends = {"one": np.array([1]), "none": np.array([0]), "all": np.array([39_000]), "less": np.array([-1])}
    nodes: list[Node] = [
        ("LayerNormalization", ["x", "scale"], ["n"], {"axis": 1}),
        ("Softmax", ["n"], ["s"], {"axis": 1}),
        ("Sqrt", ["n"], ["r"], {}),
        ("Slice", ["r", "one", "all", "one"], ["a"], {}),
        ("Slice", ["r", "none", "less", "one"], ["b"], {}),
        ("Sub", ["a", "b"], ["d"], {}),
    ]
    constants = {**ends, "scale": np.ones(39_000, np.float32)}
    path = write_model(tmp_path / "m.onnx", nodes, {"x": ("float32", (2, 39_000))}, ["s", "d"], constants)
    kernels = [engine.compile(group) for group in engine.fuse(engine.load(path)).groups]
    assert [kernel.group.kind for kernel in kernels] == ["stitched"]
    again = {name for name, (scheme, _) in kernels[0].tile.schemes.items() if scheme == "recompute"}
    assert again and kernels[0].source.shared_bytes <= H200.shared_limit


def test_parts_of_a_pack_have_the_same_limit(tmp_path: Path) -> None:
    """Rows that fit no block alone fit none in company.  Of kernels that take the same, fewer are quicker: all packs of
    the search are made."""
    columns = stitched_limit(H200) // 4 + 4
    ends = {"one": np.array([1]), "none": np.array([0]), "all": np.array([columns]), "less": np.array([-1])}
    nodes: list[Node] = []
    for n in range(2):
        nodes += [
            ("Softmax", [f"x{n}"], [f"s{n}"], {"axis": 1}),
            ("Slice", [f"s{n}", "one", "all", "one"], [f"a{n}"], {}),
            ("Slice", [f"s{n}", "none", "less", "one"], [f"b{n}"], {}),
            ("Sub", [f"a{n}", f"b{n}"], [f"y{n}"], {}),
        ]
    inputs = {f"x{n}": ("float32", (2 + n, columns)) for n in range(2)}
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y0", "y1"], ends))
    found = plan(graph, *lowering(graph), FusionRequest(STITCH, H200, lambda group: 1.0))
    kernels = [engine.compile(group) for group in found.groups]
    assert len(found.launches) > 1 and all(k.source.shared_bytes <= H200.shared_limit for k in kernels)
    assert "packed" in {k.group.kind for k in kernels}, "maxima and sums of both share a launch"


CONCAT: list[Node] = [
    ("Exp", ["x"], ["e"], {}),
    ("ReduceSum", ["x", "rows"], ["s"], {}),
    ("Transpose", ["z"], ["t"], {"perm": [1, 0]}),
    ("Tanh", ["t"], ["h"], {}),
    ("Concat", ["e", "s", "h", "x", "x"], ["c"], {"axis": 1}),
]
"""Parts of 40, 1, 7, 40 and 40 columns."""


def concatenated(folder: Path, *more: Node) -> engine.OperatorGraph:
    inputs = {"x": ("float32", (24, 40)), "z": ("float32", (7, 24))}
    nodes = [*CONCAT, *more]
    return engine.load(write_model(folder / "m.onnx", nodes, inputs, [nodes[-1][2][0]], {"rows": AXES["rows"]}))


@needs_compiler
def test_parts_of_one_array_are_written_by_the_blocks_that_own_their_rows(tmp_path: Path) -> None:
    graph = concatenated(tmp_path)
    plan = engine.fuse(graph)
    assert [group.kind for group in plan.groups] == ["stitched"] and len(plan.launches) == 1
    assert engine.check_model(graph, plan).status == "pass"
    assert [engine.check(engine.compile(group)).status for group in plan.groups] == ["pass"]


@needs_compiler
def test_parts_that_share_no_rows_share_a_launch_side_by_side(tmp_path: Path) -> None:
    nodes: list[Node] = [(kind, [name], [f"{name}p"], {}) for kind, name in (("Exp", "a"), ("Neg", "b"), ("Tanh", "d"))]
    nodes += [("Softmax", ["e"], ["ep"], {"axis": 1}), ("Concat", ["ap", "bp", "dp", "ep", "ep"], ["c"], {"axis": 0})]
    inputs = {name: ("float32", (rows, 400)) for name, rows in zip("abde", (30, 50, 70, 110), strict=True)}
    graph = engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["c"]))
    plan = engine.fuse(graph)
    assert [group.kind for group in plan.groups] == ["packed"] and len(plan.launches) == 1
    assert engine.check_model(graph, plan).status == "pass"
    assert [engine.check(engine.compile(group)).status for group in plan.groups] == ["pass"]


def test_who_reads_all_parts_waits_for_their_launch(tmp_path: Path) -> None:
    graph = concatenated(tmp_path, ("Neg", ["c"], ["y"], {}))
    plan = engine.fuse(graph)
    assert [group.kind for group in plan.groups] == ["stitched", "element-wise"]
    assert [b.because for b in plan.boundaries] == ["n5 reads c, which several loops write in parts"]
    whole = Fixed(groups=(tuple(op.name for op in graph.operators),))
    with pytest.raises(engine.BadInput, match="n5 reads c, which several loops write in parts"):
        engine.fuse(graph, fixed=whole)


def test_parts_that_overlap_are_written_one_after_the_other(tmp_path: Path) -> None:
    """What is scattered lands on what was copied: no two launches' blocks, side by side, may write one element."""
    inputs = {"x": ("float32", (24, 40)), "i": ("int64", (3, 40)), "u": ("float32", (3, 40))}
    nodes: list[Node] = [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 0})]
    plan = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"])))
    assert "packed" not in {group.kind for group in plan.groups}
