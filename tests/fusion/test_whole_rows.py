"""Which row reductions join the product that they read: where a block can keep whole rows and where it pays."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.fusion.row_cost import row_tiles, thread_tile, warp_tile
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import BadInput
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler

Inputs = dict[str, tuple[str, tuple[int, ...]]]
LAYER: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}), ("Add", ["s", "r"], ["t"], {}),
    ("LayerNormalization", ["t", "g"], ["y"], {"axis": -1}),
]  # fmt: skip
SOFTMAX: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("Softmax", ["p"], ["y"], {"axis": -1})]


def sizes(rows: int, columns: int, depth: int) -> Inputs:
    kind = "float16"
    return {
        "x": (kind, (rows, depth)), "w": (kind, (depth, columns)), "b": (kind, (columns,)),
        "r": (kind, (rows, columns)), "g": (kind, (columns,)),
    }  # fmt: skip


def planned(
    folder: Path, nodes: list[Node], inputs: Inputs, outputs: tuple[str, ...] = ("y",), policy: str = "stitch",
    fixed: Fixed | None = None,
) -> FusionPlan:  # fmt: skip
    used = {name for _, read, _, _ in nodes for name in read}
    path = write_model(folder / "m.onnx", nodes, {n: i for n, i in inputs.items() if n in used}, outputs)
    return engine.fuse(engine.load(path), policy=policy, fixed=fixed)


def groups_of(plan: FusionPlan) -> list[set[str]]:
    return [set(plan.group(launch.group).instances[launch.instance].operators) for launch in plan.launches]


def reason(plan: FusionPlan, tensor: str) -> str:
    return next(b.because for b in plan.boundaries if b.tensor == tensor)


def test_bias_residual_and_norm_are_one_kernel_with_its_product(tmp_path: Path) -> None:
    plan = planned(tmp_path, LAYER, sizes(2048, 128, 256))
    (group,) = plan.groups
    assert group.kind == "contraction" and groups_of(plan) == [{"n0", "n1", "n2", "n3"}]
    assert "keeps whole rows of 128 results in a block, which reduces them 2 times" in group.because
    assert f"{2 * 2 * 2048 * 128:,} bytes do not cross global memory" in group.because
    assert {e.scheme for e in group.edges if e.array.endswith(("sum", "squares"))} == {"shuffle"}


@pytest.mark.parametrize("policy", ["xla", "none"])
def test_other_policies_keep_reductions_apart(policy: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, LAYER, sizes(2048, 128, 256), policy=policy)
    assert not any({"n0", "n3"} <= group for group in groups_of(plan))
    assert "takes in only element-wise operators after it" in reason(plan, "t") or policy == "none"


def test_what_others_read_is_written_too(tmp_path: Path) -> None:
    """The residual stream leaves the kernel, and is read again: only one of its two ways through memory is saved."""
    nodes = [*LAYER, ("Relu", ["t"], ["u"], {})]
    plan = planned(tmp_path, nodes, sizes(2048, 128, 256), ("y", "u"))
    assert {"n0", "n1", "n2", "n3"} <= groups_of(plan)[0]
    (group,) = (g for g in plan.groups if "n3" in g.instances[0].operators)
    assert len(group.program.outputs) == 2


def test_long_rows_stay_apart_and_figures_say_why(tmp_path: Path) -> None:
    plan = planned(tmp_path, LAYER, sizes(2048, 320, 64))
    assert groups_of(plan) == [{"n0", "n1", "n2"}, {"n3"}]
    assert "n3 needs all 320 columns of n0, a block holds up to 256" in reason(plan, "t")
    assert planned(tmp_path, LAYER, sizes(2048, 256, 64)).launches == plan.launches[:1]


def test_tiles_too_low_to_pay_stay_apart_with_the_cost_terms(tmp_path: Path) -> None:
    """Few rows of a deep product: one tile of whole rows would leave most of the GPU idle for long."""
    plan = planned(tmp_path, LAYER, sizes(16, 256, 16384))
    assert groups_of(plan) == [{"n0", "n1", "n2"}, {"n3"}]
    told = reason(plan, "t")
    assert told.startswith("one kernel would be slower: ") and "µs predicted in place of" in told


def test_reductions_of_other_axes_stay_apart(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("Softmax", ["p"], ["y"], {"axis": 0})]
    joined = planned(tmp_path, nodes, sizes(64, 2048, 64))
    assert groups_of(joined) == [{"n0", "n1"}], "columns of the result are rows of its transpose"
    assert groups_of(planned(tmp_path, nodes, sizes(2048, 64, 64))) == [{"n0"}, {"n1"}]
    both: list[Node] = [("MatMul", ["x", "w"], ["p"], {}), ("ReduceMax", ["p"], ["y"], {"keepdims": 0})]
    plan = planned(tmp_path, both, sizes(64, 32, 64))
    assert groups_of(plan) == [{"n0"}, {"n1"}] and "only part of each reduced row" in reason(plan, "p")


def test_a_group_by_hand_is_made_or_refused_with_figures(tmp_path: Path) -> None:
    whole = Fixed(groups=(("n0", "n1", "n2", "n3"),))
    few = sizes(128, 256, 4096)
    assert groups_of(planned(tmp_path, LAYER, few, fixed=whole)) == [{"n0", "n1", "n2", "n3"}], "slower, but possible"
    with pytest.raises(BadInput, match="n3 needs all 300 columns of n0, a block holds up to 256"):
        planned(tmp_path, LAYER, sizes(128, 300, 64), fixed=whole)


def test_a_group_is_split_by_hand(tmp_path: Path) -> None:
    apart = planned(tmp_path, LAYER, sizes(2048, 128, 256), fixed=Fixed(apart=(("n2", "n3"),)))
    assert groups_of(apart) == [{"n0", "n1", "n2"}, {"n3"}]
    assert reason(apart, "t") == "you keep n2 and n3 apart"
    held = planned(tmp_path, LAYER, sizes(2048, 128, 256), fixed=Fixed(groups=(("n0", "n1", "n2"),)))
    assert groups_of(held) == [{"n0", "n1", "n2"}, {"n3"}]
    assert "you made one kernel of n0 + n1 + n2" in reason(held, "t")


def test_no_kernel_waits_for_itself(tmp_path: Path) -> None:
    """p -> softmax -> z, and p -> MatMul -> z: the second product lies between the first one and what reduces it."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["p"], {}), ("MatMul", ["p", "v"], ["q"], {}), ("Add", ["p", "q"], ["s"], {}),
        ("Softmax", ["s"], ["y"], {"axis": -1}),
    ]  # fmt: skip
    plan = planned(tmp_path, nodes, sizes(2048, 64, 64) | {"v": ("float16", (64, 64))})
    assert groups_of(plan) == [{"n0"}, {"n1", "n2", "n3"}]


def test_figures_of_a_plan_and_of_its_parts_agree(tmp_path: Path) -> None:
    """What the plan gains is what the cost model said: a launch, and bytes that no longer cross global memory."""
    together = planned(tmp_path, LAYER, sizes(2048, 128, 256)).choice
    apart = planned(tmp_path, LAYER, sizes(2048, 128, 256), fixed=Fixed(apart=(("n2", "n3"),))).choice
    assert together is not None and apart is not None
    one, two = together.figures(), apart.figures()
    assert (one.kernels, two.kernels, one.memory_bound) == (1, 2, 0)
    assert two.bytes - one.bytes == 2 * 2048 * 128 * 2
    assert one.microseconds < two.microseconds


@pytest.mark.parametrize("rows", [16, 100, 5000])
@pytest.mark.parametrize("columns", [2, 16, 17, 100, 256])
def test_every_tile_holds_whole_rows_in_whole_parts(rows: int, columns: int) -> None:
    for least, part_of, lanes in ((16, warp_tile, 32), (1, thread_tile, 1)):
        for block in row_tiles(rows, columns, least):
            part = part_of(block)
            assert columns <= block[1] < max(2 * columns, least + 1) and block[0] * block[1] <= 128 * 128
            assert all(b % p == 0 for b, p in zip(block, part, strict=True))
            threads = block[0] * block[1] // (part[0] * part[1]) * lanes
            assert part[0] * part[1] <= 64 * lanes and 32 <= threads <= 1024


@needs_compiler
def test_a_graph_of_such_kernels_agrees_end_to_end(tmp_path: Path) -> None:
    """Two layers with residuals, a softmax over what they make; each launch feeds the next."""
    kind = "float32"
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "x"], ["s"], {}),
        ("LayerNormalization", ["s", "g"], ["n"], {"axis": -1}), ("MatMul", ["n", "v"], ["q"], {}),
        ("Add", ["q", "n"], ["t"], {}), ("LayerNormalization", ["t", "g"], ["o"], {"axis": -1}),
        ("MatMul", ["o", "u"], ["l"], {}), ("Softmax", ["l"], ["y"], {"axis": -1}),
    ]  # fmt: skip
    square = dict.fromkeys(("w", "v"), (kind, (64, 64)))
    inputs = {"x": (kind, (96, 64)), "g": (kind, (64,)), "u": (kind, (64, 10)), **square}
    path = write_model(tmp_path / "m.onnx", nodes, inputs, ["y"])
    graph = engine.load(path)
    plan = engine.fuse(graph)
    assert groups_of(plan) == [{"n0", "n1", "n2"}, {"n3", "n4", "n5"}, {"n6", "n7"}]
    assert len(plan.groups) == 2, "equal layers share a kernel"
    assert engine.check_model(graph, plan).status == "pass"
