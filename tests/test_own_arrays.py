"""`engine.run` on the caller's arrays: kernels and plans, against NumPy and the reference; what cannot be meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine.execution import measure
from engine.execution.measure import MeasureJob, Measurement
from engine.execution.nodes import MEASURED, Failure, Timing
from engine.execution.reference import reference_values
from engine.support.errors import BadInput, Fault, MissingCapability
from engine.verify import run as running
from engine.verify import values
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

MODELS = Path(__file__).parents[1] / "resources/models"
SEED = 7


def kernel_of(model: str, number: int = 0) -> engine.Kernel:
    return engine.compile(engine.fuse(engine.load(MODELS / f"{model}.onnx")).groups[number])


@needs_compiler
def test_a_kernel_runs_on_arrays_of_the_caller() -> None:
    kernel = kernel_of("softmax_96x512")
    (name,) = kernel.group.instances[0].arrays[kernel.group.program.inputs[0]],
    x = np.random.default_rng(SEED).standard_normal((96, 512), "float32") * 4
    found = engine.run(kernel, {name: x}, device="cpu")
    assert found.origin == "emulated"
    (y,) = found.values()
    expected = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(-1, keepdims=True), rtol=2e-6, atol=1e-9)
    strided = np.asfortranarray(x)
    np.testing.assert_array_equal(engine.run(kernel, {name: strided}, device="cpu")[next(iter(found))], y)


@needs_compiler
def test_names_of_the_program_and_of_the_graph_mean_the_same() -> None:
    kernel = kernel_of("bert_tiny", 1)
    own = engine.inputs(kernel, SEED)
    tensors = kernel.group.instances[0].arrays
    graph = kernel.group.graph
    assert graph is not None
    theirs = {tensors[n]: v.reshape(graph.tensors[tensors[n]].shape) for n, v in own.items()}
    a, b = engine.run(kernel, own, device="cpu"), engine.run(kernel, theirs, device="cpu")
    assert a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)
    free = {name: value for name, value in theirs.items() if name not in graph.constants}
    assert len(free) < len(theirs), "the weights are the graph's"
    # Weights that are left out are those of seed 0.
    zero = {tensors[n]: v for n, v in engine.inputs(kernel, 0).items()}
    whole = {name: zero[name].reshape(graph.tensors[name].shape) for name in theirs}
    alone = {name: whole[name] for name in free}
    c, d = engine.run(kernel, whole, device="cpu"), engine.run(kernel, alone, device="cpu")
    assert all((c[name] == d[name]).all() for name in c)


@needs_compiler
def test_a_plan_runs_all_launches() -> None:
    graph = engine.load(MODELS / "bert_tiny.onnx")
    plan = engine.fuse(graph)
    found = engine.run(plan, engine.inputs(plan), device="cpu")
    expected = reference_values(graph, 0, graph.outputs)
    assert list(found) == list(graph.outputs) and found.origin == "emulated"
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda given: {}, "has no value"),
        (lambda given: {**given, "other": np.ones(3)}, "other: is no input of softmax_0"),
        (lambda given: {name: value[:5] for name, value in given.items()}, r"has shape \[5, 512\], \[96, 512\]"),
        (lambda given: {name: value.astype("float64") for name, value in given.items()}, "is float64, float32 is"),
    ],
)
def test_arrays_that_do_not_fit_are_told(change: Callable[[Any], Any], says: str) -> None:
    kernel = kernel_of("softmax_96x512")
    with pytest.raises(BadInput, match=says):
        engine.run(kernel, change(engine.inputs(kernel)), device="cpu")
    plan = engine.fuse(engine.load(MODELS / "softmax_96x512.onnx"))
    with pytest.raises(BadInput, match=says.replace("softmax_0", plan.graph)):
        engine.run(plan, change(engine.inputs(plan)), device="cpu")


def test_a_device_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of("softmax_96x512")
    with pytest.raises(BadInput, match="device tpu: is not known"):
        engine.run(kernel, engine.inputs(kernel), device="tpu")
    monkeypatch.setattr(measure.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingCapability, match="PyCUDA is not installed"):
        engine.run(kernel, engine.inputs(kernel), device="gpu")


@needs_compiler
@needs_nvrtc
def test_a_gpu_runs_the_compiled_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU of the test's: it is given the machine code and the arrays, and its name is the origin."""
    kernel = kernel_of("softmax_96x512")
    given = engine.inputs(kernel)
    right = engine.run(kernel, given, device="cpu")
    asked: list[tuple[int, int]] = []

    def on_gpu(jobs: list[MeasureJob], *, rounds: int, samples: int, **_: Any) -> Any:
        asked.append((rounds, samples))
        assert jobs[0].compiled.cubin and jobs[0].source == kernel.source
        name = kernel.source.buffers[-1].array
        return (Measurement(Timing(MEASURED, 1.0), {name: next(iter(right.values())).reshape(-1) + 1}),)

    monkeypatch.setattr(running, "gpu_name", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(running.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(running, "measure_kernels", on_gpu)
    found = engine.run(kernel, given)
    assert found.origin == "NVIDIA H100 80GB HBM3" and asked == [(1, 1)]
    assert all((found[name] == right[name] + 1).all() for name in right)
    monkeypatch.setattr(running, "measure_kernels", lambda *_, **__: Failure("hang", "no answer"))
    with pytest.raises(Fault, match="hang: no answer"):
        engine.run(kernel, given)


def test_values_of_a_group_take_no_second_lowering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a long sum are no tensors of the graph: its program makes them."""
    nodes: list[Node] = [("ReduceMean", ["x", "axes"], ["y"], {}), ("Sub", ["x", "y"], ["z"], {})]
    path = write_model(tmp_path / "long.onnx", nodes, {"x": ("float32", (1, 1 << 22))}, ["z"], {"axes": np.array([1])})
    graph = engine.load(path)
    plan = engine.fuse(graph)
    parts = {name for group in plan.groups for name in group.instances[0].arrays.values()} - graph.tensors.keys()
    assert len(plan.groups) > 1 and parts, "the sum is made in parts"
    calls: list[int] = []
    monkeypatch.setattr(values, "lower_supported", lambda graph: calls.append(1))
    for group in plan.groups:
        assert engine.inputs(engine.compile(group))
    assert not calls
