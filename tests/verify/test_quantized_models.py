"""Whole quantised models beside ONNX Runtime on the file as it stands: codes agree but for one in a thousand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import engine
from engine.execution.reference import input_values
from engine.execution.signed_weights import without_signed_weights
from tests.support.needs import needs_compiler

EXPORTS = Path(__file__).parents[3] / "shared" / "exports"
MODELS = {"resnet18_qdq_int8": "191_scale", "bert_dynquant": ""}
"""File -> the step of a code of its output, "" where that is a number."""
SHARE = 1e-3
"""Of the elements that may be another code."""


def by_runtime(path: Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    model = without_signed_weights(onnx.load(path))  # as a CPU with exact products has it
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return np.asarray(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)[0])


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.skipif(not EXPORTS.is_dir(), reason=f"{EXPORTS} is not here")
@pytest.mark.parametrize("model", MODELS)
def test_results_are_those_of_onnx_runtime(model: str) -> None:
    path = EXPORTS / f"{model}.onnx"
    graph = engine.load(path)
    assert not graph.unsupported
    feeds = {name: value for name, value in input_values(graph, 3).items() if name in graph.inputs}
    plan = engine.fuse(graph)
    (got,) = engine.run(plan, feeds, device="cpu").values()
    expected = by_runtime(path, feeds)
    if MODELS[model]:
        step = float(np.asarray(graph.constants[MODELS[model]].value))
        apart = np.abs(np.rint((got - expected) / step))
        assert apart.max() <= 1 and (apart > 0).mean() <= SHARE
    else:
        off = np.abs(got - expected) / np.abs(expected).max()
        assert (off > 1e-3).mean() <= SHARE and off.max() < 1e-2
