"""The scripts of resources/docs/examples run as a reader would run them, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from tests.support.needs import needs_compiler

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "resources/docs/examples"
MODELS = ROOT / "resources/models"
MOST_LINES = 15


def script(name: str, *arguments: str | Path) -> str:
    """What a script prints."""
    done = subprocess.run(
        [sys.executable, SCRIPTS / f"{name}.py", *map(str, arguments)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_scripts_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_tune_and_compare(tmp_path: Path) -> None:
    model, records, recipe = MODELS / "softmax_96x512.onnx", tmp_path / "r.db", tmp_path / "best.json"
    told = script("tune_and_keep", model, records, recipe)
    assert told.startswith("1 of 8: softmax_0 ") and f"run 1 in {records}" in told
    plan = engine.fuse(engine.load(model), target="h100")
    before = tmp_path / "before.json"
    engine.write_recipe(engine.default_recipe(plan), before)
    compared = script("compare_two_recipes", model, before, recipe)
    best = engine.predict(engine.compile(plan.groups[0], engine.read_recipe(recipe))).microseconds
    assert compared.startswith("softmax_0: ") and f"and {best:.2f} µs predicted" in compared


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_check_and_run() -> None:
    told = script("check_every_group", MODELS / "bert_tiny.onnx")
    plan = engine.fuse(engine.load(MODELS / "bert_tiny.onnx"))
    assert [line.split(":")[0] for line in told.splitlines()] == [group.name for group in plan.groups]
    assert told.count(": pass, ") == len(plan.groups)
    told = script("run_on_own_arrays", MODELS / "softmax_96x512.onnx")
    assert "float32[96, 512], mean 0.001953, " in told


@needs_compiler
def test_a_pytorch_operator() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    told = script("make_torch_operator")
    kernels, difference = re.fullmatch(r"(\d+) kernels, largest difference (\S+)\n", told).groups()
    assert 1 <= int(kernels) <= 3 and float(difference) < 1e-5
