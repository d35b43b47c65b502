"""Modules, the backend of `torch.compile` and exported programs, against PyTorch's own results on the CPU."""

from __future__ import annotations

import copy
import importlib.util
import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.support.errors import BadInput, MissingCapability, Unsupported
from tests.support.needs import needs_compiler

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
from engine.pytorch import backend  # noqa: E402
from engine.pytorch import module as modules  # noqa: E402
from engine.pytorch.tensors import to_array, to_tensor  # noqa: E402

pytestmark = [pytest.mark.torch, needs_compiler]
MODELS = Path(__file__).parents[2] / "resources/models"


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A feed-forward block with a second result; `extra` is applied in its middle."""

    def __init__(self, extra: Callable[[Any], Any] = lambda x: x) -> None:
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64), torch.nn.LayerNorm(64)
        self.extra = extra

    def forward(self, x: Any, residual: Any) -> tuple[Any, Any]:
        hidden = self.extra(torch.nn.functional.gelu(self.up(x)))
        y = self.norm(self.down(hidden) + residual)
        return y, y.sum(-1)


def block(extra: Callable[[Any], Any] = lambda x: x) -> tuple[Any, tuple[Any, Any]]:
    torch.manual_seed(5)
    return Block(extra).eval(), (torch.randn(24, 64), torch.randn(24, 64))


def scaled(x: Any) -> Any:
    """Something with a determinant, which no kernel computes."""
    return x * torch.logdet(x[:, :24] @ x[:, :24].t() + torch.eye(24))


def close(found: Any, wanted: Any, tolerance: float = 2e-5) -> bool:
    return bool(torch.allclose(found, wanted, rtol=tolerance, atol=tolerance))


def test_an_exported_program_is_a_graph_and_its_plan_an_operator() -> None:
    model, inputs = block()
    graph = engine.from_torch(torch.export.export(model, inputs))
    assert graph.inputs == ("x", "residual") and "LayerNormalization" in {op.kind for op in graph.operators}
    op = engine.torch_op(engine.fuse(graph))
    assert len(list(op.buffers())) == len(graph.constants) >= 6
    wanted = model(*inputs)
    for found in (op(*inputs), op(inputs[0], residual=inputs[1]), op(**dict(zip(graph.inputs, inputs, strict=True)))):
        assert len(found) == 2 and close(found[0], wanted[0]) and close(found[1], wanted[1], 1e-4)


def test_sizes_of_dynamic_dimensions_are_given() -> None:
    model, inputs = block()
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(model, inputs, dynamic_shapes=({0: rows}, {0: rows}))
    with pytest.raises(BadInput, match="has no size") as told:
        engine.from_torch(program)
    found = re.search(r"dimension (\w+) has no size", str(told.value))
    assert found, "PyTorch numbers its dimensions: the message says their names"
    assert engine.from_torch(program, dims={found[1]: 8}).tensors["x"].shape == (8, 64)


def test_what_is_no_exported_program_is_told() -> None:
    with pytest.raises(BadInput, match=r"No ONNX function found for .*prod"):
        engine.from_torch(torch.export.export(*block(lambda x: torch.cumprod(x, -1))))
    with pytest.raises(BadInput, match=r"Linear: is no torch.export.ExportedProgram"):
        engine.from_torch(torch.nn.Linear(2, 2))


def test_a_program_that_updates_tensors_is_refused() -> None:
    """Its file would have the results alone, and a batch normalization in training as one of inference."""
    model, inputs = torch.nn.BatchNorm1d(8), (torch.randn(16, 8),)
    with pytest.raises(Unsupported, match=r"running_mean: is updated in place.*model\.eval\(\)"):
        engine.from_torch(torch.export.export(model, inputs))
    graph = engine.from_torch(torch.export.export(model.eval(), inputs))
    assert close(engine.torch_op(engine.fuse(graph))(*inputs), model(*inputs))


@pytest.mark.parametrize("package", ["torch", "onnxscript"])
def test_a_missing_package_is_told(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingCapability, match=rf"{package}: is not installed .*loomscope\[torch\]"):
        engine.from_torch(None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_are_arrays_and_back(dtype: str) -> None:
    tensor = torch.randn(6, 10).to(getattr(torch, dtype)).t()
    array = to_array(tensor)
    assert array.dtype.name == dtype and array.shape == (10, 6)
    assert torch.equal(to_tensor(array), tensor)
    array.flags.writeable = False
    assert torch.equal(to_tensor(array), tensor)


def test_tensors_that_do_not_fit_are_told() -> None:
    op = engine.torch_op(engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")))
    (name,) = op.graph.inputs
    x = torch.randn(96, 512)
    assert close(op(x), torch.softmax(x, -1))
    with pytest.raises(BadInput, match="has no value"):
        op()
    with pytest.raises(BadInput, match="each once"):
        op(x, **{name: x})
    with pytest.raises(BadInput, match=r"has shape \[4, 512\]"):
        op(x[:4])
    with pytest.raises(BadInput, match="is float64"):
        op(x.double())
    with pytest.raises(BadInput, match="is no input"):
        op(x, other=x)


def test_an_operator_stands_in_a_compiled_model() -> None:
    """PyTorch compiles what is around it and calls it as it is."""
    torch.compiler.reset()
    op = engine.torch_op(engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")))
    x = torch.randn(96, 512)
    model = torch.compile(lambda x: op(x * 2) + 1, backend="eager")
    with torch.no_grad():
        assert close(model(x), torch.softmax(x * 2, -1) + 1)


def test_what_no_module_can_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = block(scaled)
    plan = engine.fuse(engine.from_torch(torch.export.export(model, inputs)))
    with pytest.raises(Unsupported, match="torch_backend leaves such operators"):
        engine.torch_op(plan)


class EmulatedOperator:
    """Stands for a kernel on a GPU: takes and gives tensors as `TorchOperator` does."""

    def __init__(self, kernel: engine.Kernel) -> None:
        self._kernel = kernel
        rows = [{"name": one.array, "read": one.read, "written": one.written} for one in kernel.source.buffers]
        self.reads, self.writes = [r for r in rows if r["read"]], [r for r in rows if r["written"]]

    def __call__(self, *tensors: Any) -> Any:
        given = {row["name"]: to_array(tensor) for row, tensor in zip(self.reads, tensors, strict=True)}
        _, outputs, _ = emulate(self._kernel.source, given, checked=False)
        found = tuple(to_tensor(outputs[row["name"]]) for row in self.writes)
        return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("model", ["bert_tiny", "layernorm_64x768", "transpose_2x12x64x64"])
def test_launches_on_a_gpu_pass_tensors_on(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's path with emulated kernels in place of machine code."""
    plan = engine.fuse(engine.load(MODELS / f"{model}.onnx"))
    op = engine.torch_op(plan)
    inputs = [to_tensor(value) for value in engine.inputs(plan).values()]
    wanted = op(*inputs)
    monkeypatch.setattr(modules, "DEVICE", "cpu")
    monkeypatch.setattr(modules, "CPU", "none")
    monkeypatch.setattr(op, "_operators", {name: EmulatedOperator(k) for name, k in op._kernels.items()})
    found = op(*inputs)
    pairs = zip(*((one if isinstance(one, tuple) else (one,)) for one in (found, wanted)), strict=True)
    assert all(torch.equal(a, b) and a.shape == b.shape for a, b in pairs)
    with pytest.raises(BadInput, match="declared"):
        op(inputs[0][..., :1], *inputs[1:])


def test_the_backend_takes_a_whole_graph(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = block()
    compiled = torch.compile(model, backend=engine.torch_backend)
    with caplog.at_level(logging.INFO, "loomscope.torch"), torch.no_grad():
        found, wanted = compiled(*inputs), model(*inputs)
        again = compiled(*(2 * one for one in inputs))[0]
        assert close(again, model(*(2 * one for one in inputs))[0])
    assert close(found[0], wanted[0]) and close(found[1], wanted[1], 1e-4)
    assert any("kernels" in line for line in caplog.messages)
    assert not any("left to PyTorch" in line for line in caplog.messages)


def test_the_backend_leaves_to_pytorch_what_has_no_kernel(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = block(scaled)
    compiled = torch.compile(model, backend=engine.torch_backend)
    with caplog.at_level(logging.INFO, "loomscope.torch"), torch.no_grad():
        found, wanted = compiled(*inputs), model(*inputs)
    assert close(found[0], wanted[0]) and close(found[1], wanted[1], 1e-4)
    told = "\n".join(caplog.messages)
    assert "left to PyTorch: logdet" in told and told.count("kernels") >= 2, "before it, and after"


def test_what_the_exporter_lacks_stays_pytorchs(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = block(lambda x: torch.cumprod(x, -1))
    with caplog.at_level(logging.INFO, "loomscope.torch"), torch.no_grad():
        found = torch.compile(model, backend=engine.torch_backend)(*inputs)
        assert close(found[0], model(*inputs)[0])
    assert any("left to PyTorch" in line and "prod" in line for line in caplog.messages)


@pytest.mark.parametrize("reason", ["gradients", "change"])
def test_the_backend_leaves_whole_graphs_alone(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = block()
    compiled = torch.compile(model, backend=engine.torch_backend, dynamic=reason == "change")
    with caplog.at_level(logging.INFO, "loomscope.torch"), torch.set_grad_enabled(reason == "gradients"):
        found = compiled(*inputs)
    assert close(found[0], model(*inputs)[0])
    assert any(reason in line for line in caplog.messages)
    if reason == "gradients":
        found[0].sum().backward()
        assert model.up.weight.grad is not None


def updated(x: Any) -> Any:
    x[:, 1:3].mul_(2)
    return x.sum(-1)


def dropped(x: Any) -> Any:
    kept = torch.nn.functional.dropout(torch.relu(x * 2), 0.5, training=True)
    return torch.softmax(kept + 1, -1)


CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "updated in place": (updated, "is updated in place"),
    "statistics": (torch.nn.BatchNorm1d(8), "is updated in place"),
    "no tensors": (lambda: torch.ones(3) + 1, "takes no tensors"),
    "view of an input": (lambda x: (x.t().reshape(4, 2, 16)[:, 0], x + 1), "memory is that of the input"),
    "an input": (lambda x: (x.contiguous(), x + 1), "memory is that of the input"),
    "view of a result": (lambda x: (lambda y: (y, y.t()[1:]))(x * 2), "memory is that of the result"),
    "parts of a result": (lambda x: torch.split(x * 2, 4), "memory is that of the result"),
    "random": (dropped, "native_dropout, Dropout: drops at random"),
    "float64": (lambda x: x.double() + 1, "float64"),
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_code_does_what_pytorch_does(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """Results, later writes to them, and what becomes of the inputs and the module's buffers."""
    torch.compiler.reset()
    function, told = CASES[case]
    found = []
    for compiled in (False, True):
        torch.manual_seed(7)
        own = copy.deepcopy(function)
        inputs = () if case == "no tensors" else (torch.randn(16, 8),)
        with caplog.at_level(logging.INFO, "loomscope.torch"), torch.no_grad():
            results = (torch.compile(own, backend=engine.torch_backend) if compiled else own)(*inputs)
            results = results if isinstance(results, tuple) else (results,)
            for one in results:
                one.add_(1)
        buffers = tuple(own.buffers()) if isinstance(own, torch.nn.Module) else ()
        found.append((*inputs, *results, *buffers))
    assert all(one.shape == other.shape and close(one, other) for one, other in zip(*found, strict=True))
    assert told in "\n".join(caplog.messages)


def test_results_of_one_operator_are_kernels(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(8, 16)
    with caplog.at_level(logging.INFO, "loomscope.torch"), torch.no_grad():
        values, places = torch.compile(lambda x: torch.topk(x * 2, 3), backend=engine.torch_backend)(x)
    assert close(values, torch.topk(x * 2, 3)[0]) and torch.equal(places, torch.topk(x, 3)[1])
    assert not any("left to PyTorch" in line for line in caplog.messages)


@pytest.mark.parametrize(("title", "target"), [("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H200", "h200")])
def test_kernels_are_made_for_the_gpu_of_the_tensors(title: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: title if device.index == 1 else "Tesla V100")
    assert backend._find_target(SimpleNamespace(device=torch.device("cuda:1"))) == target
    with pytest.raises(backend._WholeRefusal, match="Tesla V100 is not described"):
        backend._find_target(SimpleNamespace(device=torch.device("cuda:0")))


def test_tensors_of_several_devices_stay_pytorchs() -> None:
    mixed = (torch.ones(2), torch.ones(2, device="meta"))
    with pytest.raises(backend._WholeRefusal, match="on cpu, meta"):
        backend._examples(mixed)
    with pytest.raises(backend._WholeRefusal, match="on meta"):
        backend._examples(mixed[1:])
