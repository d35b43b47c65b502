"""`-` in place of a file, colours where they are not wanted, and what a shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT, SOFTMAX


def piped(data: bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments], input=data, capture_output=True, check=False, cwd=ROOT,
        env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip


def test_a_model_is_read_from_standard_input_and_a_recipe_written_to_standard_output() -> None:
    done = piped(Path(SOFTMAX).read_bytes(), "recipe", "-", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["groups"]) == ["softmax_0"]
    assert b"-: 1 group" in done.stderr


@pytest.mark.parametrize("verb", ["baseline", "report"])
def test_other_texts_go_to_standard_output_alone(verb: str) -> None:
    options = ("--no-check",) if verb == "report" else ()
    done = piped(b"", verb, SOFTMAX, "-o", "-", *options)
    assert done.returncode == 0, done.stderr
    if verb == "baseline":
        assert "softmax_0" in json.loads(done.stdout)["groups"]
    else:
        assert done.stdout.startswith(b"<!DOCTYPE html>") and done.stdout.rstrip().endswith(b"</html>")


@pytest.mark.parametrize(("data", "says"), [(b"", b"is empty"), (b"junk", b"ONNX"), (b"{}", b"AKG")])
def test_what_is_no_model_is_told(data: bytes, says: bytes) -> None:
    done = piped(data, "inspect", "-")
    assert done.returncode == 2 and says in done.stderr, done.stderr


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_left_out_on_demand(no_color: str) -> None:
    forced = {"FORCE_COLOR": "1", **({"NO_COLOR": no_color} if no_color else {})}
    done = piped(b"", "inspect", "nothing.onnx", **forced)
    assert done.returncode == 2 and (b"\x1b[31m" in done.stderr) == (not no_color)


def test_a_shell_completes_verbs() -> None:
    asked = {"_LOOMSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": "loomscope ver", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from app.cli.main import app; app(prog_name='loomscope')"], capture_output=True,
        text=True, check=False, cwd=ROOT, timeout=60, env={**os.environ, **asked},
    )  # fmt: skip
    assert done.stdout.split() == ["verify"], done.stderr
