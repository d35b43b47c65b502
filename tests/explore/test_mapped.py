"""Mappings of real operators: which have a kernel, that it is right, and why the others have none."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.documents.mappings import CHECKED, COMPILED, LISTED, MappingDoc, MappingsDoc
from engine.fusion.nodes import FusionGroup
from engine.suite.operators.sketch import GraphSketch
from tests.support.commands import document, loomscope

MMA = "mma_m16n8k16_f16"


def of_kind(plan: engine.FusionPlan, kind: str = "contraction") -> FusionGroup:
    return next(group for group in plan.groups if group.kind == kind)


def conv(tmp_path: object, **attributes: object) -> FusionGroup:
    """A convolution of halves over two images of 16 channels."""
    groups = int(str(attributes.get("group", 1)))
    sketch = GraphSketch("float16")
    shape = (2, 16, 10, 10)
    sketch.node("Conv", sketch.input("x", *shape), sketch.input("w", 16, 16 // groups, 3, 3), to="y", **attributes)
    path = f"{tmp_path}/conv.onnx"
    onnx.save(sketch.model("conv", ["y"]), path)
    return engine.fuse(engine.load(path)).groups[-1]


def to(found: MappingsDoc, intrinsic: str) -> list[MappingDoc]:
    return [mapping for mapping in found.mappings if mapping.intrinsic == intrinsic]


def test_the_kernel_of_a_mapping_is_checked_and_the_others_say_why_not(tmp_path: object) -> None:
    found = engine.mappings(conv(tmp_path), emulate=True)
    listed = to(found, MMA)
    assert len(listed) == 35
    (made,) = [mapping for mapping in listed if mapping.state == CHECKED]
    assert made.outer == () and not made.why_not
    assert any("mark intrinsic" in entry for entry in made.entries)
    assert all(m.state == LISTED and "all iterators of a side" in m.why_not for m in listed if m is not made)
    assert {r.intrinsic for r in found.refused} == {
        "mma_m16n8k16_bf16", "mma_m16n8k8_tf32", "avx512_vpdpbusd_16x4", "mma_m16n8k32_s8_s8", "mma_m16n8k32_s8_u8",
        "mma_m16n8k32_u8_s8", "mma_m16n8k32_u8_u8",
    }  # fmt: skip


def test_the_entries_of_a_mapping_make_its_kernel(tmp_path: object) -> None:
    group = conv(tmp_path)
    made = next(m for m in engine.mappings(group).mappings if m.state == COMPILED)
    text = "\n".join(("advice tensorize", *(f"  {entry}" for entry in made.entries)))
    kernel = engine.compile(group, engine.replace_advice(engine.default_recipe(group), group, text))
    assert kernel.tile.intrinsic == MMA
    assert all(verdict.outcome == "honoured" for verdict in kernel.verdicts)


@pytest.mark.parametrize(("groups", "kernels"), [(2, 1), (16, 0)], ids=["grouped", "depthwise"])
def test_groups_of_channels_are_listed_with_their_loops(tmp_path: object, groups: int, kernels: int) -> None:
    """A group is one of a batch of products; a depth-wise convolution has too few channels for any."""
    listed = to(engine.mappings(conv(tmp_path, group=groups)), MMA)
    made = [mapping for mapping in listed if mapping.state == COMPILED]
    assert len(made) == kernels < len(listed)
    assert all(mapping.state == LISTED and mapping.why_not for mapping in listed if mapping not in made)
    assert all("j" in mapping.outer for mapping in listed)


@pytest.mark.parametrize(
    "row", ["gemv-512x16", "scan-16x512x128", "mean-512x7x7", "variance-512x7x7", "dilated-1024x14x14-512"]
)
def test_published_operators_have_mappings(row: str) -> None:
    plan = engine.fuse(engine.load(f"suite:gta/{row}"))
    assert any(to(engine.mappings(group), MMA) for group in plan.groups)


def test_float32_asks_for_the_numerics_it_needs(tmp_path: object) -> None:
    a, b, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (64, 64)) for n in "aby")
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product", [a, b], [y])
    path = f"{tmp_path}/product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    group = engine.fuse(engine.load(path)).groups[0]
    (only,) = to(engine.mappings(group), "mma_m16n8k8_tf32")
    assert only.state == LISTED and '"tensor_cores": "tf32"' in only.why_not
    rounded = engine.Recipe("h200", numerics={"tensor_cores": "tf32"})
    assert to(engine.mappings(group, rounded), "mma_m16n8k8_tf32")[0].state == COMPILED


def test_a_group_without_a_sum_says_so() -> None:
    found = document("mappings", "suite:gta/scan-16x512x128")["groups"]
    assert found[0]["mappings"] == [] and found[0]["refused"][0]["because"] == "no statement of the group is a sum"
    keys = {"intrinsic", "binding", "padding", "cost", "entries", "state", "why_not"}
    assert found[1]["mappings"] and keys <= found[1]["mappings"][0].keys()


def test_the_table_shows_the_cheapest_and_counts_the_rest() -> None:
    said = loomscope("mappings", "suite:gta/conv2d-C1-b1").stdout
    assert "x[l, j + m - 1, k + n - 1] * w[i, l, m, n]" in said
    assert f"mappings to {MMA}" in said and "--all" in said
    assert said.count(MMA) < loomscope("mappings", "suite:gta/conv2d-C1-b1", "--all").stdout.count(MMA)
