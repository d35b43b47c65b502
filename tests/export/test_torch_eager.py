"""`generate --with torch` against PyTorch eager, on the CPU: launches reach the emulator instead of the driver.

Needs PyTorch (`python -m pytest -m torch` where it is installed); the reference is what PyTorch computes itself.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import engine
from engine.execution.emulate.build import host_compiler
from engine.export import torch_module
from engine.suite.operators import model_of
from tests.export.test_takeaway import pointers_of, run_launch
from tests.suite.test_operators import ROWS

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its operators are checked with a stand-in only")
pytest.importorskip("cuda.bindings.nvrtc")
F = torch.nn.functional

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(host_compiler() is None, reason="this machine has no C++ compiler: nothing is emulated"),
]

EAGER: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "add-layernorm": lambda x, residual, gain, shift: (
        x + residual, F.layer_norm(x + residual, gain.shape, gain, shift, 1e-5),
    ),
    "bias-gelu": lambda x, bias: F.gelu(x + bias, approximate="tanh"),
    "swiglu": lambda a, b: F.silu(a) * b,
    "matmul-bias-residual": lambda a, b, bias, residual: a @ b + bias + residual,
    "conv": lambda x, w: F.conv2d(x, w, None, (2, 2), (1, 1), (2, 1)),
}  # fmt: skip
"""Operator of a suite -> the same in PyTorch's words, by the names of its inputs."""
TOLERANCES = {"float32": 2e-6, "float16": 2e-3}
"""Largest difference over the largest value: both sides round, float16 to 2^-11 after each operator left alone."""


def generated(operator: str, dtype: str, folder: Path) -> Path:
    """The row's kernels with the module, as `generate --with torch` writes them."""
    path = folder / "row.onnx"
    path.write_bytes(model_of(replace(ROWS[operator], dtype=dtype)).SerializeToString())
    graph = engine.load(path)
    plan = engine.fuse(graph)
    kernels = [(group, engine.compile(group)) for group in plan.groups]
    engine.write_sources(graph, plan, kernels, folder / "taken", programs=("torch",))
    return folder / "taken"


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The driver's library emulated over the CPU's memory; the folder of what is launched goes into the list."""
    folder: list[Path] = []
    loaded: list[dict[str, Any]] = []

    def call(name: str, *arguments: Any) -> None:
        manifest = json.loads((folder[0] / "manifest.json").read_text(encoding="utf-8"))
        if name == "cuModuleGetFunction":
            loaded.append(next(k for k in manifest["kernels"] if k["entry"] == arguments[2].decode()))
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_void_p))[0] = len(loaded)
        if name == "cuLaunchKernel":
            kernel, operands = loaded[arguments[0].value - 1], arguments[9]
            memory = [_memory(a, p) for a, p in zip(operands, pointers_of(kernel), strict=True)]
            run_launch(folder[0], kernel, kernel["entry"], memory)

    monkeypatch.setattr(torch_module, "_call", call)
    monkeypatch.setattr(torch_module, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0xC0DE))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    yield folder
    torch_module._registered.clear()


def _memory(operand: int, parameter: dict[str, Any]) -> np.ndarray:
    """The array behind a pointer that is one of a launch's arguments."""
    address = ctypes.c_void_p.from_address(operand).value
    assert address is not None
    size = parameter["elements"] * np.dtype(parameter["dtype"]).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), parameter["dtype"])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("operator", EAGER)
def test_an_operator_computes_what_eager_does(
    operator: str, dtype: str, tmp_path: Path, emulated: list[Path]
) -> None:
    emulated.append(generated(operator, dtype, tmp_path))
    namespace = f"eager_{operator.replace('-', '_')}_{dtype}"
    made = torch_module.register(emulated[0], namespace)
    graph, stream = engine.load(tmp_path / "row.onnx"), torch.Generator().manual_seed(7)
    kind = getattr(torch, dtype)
    inputs = {name: torch.randn(graph.tensors[name].shape, generator=stream).to(kind) for name in graph.inputs}
    known = dict(inputs)
    for launch in json.loads((emulated[0] / "manifest.json").read_text(encoding="utf-8"))["launches"]:
        kernel, tensors = made[launch["group"]], launch["arrays"]
        given = [known[tensors[p["name"]]].reshape(p["shape"]) for p in kernel.reads]
        found = getattr(getattr(torch.ops, namespace), kernel.name)(*given)
        results = found if isinstance(found, tuple | list) else (found,)
        known |= {tensors[p["name"]]: result for p, result in zip(kernel.writes, results, strict=True)}
    wanted = EAGER[operator](**inputs)
    for name, want in zip(graph.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        error = (known[name].double().reshape(want.shape) - want.double()).abs().max() / want.double().abs().max()
        assert float(error) < TOLERANCES[dtype], name


def test_an_operator_is_one_of_pytorch_s(tmp_path: Path, emulated: list[Path]) -> None:
    """It has shapes without a device, and stands whole in a graph that PyTorch traces."""
    emulated.append(generated("softmax", "float32", tmp_path))
    (kernel,) = torch_module.register(emulated[0], "traced").values()
    operation = getattr(torch.ops.traced, kernel.name)
    shape = kernel.reads[0]["shape"]
    assert operation(torch.empty(shape, device="meta")).shape == tuple(kernel.writes[0]["shape"])
    traced = torch.compile(lambda x: operation(x) + 1, backend="eager", fullgraph=True)
    x = torch.randn(shape)
    assert torch.allclose(traced(x), torch.softmax(x, -1) + 1, atol=1e-6)
    with pytest.raises(TypeError, match=r"must be float32\[.*\], not float64"):
        operation(x.double())
    with pytest.raises(TypeError, match="contiguous"):
        operation(torch.randn(shape[::-1]).T)
    view = torch.randn(x.numel() + 1)[1:].reshape(shape)
    with pytest.raises(TypeError, match="must begin at a multiple of 16 bytes"):
        operation(view)
    assert torch.allclose(operation(view.clone()), torch.softmax(view, -1), atol=1e-6)


def test_the_module_compares_itself(tmp_path: Path, emulated: list[Path]) -> None:
    emulated.append(generated("softmax", "float32", tmp_path))
    (kernel,) = torch_module.operators(emulated[0]).values()
    found = torch_module.compare(kernel)
    assert found is not None and 0 <= found[0] <= found[1] < 1e-4
