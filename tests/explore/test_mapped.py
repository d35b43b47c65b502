"""Mappings of real operators: which have a kernel, that it is right, and why the others have none."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.documents.mappings import CHECKED, COMPILED, LISTED, MappingDoc, MappingsDoc
from engine.execution.nvrtc import compile_cuda
from engine.fusion.nodes import FusionGroup
from engine.suite.operators.sketch import GraphSketch
from engine.target import ARCHITECTURES
from engine.tensorize.space import GemmConfig
from tests.kernels.test_gemm_work import assert_same_work
from tests.kernels.test_row_results import group_of, means_of_planes
from tests.kernels.test_tensor_cores import Shape
from tests.semantics.single import Node, write_model
from tests.support.commands import document, loomscope
from tests.support.needs import needs_compiler, needs_nvrtc

MMA = "mma_m16n8k16_f16"
SLOW = pytest.mark.slow


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


def test_intrinsics_of_other_elements_are_refused(tmp_path: object) -> None:
    found = engine.mappings(conv(tmp_path))
    assert {m.intrinsic for m in found.mappings} == {MMA}
    assert {r.intrinsic for r in found.refused} == {
        "mma_m16n8k16_bf16", "mma_m16n8k8_tf32", "avx512_vpdpbusd_16x4", "mma_m16n8k32_s8_s8", "mma_m16n8k32_s8_u8",
        "mma_m16n8k32_u8_s8", "mma_m16n8k32_u8_u8",
    }  # fmt: skip


def kernel_of(group: FusionGroup, mapping: MappingDoc, *user: str) -> engine.Kernel:
    """The kernel that a mapping's entries ask for, and what a user says besides."""
    lines = ["advice tensorize", *(f"  {entry}" for entry in mapping.entries)]
    lines += ["advice user", *(f"  {entry}" for entry in user)] if user else []
    return engine.compile(group, engine.replace_advice(engine.default_recipe(group), group, "\n".join(lines)))


def test_the_entries_of_every_mapping_make_a_kernel_of_its_own(tmp_path: object) -> None:
    """The loops around the intrinsic are those that the mapping leaves out, and no entry is changed on the way."""
    group = conv(tmp_path)
    listed = to(engine.mappings(group), MMA)
    assert len(listed) == 35 and all(mapping.state == COMPILED for mapping in listed)
    texts = set()
    for mapping in listed:
        kernel = kernel_of(group, mapping)
        assert kernel.tile.intrinsic == MMA and isinstance(kernel.tile.config, GemmConfig)
        assert set(kernel.tile.config.outer) == set(mapping.outer)
        assert all(verdict.outcome == "honoured" for verdict in kernel.verdicts)
        # Blocks walk the parallel ones; of the summed ones all points are walked for every tile of the result.
        summed = [3 for name in mapping.outer if name in ("n", "o")] + [16 for name in mapping.outer if name == "m"]
        assert (f"ROUNDS = {math.prod(summed)}," in kernel.source.text) == bool(summed)
        assert_same_work(kernel)
        texts.add(kernel.source.text)
    assert len(texts) == 35


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "weight", "attributes", "count"),
    [
        ((2, 16, 5, 5), (16, 16, 3, 3), {}, 35),
        pytest.param((2, 20, 9, 11), (24, 20, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}, 35, marks=SLOW),
        pytest.param((2, 32, 9, 11), (24, 32, 3, 3), {"pads": [1, 1, 1, 1]}, 35, marks=SLOW),
        pytest.param((2, 16, 10, 10), (16, 8, 3, 3), {"group": 2}, 35, marks=SLOW),
        ((2, 20, 30), (24, 20, 3), {"pads": [1, 0], "dilations": [2]}, 6),
        pytest.param((2, 8, 5, 5, 5), (16, 8, 3, 3, 3), {}, 180, marks=SLOW),
    ],
    ids=["2-D", "padded and strided", "taps in whole tiles", "grouped", "1-D", "3-D"],
)
def test_every_mapping_of_a_convolution_has_a_right_kernel(
    shape: Shape, weight: Shape, attributes: dict[str, object], count: int, tmp_path: Path
) -> None:
    nodes: list[Node] = [("Conv", ["x", "w"], ["y"], attributes)]
    path = write_model(tmp_path / "c.onnx", nodes, {"x": ("float16", shape), "w": ("float16", weight)}, ["y"])
    found = document("mappings", str(path), "--check")["groups"][-1]["mappings"]
    assert len({mapping["binding"] for mapping in found}) == len(found) == count
    assert [(m["binding"], m["kernel"]) for m in found if m["kernel"] != "pass"] == []
    assert {mapping["intrinsic"] for mapping in found} == {MMA}


@needs_compiler
@needs_nvrtc
def test_a_mapping_runs_as_ptx_without_spills(tmp_path: object) -> None:
    group = conv(tmp_path)
    mapping = next(m for m in to(engine.mappings(group), MMA) if {"k", "n"} <= set(m.outer))
    kernel = kernel_of(group, mapping)
    for level in ("source", "ptx"):
        report = engine.check(kernel, level=level)
        assert report.status == "pass", report.message
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("user", "outer", "because"),
    [
        ((), ("k", "n"), ""),
        (("S0 @ k: mark axis inner",), ("n",), "another entry asks for inner"),
        (("S0 @ i: mark axis outer",), ("i", "k", "n"), ""),
        (("S0 @ i: mark axis outer", "S0 @ l: mark axis outer"), ("i", "k", "n"), "one iterator or more"),
        (("S0 @ j: mark axis outer",), ("k", "n"), "one iterator or more"),
        (("S0 @ i: mark axis 1",), ("k", "n"), "inner or outer"),
        (("S0 @ i: mark intrinsic none",), (), "without an intrinsic there is no axis"),
    ],
    ids=["none", "inner", "one more", "all rows", "all columns", "a number", "CUDA cores"],
)
def test_a_person_says_which_loops_are_around(
    user: tuple[str, ...], outer: tuple[str, ...], because: str, tmp_path: object
) -> None:
    group = conv(tmp_path)
    mapping = next(m for m in to(engine.mappings(group), MMA) if set(m.outer) == {"k", "n"})
    kernel = kernel_of(group, mapping, *user)
    assert isinstance(kernel.tile.config, GemmConfig) and set(kernel.tile.config.outer) == set(outer)
    changed = [v.because for v in kernel.verdicts if v.outcome != "honoured"]
    assert any(because in reason for reason in changed) if because else not changed


@pytest.mark.parametrize(("groups", "kernels"), [(2, 35), (16, 0)], ids=["grouped", "depthwise"])
def test_groups_of_channels_are_listed_with_their_loops(tmp_path: object, groups: int, kernels: int) -> None:
    """A group is one of a batch of products; a depth-wise convolution has too few channels for any."""
    listed = to(engine.mappings(conv(tmp_path, group=groups)), MMA)
    made = [mapping for mapping in listed if mapping.state == COMPILED]
    assert len(made) == kernels and len(listed) > 0
    assert all(mapping.state == LISTED and mapping.why_not for mapping in listed if mapping not in made)
    assert all("j" in mapping.outer for mapping in listed)


@pytest.mark.parametrize(
    "row", ["gemv-512x16", "scan-16x512x128", "mean-512x7x7", "variance-512x7x7", "dilated-1024x14x14-512"]
)
def test_published_operators_have_mappings(row: str) -> None:
    plan = engine.fuse(engine.load(f"suite:gta/{row}"))
    assert any(to(engine.mappings(group), MMA) for group in plan.groups)


def test_a_kernel_that_reduces_rows_puts_the_reduced_iterators_on_its_columns(tmp_path: Path) -> None:
    """Planes of a convolution of which the mean is taken: the factors are exchanged, and images stay batches."""
    listed = to(engine.mappings(group_of(means_of_planes(), tmp_path), emulate=True), MMA)
    made = [mapping for mapping in listed if mapping.state == CHECKED]
    assert made and all({"i"} <= set(m.outer) and m.binding.startswith("i = k l, j = j,") for m in made)
    assert all(mapping.why_not for mapping in listed if mapping not in made)


def test_an_iterator_that_an_index_divides_has_kernels_where_both_halves_are_together(tmp_path: Path) -> None:
    """Heads that are merged for the projection behind an attention: depth = 16 * head + element."""
    nodes: list[Node] = [
        ("Transpose", ["x"], ["t"], {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["t", "s"], ["r"], {}),
        ("MatMul", ["r", "w"], ["y"], {}),
    ]
    inputs = {"x": ("float16", (2, 2, 24, 16)), "w": ("float16", (32, 40))}
    path = write_model(tmp_path / "h.onnx", nodes, inputs, ["y"], {"s": np.array([2, 24, 32])})
    listed = to(engine.mappings(of_kind(engine.fuse(engine.load(path))), emulate=True), MMA)
    depths = {mapping.binding.partition(" l = ")[2] for mapping in listed}
    assert depths == {"l.outer l.inner", "l.outer", "l.inner"} and len(listed) == 9
    for mapping in listed:
        is_whole = mapping.binding.endswith("l.outer l.inner")
        assert (mapping.state, mapping.why_not) == (
            (CHECKED, "") if is_whole else (LISTED, "kernels take whole iterators, and this mapping cuts l by 16")
        )


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
