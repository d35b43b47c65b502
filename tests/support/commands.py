"""The command line for tests: in this process, which is quick, or as the program a user starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from app.cli.main import app

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "resources" / "models"
SOFTMAX = str(MODELS / "softmax_96x512.onnx")


@dataclass(frozen=True)
class Outcome:
    """How a run of the program ended."""

    returncode: int
    stdout: str
    stderr: str


def loomscope(*arguments: str) -> Outcome:
    """Run the program in this process; what it does not catch fails the test."""
    result = CliRunner().invoke(app, arguments, prog_name="loomscope")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def program(*arguments: str, **environment: str) -> Outcome:
    """Start the program as a user would; no Qt platform and no display unless `environment` says so."""
    clean = {k: v for k, v in os.environ.items() if k not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT, env={**clean, **environment}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def heed_interrupts() -> None:
    """Of a started process, before its program: a shell lets what it starts in the background ignore SIGINT.

    That is inherited, so without this a suite that runs in the background would send interrupts nobody hears.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def document(*arguments: str) -> dict[str, Any]:
    """The JSON document of a run that ends well."""
    done = loomscope(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["schema"] == 1
    return found


def refused(*arguments: str, code: int = 2) -> str:
    """The message of a run that must end with `code`, with nothing on standard output."""
    done = loomscope(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    message, *hints = done.stderr.splitlines()
    assert message and all(hint.startswith("  hint: ") for hint in hints) and len(hints) < 2
    return done.stderr
