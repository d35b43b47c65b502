"""The benchmark's launches of our kernels, over stand-ins for PyTorch and for PyCUDA, whose launches are emulated."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from engine.support.errors import EngineError
from tests.benchmarks import gpu_launch
from tests.benchmarks.gpu_launch import Launches
from tests.benchmarks.prepared import prepare, read, write
from tests.gpu.stand_in.pycuda import driver
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler, needs_nvrtc

pytestmark = [needs_compiler, needs_nvrtc]


class Tensor:
    """As much of a tensor as launches ask for."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def data_ptr(self) -> int:
        return self.value.ctypes.data


TORCH = SimpleNamespace(
    float32="float32", int32="int32",
    empty=lambda shape, dtype, device: Tensor(np.full(shape, 7, dtype)),
    zeros=lambda shape, dtype, device: Tensor(np.zeros(shape, dtype)),
)  # fmt: skip


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Launches, dict[str, np.ndarray]]:
    """A product of three tiles whose depth blocks share."""
    shapes = {"x": (32, 2048), "w": (2048, 96)}
    inputs = {name: ("float32", shape) for name, shape in shapes.items()}
    path = write_model(tmp_path / "m.onnx", [("MatMul", ["x", "w"], ["y"], {})], inputs, ["y"])
    prepared, code = prepare(str(path), "h200")
    write(replace(prepared, row="suite:own/product"), code, tmp_path / "prepared")
    found = read("suite:own/product", "h200", tmp_path / "prepared")
    assert found is not None
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(driver=driver))
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.setattr(driver, "Stream", lambda: SimpleNamespace(handle=1), raising=False)
    monkeypatch.setenv("LOOMSCOPE_STAND_IN_KERNELS", str(tmp_path / "prepared"))
    stream = np.random.default_rng(6)
    values = {name: stream.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    copies = [{name: Tensor(value) for name, value in values.items()}] * 2
    machine = SimpleNamespace(device="cuda", stream=lambda: 2)
    return Launches(TORCH, machine, engine.load(path), *found, copies), values  # type: ignore[arg-type]


def test_a_launch_gets_its_workspaces(launches: tuple[Launches, dict[str, np.ndarray]]) -> None:
    run, values = launches
    (result,) = run(0)
    want = values["x"].astype(np.float64) @ values["w"]
    np.testing.assert_allclose(result.value, want, rtol=1e-4, atol=1e-3)


def test_a_recorded_stream_has_workspaces_of_its_own(
    launches: tuple[Launches, dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = launches
    seen: list[tuple[int, ...]] = []

    def noted(self: driver.Function, grid: object, block: object, stream: object, *pointers: int, **_: int) -> None:
        seen.append(pointers[len(self.kernel.parameters) :])

    monkeypatch.setattr(driver.Function, "prepared_async_call", noted)
    monkeypatch.setattr(gpu_launch, "library", lambda: None)
    monkeypatch.setattr(gpu_launch, "Graph", lambda library, handle, enqueue: enqueue())
    run(0)
    run.recorded(2)
    once, first, second = seen
    assert len(once) == 2 and first == second and not set(once) & set(first)


def test_no_launch_is_made_at_a_wrong_address(launches: tuple[Launches, dict[str, np.ndarray]]) -> None:
    run, values = launches
    memory = np.empty(values["x"].nbytes + 32, np.uint8)
    start = -memory.ctypes.data % 16 + 4
    run._memory[0]["x"] = Tensor(memory[start : start + values["x"].nbytes])
    with pytest.raises(EngineError, match=r"x_ lies at .*, which is no multiple of 16"):
        run(0)
