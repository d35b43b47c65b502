"""Kernels that each fill a part of one output: accepted when the parts fit together, refused when one is off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.api import group_values
from engine.tensor.index import Index
from engine.tile.source import CudaSource
from engine.verify.footprint import own_part, partition_faults
from engine.verify.kernel import check_kernel, wrong_result
from engine.verify.model import check_model


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionPlan:
    """x w [2, 4] beside y v [2, 8]: two launches, one output, neither part of which is contiguous."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["y", "v"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["z"], axis=1),
    ]
    shapes = {"x": (2, 3), "w": (3, 4), "y": (2, 5), "v": (5, 8), "z": (2, 12)}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
    graph = helper.make_graph(nodes, "parts", [infos[name] for name in "xwyv"], [infos["z"]])
    path = Path(tmp_path_factory.mktemp("parts")) / "parts.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return engine.fuse(engine.load(path))


@pytest.fixture(scope="module")
def kernels(plan: engine.FusionPlan) -> list[engine.Kernel]:
    """The two that write z, left part first."""
    found = [engine.compile(g) for g in plan.groups if g.instances[0].arrays[g.program.outputs[0]] == "z"]
    return sorted(found, key=lambda k: not part(k)[0])


def part(kernel: engine.Kernel) -> np.ndarray:
    return own_part(kernel.group.program, kernel.group.program.outputs[0])


def moved(source: CudaSource, by: int) -> CudaSource:
    """Index maps that say another place than the text."""
    shifted = tuple(replace(f, position=f.position + by) for f in source.footprints)
    return replace(source, footprints=shifted)


def test_the_parts_are_disjoint_and_fill_the_output(kernels: list[engine.Kernel]) -> None:
    left, right = kernels
    assert part(left).tolist() == 2 * ([True] * 4 + [False] * 8)
    assert (part(left) ^ part(right)).all()


def test_what_another_kernel_writes_is_not_missed(kernels: list[engine.Kernel]) -> None:
    for kernel in kernels:
        report = engine.check(kernel)
        assert report.status == "pass", report.message
        assert report.elements_compared == len(report.orders) * part(kernel).sum()


def test_a_part_at_the_wrong_place_is_named(kernels: list[engine.Kernel]) -> None:
    left, right = kernels
    for kernel, by, kind in ((left, 2, "not written"), (right, -2, "not written"), (right, 2, "out of bounds")):
        (fault,) = partition_faults(moved(kernel.source, by), kernel.group.program)
        assert fault.kind == kind
    assert not partition_faults(right.source, right.group.program)


def test_a_store_into_another_kernels_part_is_named(kernels: list[engine.Kernel]) -> None:
    left, _ = kernels
    (footprint,) = left.source.footprints
    both = replace(left.source, footprints=(footprint, replace(footprint, position=footprint.position + 8)))
    (fault,) = partition_faults(both, left.group.program)
    assert (fault.kind, fault.message) == ("written twice", "element 8 of z is written, and belongs to another kernel")


def test_a_missing_element_of_the_own_part_is_named(kernels: list[engine.Kernel]) -> None:
    left, _ = kernels
    (footprint,) = left.source.footprints
    guarded = replace(footprint, guards=(*footprint.guards, Index((), 6) - footprint.position))
    (fault,) = partition_faults(replace(left.source, footprints=(guarded,)), left.group.program)
    assert (fault.kind, fault.message) == ("not written", "element 12 of z is written by no block")


def test_a_wrong_value_inside_the_part_is_found(kernels: list[engine.Kernel]) -> None:
    for kernel in kernels:
        expected, before = group_values(kernel.group)
        output = kernel.group.program.outputs[0]
        inside, outside = expected[output].copy(), expected[output].copy()
        inside.reshape(-1)[part(kernel).argmax()] += 1
        outside.reshape(-1)[(~part(kernel)).argmax()] = np.nan
        assert check_kernel(kernel, {**expected, output: inside}, before).status == "fail"
        assert wrong_result(kernel, {output: inside}, expected)
        assert not wrong_result(kernel, {output: outside}, expected)


def test_a_whole_run_keeps_what_earlier_launches_wrote(plan: engine.FusionPlan) -> None:
    recipe = engine.default_recipe(plan)
    *before, one, other = plan.launches
    assert check_model(plan, recipe).status == "pass"
    assert check_model(replace(plan, launches=(*before, other, one)), recipe).status == "pass"
    (check,) = check_model(replace(plan, launches=(*before, other)), recipe).checks
    assert check.status == "fail"
