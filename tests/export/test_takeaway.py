"""What `generate --with` writes, run without a GPU: its launches reach the emulator instead of the driver."""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import engine
from engine.execution.reference import input_values, reference_values
from engine.export import harness, torch_module
from tests.fusion.test_recurrent_steps import layer
from tests.support.commands import MODELS, document, loomscope, refused
from tests.support.cut_models import columns_of_a_softmax
from tests.support.emulated_driver import EmulatedDriver, pointers_of, run_launch

pytest.importorskip("cuda.bindings.nvrtc")

MODEL = MODELS / "bert_tiny.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model with both programs."""
    path = tmp_path_factory.mktemp("taken")
    document("generate", "example", "-o", str(path), "--with", "torch", "--with", "harness")
    return path


@pytest.fixture(scope="module")
def cut_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel of two launches, with both programs."""
    path = tmp_path_factory.mktemp("cut")
    model, recipe = columns_of_a_softmax(path)
    document("generate", model, "--recipe", recipe, "-o", str(path), "--with", "torch", "--with", "harness")
    return path


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def test_the_harness_computes_the_whole_model(folder: Path, manifest: dict[str, Any]) -> None:
    graph = engine.load(MODEL)
    given = {name: value for name, value in input_values(graph).items() if name in graph.inputs}
    driver = EmulatedDriver(folder, manifest)
    found = harness.FolderRun(driver, folder, {**np.load(folder / "constants.npz"), **given}).all(samples=1)
    expected = reference_values(graph, wanted=graph.outputs)
    assert found.keys() == set(graph.outputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_the_harness_launches_nothing_at_a_wrong_address(folder: Path, manifest: dict[str, Any]) -> None:
    driver = EmulatedDriver(folder, manifest)
    driver.shift = 4
    run = harness.FolderRun(driver, folder, dict(np.load(folder / "constants.npz")))
    launch = next(one for one in manifest["launches"] if one["group"] == "matmul_0")
    with pytest.raises(SystemExit, match=r"matmul_0: \w+ lies at 0x\w+, its kernel needs a multiple of 16"):
        run.launch(launch)


def test_a_gpu_with_less_shared_memory_than_the_target_is_told(folder: Path, manifest: dict[str, Any]) -> None:
    driver = EmulatedDriver(folder, manifest)
    driver.shared_limit = max(kernel["shared_bytes"] for kernel in manifest["kernels"]) - 1
    with pytest.raises(SystemExit, match=r"needs [\d,]+ bytes of shared memory a block, this GPU refuses them"):
        harness.FolderRun(driver, folder, dict(np.load(folder / "constants.npz")))


def test_the_harness_is_a_program_that_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    assert harness.main([]) == 3
    assert "PyCUDA cannot be imported" in capsys.readouterr().err


def test_inputs_that_are_not_there_are_not_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        harness.main(["--inputs", str(tmp_path / "x.npz")])
    assert caught.value.code == 2 and "x.npz is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("torch", "says"),
    [
        (None, "PyTorch cannot be imported"),
        (SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)), "PyTorch finds no GPU"),
    ],
)
def test_the_module_says_what_it_lacks(
    torch: object, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert torch_module.main() == 3
    assert says in capsys.readouterr().err


def test_values_of_the_wrong_size_are_refused(folder: Path, manifest: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="input_ids: 32 elements are wanted, 3 given"):
        harness.FolderRun(EmulatedDriver(folder, manifest), folder, {"input_ids": np.zeros(3, np.int64)})


class Tensor:
    """As much of a tensor as the PyTorch module asks for."""

    device = SimpleNamespace(type="cuda")

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.dtype = f"torch.{value.dtype.name}"
        self.shape = value.shape

    def numel(self) -> int:
        return self.value.size

    def is_contiguous(self) -> bool:
        return self.value.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.value.ctypes.data

    def to(self, device: str) -> Tensor:
        assert device == "cuda"
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.value


class Library:
    """Notes what is registered."""

    made: ClassVar[list[Library]] = []

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.schemas, self.bodies = name, [], {}
        Library.made.append(self)

    def define(self, schema: str) -> None:
        self.schemas.append(schema)

    def impl(self, name: str, body: Any, key: str) -> None:
        self.bodies[name, key] = body


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, folder: Path, manifest: dict[str, Any]) -> SimpleNamespace:
    return torch_over(monkeypatch, folder, manifest)


def torch_over(monkeypatch: pytest.MonkeyPatch, folder: Path, manifest: dict[str, Any]) -> SimpleNamespace:
    """A stand-in for PyTorch and for the driver under it: launches are emulated at the tensors' addresses."""
    stand_in = SimpleNamespace(
        empty=lambda shape, dtype, device: Tensor(np.full(shape, 7, dtype)),
        zeros=lambda shape, dtype, device: Tensor(np.zeros(shape, dtype)),
        from_numpy=lambda value: Tensor(np.array(value)),
        cuda=SimpleNamespace(
            device=lambda device: nullcontext(),
            current_stream=lambda: SimpleNamespace(cuda_stream=0xC0DE),
            current_device=lambda: 0,
            get_device_capability=lambda device: (9, 0),
        ),
        library=SimpleNamespace(Library=Library),
        **{name: name for name in ("float32", "float16", "int64", "int32", "bool")},
    )
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    launches = {one["entry"]: (kernel, one) for kernel in manifest["kernels"] for one in kernel["launches"]}
    entries: list[str] = []

    def call(name: str, *arguments: Any) -> None:
        if name == "cuModuleGetFunction":
            entries.append(arguments[2].decode())
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_void_p))[0] = len(entries)
        if not name.startswith("cuLaunch"):
            return
        function, *shape, stream, operands = arguments if name.endswith("CooperativeKernel") else arguments[:-1]
        kernel, launch = launches[entries[function.value - 1]]
        assert name.endswith("CooperativeKernel") == (launch["least_sms"] > 1)
        assert [size.value for size in shape] == [*launch["grid"], *launch["block"], launch["shared_bytes"]]
        assert stream.value == 0xC0DE
        views = []
        for address, p in zip(operands, pointers_of(kernel), strict=True):
            pointer = ctypes.c_void_p.from_address(address).value
            assert pointer is not None
            memory = (ctypes.c_char * (p["elements"] * np.dtype(p["dtype"]).itemsize)).from_address(pointer)
            views.append(np.frombuffer(memory, p["dtype"]))
        run_launch(folder, kernel, launch["entry"], views)

    monkeypatch.setattr(torch_module, "_call", call)
    return stand_in


def test_a_kernel_of_two_launches_runs_them_in_order(cut_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness and the operator of PyTorch, against the reference."""
    manifest = json.loads((cut_folder / "manifest.json").read_text(encoding="utf-8"))
    (kernel,) = manifest["kernels"]
    assert [one["entry"] for one in kernel["launches"]] == [f"{kernel['group']}_1", f"{kernel['group']}_2"]
    assert kernel["launches"][0]["grid"] != kernel["launches"][1]["grid"] and kernel["workspaces"]
    x = np.random.default_rng(3).standard_normal((96, 128), np.float32)
    found = harness.FolderRun(EmulatedDriver(cut_folder, manifest), cut_folder, {"x": x}).all(samples=1)
    powers = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found["c"], (powers / powers.sum(1, keepdims=True)).sum(0), rtol=1e-4)
    torch_over(monkeypatch, cut_folder, manifest)
    (operator,) = torch_module.register(cut_folder).values()
    compared = torch_module.compare(operator)
    assert compared is not None and 0 <= compared[0] <= compared[1] < 1e-3


@pytest.mark.slow(sentinel=True)
def test_blocks_that_wait_for_each_other_are_launched_where_all_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness refuses a GPU that never ends such a launch; the operator of PyTorch launches it cooperatively."""
    graph = layer(tmp_path, "LSTM", 4, 3, 128)
    folder = tmp_path / "out"
    document("generate", str(tmp_path / "r.onnx"), "-o", str(folder), "--with", "torch", "--with", "harness")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (kernel,) = (one for one in manifest["kernels"] if one["launches"][0]["least_sms"] > 1)
    driver = EmulatedDriver(folder, manifest)
    driver.sms = kernel["launches"][0]["least_sms"]
    given = {**np.load(folder / "constants.npz"), "x": input_values(graph)["x"]}
    found = harness.FolderRun(driver, folder, given).all(samples=1)
    expected = reference_values(graph, wanted=graph.outputs)["y"]
    np.testing.assert_allclose(found["y"], expected.reshape(found["y"].shape), rtol=1e-4, atol=1e-6)
    driver.sms -= 1
    with pytest.raises(SystemExit, match=rf"wait for each other, on {driver.sms + 1} SMs; this GPU has {driver.sms}"):
        harness.FolderRun(driver, folder, given)
    torch_over(monkeypatch, folder, manifest)
    compared = torch_module.compare(torch_module.register(folder)[kernel["group"]])
    assert compared is not None and 0 <= compared[0] <= compared[1] < 1e-3


@pytest.mark.parametrize("name", ["layernorm_0", "matmul_0", "attention_0"])
def test_an_operator_agrees_with_its_values(torch: SimpleNamespace, folder: Path, name: str) -> None:
    found = torch_module.compare(torch_module.operators(folder)[name])
    assert found is not None
    error, tolerance = found
    assert 0 <= error <= tolerance < 1e-3


def test_a_wrong_kernel_does_not_agree(torch: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_module, "_call", lambda *arguments: None)  # nothing is launched, nothing is written
    found = torch_module.compare(torch_module.operators(folder)["matmul_1"])
    assert found is not None and found[0] > found[1]


def test_every_kernel_becomes_an_operator_of_pytorch(torch: SimpleNamespace, folder: Path) -> None:
    made = torch_module.register(folder)
    library = Library.made[-1]
    assert library.name == "loomscope"
    assert {name for name, key in library.bodies if key == "CUDA"} == set(made)
    (schema,) = (schema for schema in library.schemas if schema.startswith("matmul_1("))
    assert schema.startswith("matmul_1(Tensor ") and schema.endswith(") -> Tensor")
    shape = library.bodies["matmul_1", "Meta"]().shape
    assert shape == tuple(made["matmul_1"].writes[0]["shape"])


def test_tensors_that_do_not_fit_are_refused(torch: SimpleNamespace, folder: Path) -> None:
    operator = torch_module.operators(folder)["matmul_1"]
    right = [Tensor(np.ones(p["shape"], p["dtype"])) for p in operator.reads]
    with pytest.raises(TypeError, match=r"must be float32\[.*\], not float64"):
        operator(Tensor(right[0].value.astype(np.float64)), *right[1:])
    with pytest.raises(TypeError, match="must be float32"):
        operator(Tensor(right[0].value[..., :1]), *right[1:])
    with pytest.raises(TypeError, match="contiguous"):
        operator(Tensor(right[0].value.T), *right[1:])
    with pytest.raises(ValueError, match="zip"):
        operator()


def at_offset(value: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins so many bytes behind a multiple of 64."""
    memory = np.empty(value.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    found = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    found[...] = value
    return found


@pytest.mark.parametrize("name", ["matmul_0", "attention_0", "layernorm_0"])
def test_a_view_that_begins_elsewhere_is_refused(torch: SimpleNamespace, folder: Path, name: str) -> None:
    """`x[1:]` of floats begins 4 bytes behind; 16 bytes behind a multiple of 32 is all that any kernel asks for."""
    operator = torch_module.operators(folder)[name]
    with np.load(folder / "check" / f"{name}.npz") as values:
        given = [values[p["name"]] for p in operator.reads]
    operator(*(Tensor(at_offset(value, 16)) for value in given))
    wide = [n for n, p in enumerate(operator.reads) if p["alignment"] == 16]
    assert wide
    for n in wide:
        shifted = [Tensor(at_offset(value, 4 if m == n else 16)) for m, value in enumerate(given)]
        name = operator.reads[n]["name"]
        with pytest.raises(TypeError, match=rf"{name} must begin at a multiple of 16 bytes.*clone"):
            operator(*shifted)


def test_every_call_has_workspaces_of_its_own(
    torch: SimpleNamespace, folder: Path, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that calls on two streams may overlap: while the first is under way, the second gets other memory."""
    (kernel,) = (k for k in manifest["kernels"] if k["workspaces"])
    operator = torch_module.TorchOperator(kernel, folder)
    alive: list[Tensor] = []
    seen: list[list[int]] = []

    def kept(make: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Tensor:
            alive.append(make(*arguments, **options))
            return alive[-1]

        return call

    monkeypatch.setattr(torch, "empty", kept(torch.empty))
    monkeypatch.setattr(torch, "zeros", kept(torch.zeros))
    monkeypatch.setattr(operator, "_launch", lambda pointers, stream: seen.append(pointers))
    given = [Tensor(np.ones(p["shape"], p["dtype"])) for p in operator.reads]
    operator(*given)
    operator(*given)
    count = len(kernel["parameters"])
    assert all(len(pointers) == count + len(kernel["workspaces"]) for pointers in seen)
    assert not set(seen[0][count:]) & set(seen[1][count:])


def test_the_programs_stand_alone(folder: Path) -> None:
    for name in ("harness.py", "torch_module.py"):
        text = (folder / name).read_text(encoding="utf-8")
        compile(text, name, "exec")
        assert "engine" not in text and "import app" not in text


def test_a_program_that_there_is_not_is_refused(tmp_path: Path) -> None:
    softmax = str(MODELS / "softmax_96x512.onnx")
    assert "use torch or harness" in refused("generate", softmax, "-o", str(tmp_path), "--with", "jax")
    assert loomscope("generate", softmax, "-o", str(tmp_path)).returncode == 0
    assert not list(tmp_path.glob("*.cubin")) and not list(tmp_path.glob("*.py"))
