"""The preparation of a bare GPU machine, without one: what it would do, and what it says is missing."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.gpu import prepare

SCRIPT = Path(prepare.__file__)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("islpy-2025.2-cp312-cp312-manylinux_2_28_x86_64.whl", "pycuda-2026.1.tar.gz"):
        (folder / name).write_bytes(b"")
    return folder


def test_a_dry_run_of_the_script_alone_names_every_step(wheels: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", SCRIPT, "install", "--dry-run", "--wheels", wheels, "--site", tmp_path / "s"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(\S.*):$", done.stdout, re.MULTILINE) == [
        "wheels", "PyCUDA's settings", "PyCUDA", "the GPU answers", "loomscope",
    ]  # fmt: skip
    assert "CUDA_ROOT=" in done.stdout and "pycuda-2026.1.tar.gz" in done.stdout
    for line in re.findall(r"^  .*-m pip .*", done.stdout, re.MULTILINE):
        assert "--no-index" in line and "--no-deps" in line, "the machine has no network"
    assert not (tmp_path / "s").exists()


def test_everything_that_the_engine_needs_is_carried() -> None:
    content = tomllib.loads((SCRIPT.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {re.split(r"[<>=\[; ]", text)[0].lower() for text in content["project"]["dependencies"]}
    carried = {re.split(r"[<>=]", text)[0].lower() for text in (*prepare.RARE, *prepare.USUAL)}
    # The window is not measured.
    assert needed - carried == {"pyside6-essentials", "pyqtgraph"}


def test_carrying_asks_for_the_gpu_machines_python() -> None:
    binary, _, source = prepare.carry(Path("w"))
    words = " ".join(binary.command)
    assert "--python-version 3.12 --implementation cp" in words and "--platform manylinux_2_28_x86_64" in words
    assert "--only-binary=:all:" in words and source.command[-1] == "pycuda"
    assert "onnxruntime" not in binary.command, "a machine with PyTorch has it"
    assert "onnxruntime" in prepare.carry(Path("w"), everything=True)[0].command


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "TOOLKITS", ())
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert prepare.main(["install", "--wheels", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert ("onnx: neither installed nor carried" in said) == (not prepare.importable("onnx"))
    for word in ("holds no wheels", "PyCUDA's source archive", "no CUDA headers", "no C++ compiler"):
        assert word in said


def test_a_cuda_root_with_headers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TOOLKITS", ())
    monkeypatch.setenv("CUDA_ROOT", str(tmp_path))
    assert prepare.cuda_toolkit() is None
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").write_text("")
    assert prepare.cuda_toolkit() == tmp_path
    (build,) = (step for step in prepare.install(tmp_path, tmp_path) if step.name == "PyCUDA")
    assert build.environment["CUDA_INC_DIR"] == str(tmp_path / "include")


@pytest.mark.parametrize(("status", "says"), [(0, ""), (7, "failed with status 7"), (124, "180 s are over")])
def test_the_first_step_that_fails_is_named(status: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[tuple[str, ...]] = []

    def runner(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> int:
        ran.append(tuple(command))
        assert 0 < seconds <= 180
        return status if command == ("b",) else 0

    steps = [prepare.Step(name, (name,)) for name in "abc"]
    assert prepare.run(steps, False, runner=runner) == (1 if status else 0)
    assert ran == ([("a",), ("b",)] if status else [("a",), ("b",), ("c",)])
    err = capsys.readouterr().err
    assert says in err and (not status or err.startswith("b: "))


def test_a_step_past_its_time_is_ended() -> None:
    steps = [prepare.Step("sleeps", (sys.executable, "-c", "import time; time.sleep(60)"))]
    assert prepare.run(steps, False, seconds=1.0) == 1


def test_a_wheel_of_pycuda_needs_neither_headers_nor_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "TOOLKITS", ())
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    monkeypatch.setenv("PATH", "")
    lacks = [what for _, what in prepare.lacking(tmp_path)]
    (tmp_path / "pycuda-2026.1-cp312-cp312-linux_x86_64.whl").write_bytes(b"")
    fewer = [what for _, what in prepare.lacking(tmp_path)]
    gone = " ".join(set(lacks) - set(fewer))
    for word in ("holds no wheels", "PyCUDA's source archive", "no CUDA headers", "no C++ compiler"):
        assert word in gone


def test_pycuda_is_built_only_where_it_does_not_import() -> None:
    for imports, built in ((0, False), (1, True)):
        ran: list[str] = []

        def runner(
            command: Sequence[str], environment: Mapping[str, str], seconds: float,
            ran: list[str] = ran, imports: int = imports,
        ) -> int:  # fmt: skip
            ran.append(command[0])
            return imports if command[0] == "look" else 0

        assert prepare.run([prepare.Step("PyCUDA", ("build",), unless=("look",))], False, runner=runner) == 0
        assert ("build" in ran) == built and ran[0] == "look"


def test_the_settings_of_pycuda_s_build_are_python(tmp_path: Path) -> None:
    (step,) = (step for step in prepare.build(tmp_path / "wheels") if step.name == "PyCUDA's settings")
    tools = prepare.tools_folder(tmp_path / "wheels")
    tools.mkdir(parents=True)
    assert subprocess.run(step.command, check=False, timeout=30).returncode == 0
    found = runpy.run_path(str(tools / ".aksetup-defaults.py"))
    assert found["CUDA_ENABLE_CURAND"] is False and str(tools) in found["CUDADRV_LIB_DIR"]
