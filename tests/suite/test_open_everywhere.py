"""`suite:NAME/ROW` wherever a file is asked for: every verb, the worker behind the window, the window itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.session.open_request import OpenRequest
from tests.support.commands import document, loomscope, program, refused

ROW = "suite:gta/gemm-16x512x128"


@pytest.mark.parametrize(
    "verb", [("inspect",), ("fuse",), ("schedule",), ("predict",), ("moves", "--group", "matmul_0")]
)
def test_a_verb_opens_a_row(verb: tuple[str, ...]) -> None:
    name, *options = verb
    assert document(name, ROW, *options)


def test_a_row_is_verified_against_onnx_runtime() -> None:
    found = document("verify", ROW)
    assert found["summary"] == {"pass": 1, "fail": 0, "unsupported": 0}


def test_a_row_has_recipes_and_baselines(tmp_path: Path) -> None:
    recipe, baseline = str(tmp_path / "r.json"), str(tmp_path / "b.json")
    assert loomscope("recipe", ROW, "-o", recipe).returncode == 0
    assert loomscope("baseline", ROW, "-o", baseline, "--recipe", recipe).returncode == 0
    assert loomscope("check", ROW, baseline).returncode == 0


def test_the_window_asks_the_worker_for_the_row_itself() -> None:
    assert OpenRequest(ROW, "h200").arguments()["path"] == ROW


@pytest.mark.slow(sentinel=True)
def test_the_window_draws_a_row(tmp_path: Path) -> None:
    picture = tmp_path / "row.png"
    done = program("render", ROW, "-o", str(picture), QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_row_that_there_is_not_is_refused() -> None:
    assert "suite:gta/gemm-16x512x128" in refused("inspect", "suite:gta/gemm-16x512")


def test_measuring_a_row_without_a_gpu_ends_with_3() -> None:
    hidden = "import importlib.util as u; u.find_spec = lambda name, package=None: None"
    code = f"{hidden}; from app.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "measure", ROW], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 3
    assert "PyCUDA is not installed" in done.stderr and "pip install pycuda" in done.stderr
