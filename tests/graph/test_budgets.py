"""Small files that ask for endless work: refused, left out by name, or done in time that grows with their size."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.graph.load import load
from engine.support.errors import BadInput
from tests.graph.models import FLOAT, model, node, save

INTEGERS = {"start": np.array(0), "step": np.array(1)}


def ranged(limit: int, step: int = 1) -> onnx.ModelProto:
    """x + range(0, limit, step)."""
    nodes = [node("Range", "start limit step", "r"), node("Cast", "r", "f", to=FLOAT), node("Add", "x f", "y")]
    return model(nodes, {"x": (1,)}, ["y"], {**INTEGERS, "limit": np.array(limit), "step": np.array(step)})


@pytest.mark.parametrize(("proto", "words"), [(ranged(10**12), "1000000000000 elements"), (ranged(5, 0), "Range of 0")])
def test_a_range_without_end_is_refused_before_it_is_made(proto: onnx.ModelProto, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        load(save(tmp_path / "m.onnx", proto))


def test_what_is_large_stays_an_operator(tmp_path: Path) -> None:
    """A range and a tile that would take gigabytes are not computed while the file is read; small ones are."""
    assert [op.kind for op in load(save(tmp_path / "m.onnx", ranged(2**31))).operators] == ["Range", "Cast", "Add"]
    assert [op.kind for op in load(save(tmp_path / "s.onnx", ranged(8))).operators] == ["Add"]
    nodes = [node("Tile", "c n", "t"), node("Add", "x t", "y")]
    large = model(nodes, {"x": (1,)}, ["y"], {"c": np.ones(1, np.float32), "n": np.array([10**9])})
    assert [op.kind for op in load(save(tmp_path / "t.onnx", large)).operators] == ["Tile", "Add"]


@pytest.mark.parametrize(("groups", "equation"), [(0, "ab->ab"), (1, "ab->((("), (1, "ab->aa"), (1, "ab->ac")])
def test_attributes_that_cannot_be_meant_are_refused(groups: int, equation: str, tmp_path: Path) -> None:
    weight = {"w": np.zeros((4, 4, 3, 3), np.float32)}
    proto = model([node("Conv", "x w", "y", group=groups)], {"x": (1, 4, 8, 8)}, ["y"], weight)
    if groups:
        engine.fuse(load(save(tmp_path / "sound.onnx", proto)))
        proto = model([node("Einsum", "x", "y", equation=equation)], {"x": (4, 4)}, ["y"])
    with pytest.raises(BadInput, match="operator node_y"):
        engine.fuse(load(save(tmp_path / "m.onnx", proto)))


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["Sum", "Max", "Mean", "Concat"])
def test_operators_take_thousands_of_operands(kind: str, tmp_path: Path) -> None:
    names = [f"x{at}" for at in range(1500)]
    proto = model([node(kind, " ".join(names), "y", **({"axis": 0} if kind == "Concat" else {}))],
                  dict.fromkeys(names, (4,)), ["y"])  # fmt: skip
    plan = engine.fuse(load(save(tmp_path / "m.onnx", proto)))
    assert not plan.unsupported
    assert engine.compile(plan.groups[0], engine.default_recipe(plan.groups[0])).source.text


def chain(count: int) -> onnx.ModelProto:
    """Reshapes and transposes in turn: each doubles the divisions of an element's place."""
    names = ["x", *(f"t{at}" for at in range(count))]
    nodes = []
    for at, (before, after) in enumerate(pairwise(names)):
        nodes += [node("Reshape", f"{before} s{at % 2}", f"r{at}"), node("Transpose", f"r{at}", after, perm=[1, 0])]
    nodes.append(node("Relu", names[-1], "y"))
    return model(nodes, {"x": (6, 35)}, ["y"], {"s0": np.array([10, 21]), "s1": np.array([14, 15])})


def test_a_chain_of_reshapes_takes_time_by_its_length(tmp_path: Path) -> None:
    start = time.process_time()
    plan = engine.fuse(load(save(tmp_path / "m.onnx", chain(60))))
    kernels = [engine.compile(group) for group in plan.groups]
    assert time.process_time() - start < 20
    assert all(kernel.source.text for kernel in kernels)
    reads = [access for group in plan.groups for s in group.program.statements for access in s.reads()]
    assert max(index.divisions for access in reads for index in access.indices) <= 64
    short = engine.fuse(load(save(tmp_path / "s.onnx", chain(3))))
    assert [len(group.program.statements) for group in short.groups] == [1], "few are read through"


def scrambled(count: int) -> onnx.ModelProto:
    """The same with three axes in any order: places that have several divisions of sums."""
    rng = np.random.default_rng(1)
    shapes = [[6, 35, 22], [15, 14, 22], [10, 21, 22], [30, 7, 22], [42, 5, 22], [70, 3, 22], [11, 20, 21]]
    nodes, constants, last = [], {}, "x"
    for at in range(count):
        constants[f"s{at}"] = np.array(shapes[rng.integers(len(shapes))])
        order = [int(axis) for axis in rng.permutation(3)]
        nodes += [node("Reshape", f"{last} s{at}", f"r{at}"), node("Transpose", f"r{at}", f"t{at}", perm=order)]
        last = f"t{at}"
    return model([*nodes, node("Relu", last, "y")], {"x": (6, 35, 22)}, ["y"], constants)


@pytest.mark.slow(sentinel=True)
@pytest.mark.timeout(120)
def test_dependences_of_scrambled_places_are_found_in_seconds(tmp_path: Path) -> None:
    plan = engine.fuse(load(save(tmp_path / "m.onnx", scrambled(22))))
    start = time.process_time()
    kernels = [engine.compile(group) for group in plan.groups]
    assert time.process_time() - start < 20
    assert all(engine.check(kernel).status == "pass" for kernel in kernels)


def scanned(count: int, steps: int) -> onnx.ModelProto:
    """Running sums, one after the other in the file."""
    row = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("s", "e", "o", "p")]
    body = [helper.make_node("Add", ["s", "e"], ["o"]), helper.make_node("Identity", ["o"], ["p"])]
    graph = helper.make_graph(body, "body", row[:2], row[2:])
    nodes = [node("Scan", "i x", f"f{at} g{at}", body=graph, num_scan_inputs=1) for at in range(count)]
    return model(nodes, {"i": (2,), "x": (steps, 2)}, [f"g{at}" for at in range(count)])


def test_scans_of_a_file_have_one_budget(tmp_path: Path) -> None:
    few = load(save(tmp_path / "few.onnx", scanned(2, 20)))
    assert not few.unsupported and all(op.kind != "Scan" for op in few.operators)
    many = load(save(tmp_path / "many.onnx", scanned(20, 1500)))
    assert sum(op.kind == "Scan" for op in many.operators) == 19
    assert all("takes 1500 steps, 6000 operators" in reason for reason in many.unsupported.values())


def test_recurrent_layers_have_one_budget(tmp_path: Path) -> None:
    def unsupported(steps: int) -> list[str]:
        weights = {"w": np.zeros((1, 16, 4), np.float32), "r": np.zeros((1, 16, 4), np.float32)}
        proto = model([node("LSTM", "x w r", "y", hidden_size=4)], {"x": (steps, 1, 4)}, ["y"], weights)
        return list(engine.fuse(load(save(tmp_path / "m.onnx", proto))).unsupported.values())

    assert unsupported(3) == []
    assert unsupported(5000) == ["takes 5000 steps one after the other; 750 of a graph are compiled"]


@pytest.mark.slow(sentinel=True)
def test_ten_thousand_outputs_load_quickly(tmp_path: Path) -> None:
    names = [f"y{at}" for at in range(10_000)]
    path = save(tmp_path / "m.onnx", model([node("Relu", "x", name) for name in names], {"x": (4,)}, names))
    start = time.process_time()
    assert len(load(path).outputs) == len(names)
    assert time.process_time() - start < 6


def test_an_input_that_stands_twice_is_refused(tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")], {"x": (4,)}, ["y"])
    assert load(save(tmp_path / "m.onnx", proto)).inputs == ("x",)
    proto.graph.input.append(helper.make_tensor_value_info("x", FLOAT, (8,)))
    with pytest.raises(BadInput, match="input x: stands twice"):
        load(save(tmp_path / "m.onnx", proto))


def test_weights_that_no_file_holds_are_told_as_what_they_are(tmp_path: Path) -> None:
    def outside(location: str, length: str = "16") -> onnx.ModelProto:
        proto = model([node("Add", "x w", "y")], {"x": (4,)}, ["y"])
        weight = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=location)
        weight.external_data.add(key="length", value=length)
        return proto

    (tmp_path / "w.bin").write_bytes(bytes(64))
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert load(save(tmp_path / "m.onnx", outside("w.bin"))).constants["w"].value is not None
    for location, length, words in (("a", "16", "leads nowhere"), ("w.bin", "8", "length of 8 bytes; .* need 16")):
        with pytest.raises(BadInput, match=rf"tensor w: .*{words}"):
            load(save(tmp_path / "m.onnx", outside(location, length)))
    damaged = tmp_path / "d.onnx"
    damaged.write_bytes(outside("QQQQ").SerializeToString().replace(b"QQQQ", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(BadInput, match=r"tensor w: .*is no file name"):
        load(damaged)
