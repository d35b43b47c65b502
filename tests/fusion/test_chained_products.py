"""Two products in a row as one group: what is recognised, what stays apart, and the reasons of both."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.fusion.chained_products import chain_of, chained_shape
from engine.fusion.nodes import FusionPlan
from engine.fusion.shape import Shape
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import Unsupported
from engine.target import target
from tests.semantics.single import Node, write_model
from tests.support.attention_gradients import QueryGradient
from tests.support.attentions import Attention

PLAIN = QueryGradient(queries=70, keys=90, head=64, heads=3)
CHAINED = "chained products"


def planned(case: QueryGradient, folder: Path, *more: Node, outputs: tuple[str, ...] = ()) -> FusionPlan:
    return engine.fuse(engine.load(case.model(folder, *more, outputs=outputs)))


def chains(plan: FusionPlan) -> list[engine.FusionGroup]:
    return [group for group in plan.groups if group.kind == CHAINED]


VARIANTS = [
    PLAIN,
    replace(PLAIN, dtype="float16", outputs=("dq",)),
    replace(PLAIN, is_flat=True),
    replace(PLAIN, keys=128, batch=1),
    replace(PLAIN, keys=500, is_given=True, dtype="float16", outputs=("dq",)),
]


@pytest.mark.parametrize("case", VARIANTS)
def test_the_gradient_of_queries_is_one_kernel(case: QueryGradient, tmp_path: Path) -> None:
    plan = planned(case, tmp_path)
    (group,) = chains(plan)
    assert len(plan.launches) == 1
    found = chain_of(group.program)
    assert (found.key.extent, [i.extent for i in found.queries]) == (case.keys, [case.queries])
    assert [i.extent for i in found.batch] == [size for size in (case.batch, case.heads) if size > 1]
    assert ([i.extent for i in found.heads], found.after) == ([case.head], ())
    assert found.has_whole_rows == (not case.is_given)
    assert group.program.arrays[found.weights].shape[-1] == case.keys


def test_the_reason_has_bytes_and_times(tmp_path: Path) -> None:
    """Gradients of scores are written for others and not read again; those of weights never leave the block."""
    (group,) = chains(planned(PLAIN, tmp_path))
    size = 4 * PLAIN.batch * PLAIN.heads
    outside = size * (2 * 70 * 64 + 2 * 90 * 64 + 2 * 70 * 90)
    # the sums of a kernel with whole rows of the first product are as good: it hands over the gradients of scores
    assert f"{outside / 1e3:.3g} kB moved in place of {(outside + size * 70 * 90) / 1e3:.3g} kB" in group.because
    fused, separate = map(float, re.findall(r"([\d.]+) µs predicted in place of ([\d.]+)", group.because)[0])
    assert fused < separate
    assert f"{engine.predict(engine.compile(group)).microseconds:.3g}" == f"{fused:.3g}"


def test_element_wise_operators_after_it_stay_in_its_kernel(tmp_path: Path) -> None:
    plan = planned(PLAIN, tmp_path, ("Relu", ["dq"], ["z"], {}), outputs=("z",))
    (group,) = chains(plan)
    assert len(plan.launches) == 1
    assert len(chain_of(group.program).after) == 1


REFUSED = [
    # case, reason
    (replace(PLAIN, keys=129), "a row of 129 scores is reduced before it is used, a block holds up to 128"),
    (replace(PLAIN, head=392), "rows of 392 elements do not fit the registers of a kernel"),
    (replace(PLAIN, keys=128, head=240), "16 queries, 128 keys and values of 240 and 240 elements take 273,920 bytes"),
]


@pytest.mark.parametrize(("case", "because"), REFUSED)
def test_what_does_not_fit_stays_apart(case: QueryGradient, because: str, tmp_path: Path) -> None:
    plan = planned(case, tmp_path)
    assert chains(plan) == []
    assert len(plan.launches) == 2
    found = form(plan)
    assert isinstance(found, str) and found.startswith(because)


def form(plan: FusionPlan) -> Shape | str:
    """The loop space of all statements of a plan as one kernel."""
    parts = plan.choice
    assert parts is not None
    statements = tuple(s for group, _ in parts.groups for s in group)
    kept = frozenset(parts.program.outputs)
    return chained_shape(statements, kept, (), parts.program.arrays, target(plan.target))


def test_the_gradient_of_keys_needs_other_rows(tmp_path: Path) -> None:
    """It sums over queries, of which a block with whole rows has some: it reads what the first kernel stores."""
    more: list[Node] = [("Transpose", ["ds"], ["st"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["st", "do"], ["dk"], {})]
    plan = planned(PLAIN, tmp_path, *more, outputs=("dq", "dk"))
    assert not any("dk" in i.arrays.values() for group in chains(plan) for i in group.instances)
    for group in chains(plan):
        assert "ds" in [group.instances[0].arrays[name] for name in group.program.outputs]


def test_columns_are_summed_where_no_row_is_reduced(tmp_path: Path) -> None:
    """The gradient of keys with the sums given: a block has keys, and queries go by."""
    case = replace(PLAIN, is_given=True)
    more: list[Node] = [("Transpose", ["ds"], ["st"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["st", "do"], ["dk"], {})]
    path = case.model(tmp_path, *more, outputs=("dk",))
    (group,) = chains(engine.fuse(engine.load(path)))
    found = chain_of(group.program)
    assert (found.key.extent, [i.extent for i in found.queries]) == (case.queries, [case.keys])


def test_what_a_person_holds_or_keeps_apart_stays_so(tmp_path: Path) -> None:
    graph = engine.load(PLAIN.model(tmp_path))
    (group,) = chains(engine.fuse(graph))
    operators = group.instances[0].operators
    apart = engine.fuse(graph, fixed=Fixed(apart=((operators[-1], operators[-2]),)))
    assert chains(apart) == []
    alone = engine.fuse(graph, fixed=Fixed(groups=((operators[-1],),)))
    assert chains(alone) == []
    held = engine.fuse(graph, fixed=Fixed(groups=(operators,)))
    assert [one.instances[0].operators for one in chains(held)] == [operators]


KEPT = [
    # nodes after the attention, outputs, what is stored on the way
    ([], ("y", "p"), {"p"}),
    ([], ("y", "s"), {"s"}),
    ([("Relu", ["p"], ["z"], {})], ("y", "z"), {"z"}),
]


@pytest.mark.parametrize(("more", "outputs", "stored"), KEPT)
def test_an_attention_of_which_others_need_more(
    more: list[Node], outputs: tuple[str, ...], stored: set[str], tmp_path: Path
) -> None:
    """Its rows are whole in a block, which stores scores, weights, or what is made of them."""
    case = Attention(queries=70, keys=90, mask="add", heads=3)
    plan = engine.fuse(engine.load(case.model(tmp_path, *more, outputs=outputs)))
    (group,) = chains(plan)
    assert len(plan.launches) == 1
    assert {group.instances[0].arrays[name] for name in group.program.outputs} == {"y", *stored}
    assert [s.because for s in chain_of(group.program).between if s.reduction] == ["row maximum", "row sum"]


def test_two_layers_are_no_chain(tmp_path: Path) -> None:
    """Each row is multiplied with the same matrix: its kernels read it less often than one of both products would."""
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["h"], {}), ("Softmax", ["h"], ["r"], {"axis": -1}), ("MatMul", ["r", "v"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"x": ("float32", (64, 64)), "w": ("float32", (64, 128)), "v": ("float32", (128, 64))}
    plan = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"])))
    assert chains(plan) == []
    assert form(plan) == "n2 multiplies all rows with one matrix, which every block would copy"


def test_a_program_without_one(tmp_path: Path) -> None:
    nodes: list[Node] = [("MatMul", ["q", "k"], ["y"], {})]
    inputs = {"q": ("float32", (64, 32)), "k": ("float32", (32, 48))}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "m.onnx", nodes, inputs, ["y"]))).groups
    with pytest.raises(Unsupported, match="two products in a row are two, here are 1"):
        chain_of(group.program)
