"""Loops cut at the seams of slices and groups: digits of indices, and the kernels that they make possible."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import engine
from engine.fusion.axis_splitting import digits
from engine.tensor.index import Index
from tests.fusion.test_narrow import model
from tests.support.needs import needs_compiler

A, B, C = (Index.of(name) for name in "abc")
EXTENTS = {"a": 4, "b": 6, "c": 3}


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (A, {"a": 1}),
        (A + 8, {"a": 1}),
        (A + 7, {}),
        (B * 4 + A, {"a": 1, "b": 4}),
        (B * 4 + A + 24, {"a": 1, "b": 4}),
        (B * 3 + A, {}),
        (B * 8 + A + 4, {"a": 1, "b": 8}),
        (B * 8 + A + 5, {}),
        (B * 12 + A * 3 + C, {"a": 3, "b": 12, "c": 1}),
        (A * -1 + 3, {}),
        (B.floordiv(2, EXTENTS) * 4 + A, {"a": 1}),
    ],
    ids=str,
)
def test_digits_are_those_of_mixed_radix_numbers(index: Index, found: dict[str, int]) -> None:
    assert digits(index, EXTENTS) == found


@pytest.mark.parametrize("seed", range(40))
def test_digits_can_be_read_off_every_point(seed: int) -> None:
    draw = random.Random(seed)
    factors = {name: draw.choice([1, 1, 2, 3, 4, 6, 12, 24]) for name in draw.sample("abc", 2)}
    constant = draw.randrange(30)
    index = Index.sum(factors.items(), constant)
    for values in itertools.product(*(range(n) for n in EXTENTS.values())):
        point = dict(zip(EXTENTS, values, strict=True))
        number = constant + sum(point[name] * factor for name, factor in factors.items())
        for name, place in digits(index, EXTENTS).items():
            assert number // place % EXTENTS[name] == point[name], (str(index), name)


def cell(path: Path, vectors: int, units: int = 12, gates: int = 3, overlap: bool = False) -> Path:
    """gates(x @ w): products of slices of one matrix product, side by side or overlapping."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    for gate in range(gates):
        start = gate * units - (gate if overlap else 0)
        for name, value in (("s", start), ("e", start + units), ("a", 1)):
            constant = numpy_helper.from_array(np.array([value], np.int64))
            nodes.append(helper.make_node("Constant", [], [f"{name}{gate}"], value=constant))
        nodes.append(helper.make_node("Slice", ["z", f"s{gate}", f"e{gate}", f"a{gate}"], [f"z{gate}"]))
        nodes.append(helper.make_node("Sigmoid", [f"z{gate}"], [f"g{gate}"]))
    nodes.append(helper.make_node("Sum", [f"g{gate}" for gate in range(gates)], ["y"]))
    onnx.checker.check_node(nodes[0])
    return model(path, nodes, {"x": (vectors, 40), "w": (40, gates * units)}, ["y"])


@needs_compiler
@pytest.mark.parametrize("policy", ["none", "xla", "stitch"])
@pytest.mark.parametrize("vectors", [2, 8])
def test_a_product_with_few_vectors_takes_in_its_gates_under_every_policy(
    vectors: int, policy: str, tmp_path: Path
) -> None:
    graph = engine.load(cell(tmp_path / "m.onnx", vectors))
    plan = engine.fuse(graph, policy=policy)
    assert [len(g.program.statements) > 1 for g in plan.groups] == [True]
    assert engine.check_model(graph, plan).status == "pass"


@needs_compiler
@pytest.mark.parametrize(("vectors", "overlap"), [(33, False), (2, True)], ids=["many vectors", "slices overlap"])
def test_what_tiles_are_for_and_what_lies_across_stays_apart(vectors: int, overlap: bool, tmp_path: Path) -> None:
    """Slices that overlap need the whole result of a vector, which is more than one block should compute."""
    graph = engine.load(cell(tmp_path / "m.onnx", vectors, units=300, overlap=overlap))
    plan = engine.fuse(graph)
    assert len(plan.launches) == 2
    assert engine.check_model(graph, plan).status == "pass"


@needs_compiler
def test_an_image_takes_in_what_is_done_to_its_points_as_a_list(tmp_path: Path) -> None:
    """A depth-wise convolution, and the activation behind a reshape and a transposition."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], group=6, pads=[1, 1, 1, 1]),
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array([1, 6, 20], np.int64))),
        helper.make_node("Reshape", ["c", "s"], ["l"]),
        helper.make_node("Transpose", ["l"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Erf", ["t"], ["y"]),
    ]
    graph = engine.load(model(tmp_path / "m.onnx", nodes, {"x": (1, 6, 4, 5), "w": (6, 1, 3, 3)}, ["y"]))
    plan = engine.fuse(graph)
    assert [g.title for g in plan.groups if "erf" in g.title and "conv" in g.title]
    assert engine.check_model(graph, plan).status == "pass"


def reshaped(path: Path, images: int, points: int, result_too: bool = False) -> Path:
    """relu(x @ w as images + b), where x is one long list of points."""
    shape = numpy_helper.from_array(np.array([images, points, 24]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Constant", [], ["s"], value=shape),
        helper.make_node("Reshape", ["z", "s"], ["t"]),
        helper.make_node("Add", ["t", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    shapes = {"x": (images * points, 40), "w": (40, 24), "b": (points, 1)}
    return model(path, nodes, shapes, ["y", "z"] if result_too else ["y"])


@needs_compiler
@pytest.mark.parametrize(
    ("images", "points", "result_too", "kernels"),
    [(5, 32, False, 1), (3, 40, False, 1), (20, 8, False, 1), (5, 32, True, 1)],
    ids=["images", "ragged", "narrow images", "the result is wanted too"],
)
def test_what_follows_a_reshape_is_computed_in_the_tiles(
    images: int, points: int, result_too: bool, kernels: int, tmp_path: Path
) -> None:
    graph = engine.load(reshaped(tmp_path / "m.onnx", images, points, result_too))
    plan = engine.fuse(graph)
    assert len(plan.launches) == kernels
    assert engine.check_model(graph, plan).status == "pass"


def test_channels_of_a_group_norm_are_cut_before_the_rows_inside_them(tmp_path: Path) -> None:
    """Cut at rows of 32 first, each block of the kernel would keep every group: 2 MB, and it cannot be generated."""
    shapes = {"g": [1, 32, 8192], "p": [256, 32, 32]}
    nodes = [
        helper.make_node("Constant", [], [f"{n}_shape"], value=numpy_helper.from_array(np.array(shape, np.int64)))
        for n, shape in shapes.items()
    ]
    nodes += [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "p_shape"], ["p"]),
        helper.make_node("Add", ["p", "r"], ["a"]),
        helper.make_node("Reshape", ["a", "g_shape"], ["g"]),
        helper.make_node("InstanceNormalization", ["g", "s", "b"], ["n"]),
        helper.make_node("Reshape", ["n", "p_shape"], ["q"]),
        helper.make_node("Mul", ["q", "w"], ["m"]),
        helper.make_node("Sigmoid", ["m"], ["y"]),
    ]
    inputs = {"x": (1024, 256), "r": (256, 32, 32), "s": (32,), "b": (32,), "w": (256, 1, 1)}
    (group,) = engine.fuse(engine.load(model(tmp_path / "m.onnx", nodes, inputs, ["y"]))).groups
    assert engine.compile(group).source.grid == (32, 1, 1)


@needs_compiler
def test_a_factor_of_an_array_and_a_number_is_computed_before_the_product(tmp_path: Path) -> None:
    """A tile is copied from one array; the number is not known when its elements are."""
    nodes = [
        helper.make_node("Min", ["x", "s"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["p"]),
        helper.make_node("Tanh", ["p"], ["y"]),
    ]
    graph = engine.load(model(tmp_path / "m.onnx", nodes, {"x": (20, 31), "s": (), "w": (31, 24)}, ["y"]))
    plan = engine.fuse(graph)
    assert sorted(group.kind for group in plan.groups) == ["contraction", "element-wise"]
    assert engine.check_model(graph, plan).status == "pass"
