"""`loomscope measure` over the stand-in for PyCUDA, whose kernels copy: a right one gets a time, another a reason."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import engine
from engine.execution.nodes import Failure
from engine.measurements import read_measurements
from tests.execution.test_measure import STAND_IN
from tests.support.commands import loomscope

pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One group that is a copy, max(x, x), and one that is none, tanh(z); their shapes keep them apart."""
    sizes = {"x": 256, "z": 192, "y": 256, "t": 192}
    x, z, *outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [n]) for name, n in sizes.items())
    nodes = [helper.make_node("Max", ["x", "x"], ["y"]), helper.make_node("Tanh", ["z"], ["t"])]
    made = helper.make_model(
        helper.make_graph(nodes, "two", [x, z], outputs), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )
    path = tmp_path_factory.mktemp("model") / "two.onnx"
    path.write_bytes(onnx.ModelProto.SerializeToString(made))
    return str(path)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("pycuda") is not None:
        pytest.skip("PyCUDA is installed; tests/gpu measures with it")
    monkeypatch.syspath_prepend(str(STAND_IN))  # of this process, which asks whether there is one
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))  # of the process that measures
    monkeypatch.setenv("LD_LIBRARY_PATH", "")


def test_a_right_kernel_gets_a_time_and_a_wrong_one_its_reason(model: str, tmp_path: Path) -> None:
    apart = tmp_path / "apart.json"  # by default both are packed into one launch
    engine.write_recipe(engine.Recipe("h200", fusion={"policy": "none"}), apart)
    done = loomscope("measure", model, "--recipe", str(apart), "--json")
    assert done.returncode == 1, done.stderr
    path = tmp_path / "times.json"
    path.write_text(done.stdout, encoding="utf-8")
    rows = read_measurements(path).rows
    (right,), (wrong,) = ([row for row in rows if (row.ours is None) == failed] for failed in (False, True))
    assert right.ours is not None and right.ours.environment is not None
    assert right.ours.environment["device"] == "stand-in"
    assert right.ours.environment["values"].startswith("drawn from seed ")
    assert right.systems["loomscope"].launches[0].facts.dram_bytes_read == 1024
    reason = wrong.systems["loomscope"].time
    assert isinstance(reason, Failure) and reason.kind == "wrong result" and "drawn from seed" in reason.message


def test_every_process_draws_other_values(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = engine.compile(engine.fuse(engine.load(model)).groups[0])
    told = []
    for _ in range(2):
        engine.api._process_seed.cache_clear()
        found = engine.measure(kernel)
        told.append(found.message if isinstance(found, Failure) else (found.environment or {})["values"])
    seeds = {re.search(r"seed (\d+)", text)[1] for text in told}  # type: ignore[index]
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("setting", "status", "says"),
    [
        ({"STAND_IN_FREE": "16"}, 1, "out of memory: its arrays take"),
        ({"STAND_IN_CAPABILITY": "8.0"}, 3, "name this machine's GPU with --target"),
        ({"STAND_IN_CUDA": "12040"}, 3, "install a driver for CUDA 13 or newer"),
    ],
)
def test_what_the_machine_lacks_is_told(
    model: str, setting: dict[str, str], status: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    done = loomscope("measure", model)
    assert done.returncode == status
    assert says in done.stdout + done.stderr
