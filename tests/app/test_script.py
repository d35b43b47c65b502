"""Copy as script: the program that lands on the clipboard makes the same kernels again, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication

from app.session.client import COMMAND, ROOT
from app.session.open_request import OpenRequest
from app.session.script import group_script, workspace_script
from app.shell.window import Window
from tests.app.driving import select, settle
from tests.app.test_real_session import MODEL

SOFTMAX = MODEL.replace("bert_tiny", "softmax_96x512")


def run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a script from another folder, as a person would."""
    file = tmp_path / "again.py"
    file.write_text(script, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow(sentinel=True)
def test_scripts_make_the_same_cuda_text(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    window = make(command=COMMAND)
    window.open_file(SOFTMAX)
    settle(window, qtbot)
    kernel = select(window, qtbot, "softmax_0")
    window.workspace.edit("softmax_0", kernel.recipe.replace("block 1", "block 2") + "# \"it's\" \\ quicker\n")
    settle(window, qtbot)
    edited = window.workspace.legal_kernel("softmax_0")
    assert edited is not None and edited.cuda != kernel.cuda
    for name in ("script", "script-all"):
        window.action(name).trigger()
        done = run(QGuiApplication.clipboard().text(), tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == edited.cuda.encode()
        assert done.stderr.decode() == "softmax_0: pass, 48 of 48 blocks\n"


def test_a_refused_draft_is_not_in_the_script(make: Callable[..., Window], qtbot: object) -> None:
    window = make()
    window.open_file("bert_base_b8_s512.onnx")
    settle(window, qtbot)
    kernel = select(window, qtbot, "softmax_0")
    window.workspace.edit("softmax_0", kernel.recipe + "nonsense\n")
    settle(window, qtbot)
    window.action("script").trigger()
    script = QGuiApplication.clipboard().text()
    assert "nonsense" not in script and "mark stages 2" in script


def test_names_and_paths_cannot_break_out_of_their_literals() -> None:
    opened = OpenRequest("/tmp/a'b\"\"\"\\x.onnx", "h200", {"batch\n": 4})
    for script in (group_script(opened, "g'\"", 'say """ \\ \n'), workspace_script(opened, {"g": ""})):
        compile(script, "script", "exec")
    assert repr("/tmp/a'b\"\"\"\\x.onnx") in script
