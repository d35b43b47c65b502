"""Reductions that no kernel waits for share a launch with the last of their size, as gradients of biases do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.chained_products import chain_of
from tests.semantics.single import Node, write_model

TRAINING = Path(__file__).parents[3] / "shared" / "training" / "bert_2l_adamw.onnx"
LAYERS: list[Node] = [
    ("ReduceSum", ["x", "rows"], ["a"], {"keepdims": 0}), ("MatMul", ["x", "w"], ["h"], {}),
    ("MatMul", ["h", "w"], ["g"], {}), ("ReduceSum", ["g", "rows"], ["b"], {"keepdims": 0}),
]  # fmt: skip


def homes(folder: Path, *more: Node, outputs: tuple[str, ...], width: int = 256) -> dict[str, str]:
    """The group of each operator.  width: columns of x that "c" sums up."""
    inputs = {"x": ("float32", (1024, 256)), "w": ("float32", (256, 256)), "u": ("float32", (1024, width))}
    path = write_model(folder / "m.onnx", [*LAYERS, *more], inputs, outputs, {"rows": np.array([0])})
    return {op: group.name for group in engine.fuse(engine.load(path)).groups for op in group.instances[0].operators}


def test_sums_of_two_layers_share_a_launch(tmp_path: Path) -> None:
    found = homes(tmp_path, outputs=("a", "b", "g"))
    assert found["n0"] == found["n3"]


def test_a_sum_that_a_kernel_waits_for_does_not_wait(tmp_path: Path) -> None:
    more: list[Node] = [("Mul", ["x", "a"], ["s"], {}), ("MatMul", ["s", "w"], ["z"], {})]
    found = homes(tmp_path, *more, outputs=("z", "b", "g"))
    assert found["n0"] != found["n3"]


def test_sums_of_other_sizes_do_not_wait(tmp_path: Path) -> None:
    more: list[Node] = [("ReduceSum", ["u", "rows"], ["c"], {"keepdims": 0})]
    found = homes(tmp_path, *more, outputs=("a", "b", "c", "g"), width=8)
    assert found["n0"] == found["n3"] != found["n4"]


@pytest.mark.slow(sentinel=True)
@pytest.mark.skipif(not TRAINING.is_file(), reason=f"{TRAINING} is absent: the real graphs are not shipped")
@pytest.mark.parametrize(("target", "launches"), [("h100", 52), ("a100", 53)])
def test_a_training_step(target: str, launches: int) -> None:
    """Both layers' attention is one kernel each, which stores what the backward pass reads; the gradient of its softmax
    is made by the product that it is about, not by a launch that sums up biases."""
    plan = engine.fuse(engine.load(TRAINING), target)
    (forward,) = [group for group in plan.groups if group.kind == "chained products"]
    assert len(forward.instances) == 2
    assert len(chain_of(forward.program).between) == 8
    product = next(g for g in plan.groups if any("node_bmm_5" in i.operators for i in g.instances))
    assert "node_sum_24" in {op for i in product.instances for op in i.operators}
    assert len(plan.launches) == launches
