"""Fusion takes time in proportion to the graph."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.fusion import plan as planning
from engine.fusion.stitching.nodes import MOST_STATEMENTS

KINDS = ("Add", "Relu", "Mul", "Sigmoid", "Sub", "Tanh")


def chain(path: Path, length: int, seed: int = 0) -> Path:
    """Element-wise operators, each reading one or two of the last eight results."""
    random = np.random.RandomState(seed)
    names, nodes = ["x", "x"], []
    for at in range(length):
        kind = KINDS[at % len(KINDS)]
        reads = [names[-1]] if kind in ("Relu", "Sigmoid", "Tanh") else [names[-1], names[-random.randint(1, 3)]]
        nodes.append(helper.make_node(kind, reads, [f"t{at}"], name=f"n{at}"))
        names = [*names[-7:], f"t{at}"]
    return save(path, nodes, names[-1])


def layers(path: Path, count: int) -> Path:
    """Layers of a transformer's feed-forward half."""
    x, nodes = "x", []
    for at in range(count):
        h = f"l{at}"
        nodes += [
            helper.make_node("LayerNormalization", [x, "g", "b"], [f"{h}/n"], name=f"{h}/n"),
            helper.make_node("MatMul", [f"{h}/n", "w"], [f"{h}/m"], name=f"{h}/m"),
            helper.make_node("Add", [f"{h}/m", "b"], [f"{h}/a"], name=f"{h}/a"),
            helper.make_node("Relu", [f"{h}/a"], [f"{h}/r"], name=f"{h}/r"),
            helper.make_node("MatMul", [f"{h}/r", "w"], [f"{h}/o"], name=f"{h}/o"),
            helper.make_node("Add", [x, f"{h}/o"], [f"{h}/x"], name=f"{h}/x"),
        ]
        x = f"{h}/x"
    return save(path, nodes, x)


def save(path: Path, nodes: list[onnx.NodeProto], output: str) -> Path:
    ones = np.ones(32, np.float32)
    stored = {"w": np.eye(32, dtype=np.float32), "g": ones, "b": ones}
    weights = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, (16, 32))
    graph = helper.make_graph(nodes, "g", [value], [onnx.ValueInfoProto(name=output)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("make", [chain, layers])
def test_time_grows_with_the_graph_not_with_its_square(make: object, tmp_path: Path) -> None:
    spent = []
    for size in (100, 800):
        graph = engine.load(make(tmp_path / f"{size}.onnx", size))  # type: ignore[operator]
        start = time.process_time()
        engine.fuse(graph)
        spent.append(time.process_time() - start)
    assert spent[1] < 8 * spent[0] * 3, "eight times the operators may take thrice as long each, for noise"


def test_long_chains_are_cut(tmp_path: Path) -> None:
    plan = engine.fuse(engine.load(chain(tmp_path / "m.onnx", 2 * MOST_STATEMENTS + 10)))
    assert len(plan.launches) == 3
    assert max(len(group.program.statements) for group in plan.groups) == MOST_STATEMENTS
    assert any(str(MOST_STATEMENTS) in boundary.because for boundary in plan.boundaries)


def test_equal_layers_share_a_program_and_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The layers have their weights in common, as steps of a recurrence do: here each stays by itself.
    monkeypatch.setattr(planning, "with_recurrent_steps", lambda partition, before, fixed: partition)
    plan = engine.fuse(engine.load(layers(tmp_path / "m.onnx", 5)))
    group = next(g for g in plan.groups if "l3/n" in {op for i in g.instances for op in i.operators})
    own = next(i for i in group.instances if "l3/n" in i.operators)
    assert {"l2/x", "l2/o", "l3/n", "g", "b", "w"} <= set(own.arrays.values())
    assert all(tensor in ("g", "b", "w") or tensor[:2] in ("l1", "l2", "l3") for tensor in own.arrays.values())
    assert set(own.statements.values()) == {"l2/o", "l2/x", "l3/n"}


@pytest.mark.slow(sentinel=False)
@pytest.mark.parametrize(("make", "size"), [(chain, 50_000), (layers, 8_400)])
def test_fifty_thousand_operators(make: object, size: int, tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx", size)  # type: ignore[operator]
    start = time.process_time()
    plan = engine.fuse(engine.load(path))
    assert time.process_time() - start < 15
    assert plan.unsupported == {}
