"""Whole models: how far an output may be from the reference's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import engine
from engine.verify import model_run as whole


def peaked(tmp_path: Path) -> engine.OperatorGraph:
    """A softmax over 512 logits far apart: a few probabilities near 1, the others near 0."""
    nodes = [
        helper.make_node("Mul", ["x", "wide"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=-1),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (8, 512)) for n in ("x", "y")]
    wide = helper.make_tensor("wide", TensorProto.FLOAT, (), [40.0])
    graph = helper.make_graph(nodes, "peaked", values[:1], values[1:], [wide])
    path = tmp_path / "peaked.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return engine.load(path)


@pytest.mark.parametrize(("relative", "status"), [(0.5, "pass"), (2.0, "fail")])
def test_an_element_is_judged_by_its_own_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: float, status: str
) -> None:
    """The largest probability is many standard deviations: an error within the tolerance of its size passes."""
    graph = peaked(tmp_path)
    plan = engine.fuse(graph)
    (exact,) = engine.check_model(graph, plan).checks
    assert exact.status == "pass"
    run = whole.run_launch

    def disturbed(*arguments: object, **options: object) -> dict[str, np.ndarray]:
        made = run(*arguments, **options)  # type: ignore[arg-type]
        value = made["y"].reshape(-1)
        assert value.max() > 10 * value.std()
        value[value.argmax()] *= 1 + relative * exact.tolerance
        return made

    monkeypatch.setattr(whole, "run_launch", disturbed)
    (check,) = engine.check_model(graph, plan).checks
    assert check.status == status
    assert check.max_error == pytest.approx(relative * exact.tolerance, rel=0.3)
