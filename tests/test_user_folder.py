"""Processes that the program starts import from where it is installed, never from the folder that the user is in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.session.client import Client, Pending
from engine.execution import nvrtc_process
from engine.execution.measure import Failure, measure_kernel
from engine.support.errors import MissingCapability
from engine.tuning.executors import processes
from tests.execution.test_measure import TRIAL
from tests.support.commands import SOFTMAX
from tests.support.needs import needs_nvrtc

NAMES = ("engine", "app", "views", "resources", "tests", "numpy", "onnx", "cuda", "json", "typer", "sitecustomize",
         "re", "struct", "signal", "types", "random", "socket", "tempfile")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's, with files that end every process that imports one of them."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder of the user')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def test_the_files_would_end_a_process(folder: Path) -> None:
    command = [sys.executable, "-m", "engine.execution.measure_worker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "imported from the folder of the user" in done.stderr


def test_the_measuring_process(folder: Path) -> None:
    try:
        found = measure_kernel(TRIAL)
    except MissingCapability:
        return  # it came to look for a GPU
    assert not (isinstance(found, Failure) and "imported" in found.message), found


@needs_nvrtc
def test_the_process_of_nvrtc(folder: Path) -> None:
    nvrtc_process.close()
    text = 'extern "C" __global__ void nothing() {}\n'
    assert nvrtc_process.ask(text, ("--gpu-architecture=sm_80",), "ptx").status == "NVRTC_SUCCESS"


def _plan() -> str:
    import engine

    return engine.fuse(engine.load(SOFTMAX)).groups[0].name


@pytest.mark.slow(sentinel=True)
def test_the_processes_of_a_search(folder: Path) -> None:
    workers = processes(1)
    try:
        assert workers.executor.submit(_plan).result(timeout=60) == "softmax_0"
    finally:
        workers.close()


@pytest.mark.slow(sentinel=True)
def test_the_windows_worker(folder: Path, qtbot: object) -> None:
    client = Client()
    answers: list[object] = []
    try:
        client.request("machine", {}, "", Pending(None, answers.append, answers.append))
        qtbot.waitUntil(lambda: bool(answers), timeout=60_000)
        assert isinstance(answers[0], dict) and "gpu" in answers[0], answers[0]
    finally:
        client.close()
