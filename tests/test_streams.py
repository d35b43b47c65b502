"""Standard output that is full, closed or of a narrow encoding, and files on a full disk: told, never a traceback."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from app.cli import output
from app.shell.pictures import save_picture
from engine.support.errors import BadInput, MissingCapability
from engine.support.files import write_whole
from tests.support.commands import ROOT, SOFTMAX, loomscope, refused
from tests.support.needs import needs_nvrtc

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def started(redirected: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program as a shell starts it, with its output somewhere."""
    line = f'"$0" -m app "$@" {redirected}'
    return subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *arguments], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@needs_full
@pytest.mark.parametrize("arguments", [("--help",), ("fuse", SOFTMAX, "--json")])
def test_a_full_standard_output(arguments: tuple[str, ...]) -> None:
    done = started("> /dev/full", *arguments)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "standard output: No space left on device"
    assert len(done.stderr.splitlines()) == 2, done.stderr


@pytest.mark.parametrize("arguments", [("--version",), ("fuse", SOFTMAX, "--json")])
def test_a_closed_standard_output(arguments: tuple[str, ...]) -> None:
    done = started(">&-", *arguments)
    assert done.returncode == 3
    assert done.stderr.startswith("standard output: it is closed\n") and len(done.stderr.splitlines()) == 2


@pytest.mark.slow(sentinel=True)
def test_a_verb_with_nothing_to_say_needs_no_standard_output(tmp_path: Path) -> None:
    """What it opens must not take the number of standard output, where others would write into it."""
    done = started(">&- 2>&-", "recipe", SOFTMAX, "-o", str(tmp_path / "made.json"))
    assert json.loads((tmp_path / "made.json").read_text())["target"] == "h200"
    assert done.returncode == 3, "it says what it wrote"


@pytest.mark.slow(sentinel=True)
def test_a_narrow_encoding() -> None:
    told = started("", "explain", SOFTMAX, "--group", "softmax_0", PYTHONIOENCODING="ascii")
    assert told.returncode == 0 and "?s" in told.stdout, "microseconds lose their sign"
    found = started("", "predict", SOFTMAX, "--json", PYTHONIOENCODING="ascii")
    assert found.returncode == 0 and json.loads(found.stdout)["kernels"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow past 1 kB, as on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path, qtbot: object, small_disk: None) -> None:
    text = QLabel("\n".join("a picture of some size"[n % 9 :] for n in range(60)))
    with pytest.raises(MissingCapability, match=r"cannot be written: File too large.*free some space"):
        save_picture(text, tmp_path / "large.png")
    assert list(tmp_path.iterdir()) == []
    text.setText("")
    text.resize(2, 2)
    save_picture(text, tmp_path / "small.png")
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")


@needs_nvrtc
def test_kernels_on_a_full_disk(tmp_path: Path, small_disk: None) -> None:
    told = refused("generate", SOFTMAX, "-o", str(tmp_path / "out"), code=3)
    assert told.startswith(f"{tmp_path}/out: cannot be written: File too large\n  hint: free some space")
    assert all(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_a_recipe_on_a_full_disk_leaves_the_old_one(tmp_path: Path, small_disk: None) -> None:
    path = tmp_path / "made.json"
    path.write_text("old")
    assert loomscope("recipe", "example", "-o", str(path)).returncode == 3
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@needs_nvrtc
def test_kernels_of_before_stay_whole_on_a_full_disk(tmp_path: Path) -> None:
    assert loomscope("generate", SOFTMAX, "-o", str(tmp_path)).returncode == 0
    before = {path: path.read_bytes() + b"\n" for path in tmp_path.rglob("*") if path.is_file()}
    for path, data in before.items():
        path.write_bytes(data)  # what a run would replace
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        refused("generate", SOFTMAX, "-o", str(tmp_path), code=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert now.keys() == before.keys()
    assert all(data in (before[path], before[path][:-1]) for path, data in now.items()), "old or new, never a part"


def test_a_place_that_cannot_be_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no folder"):
        write_whole(tmp_path / "no" / "file", "text", "recipe")


def test_a_signal_before_a_verb_runs_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert output.run(interrupted, 141) == 130
    assert capsys.readouterr() == ("", "")
