"""The window on a real display: an X server in memory, small like a laptop's screen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.session.client import ROOT
from app.shell.actions import ACTIONS

SCREEN = (1280, 800)
PATIENCE = 60.0
"""Seconds."""
NO_PLUGIN = "platform plugin"
"""What Qt says where it lacks a system library that it needs for a display."""


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """The name of a display of its own."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb on this machine: `apt-get install xvfb`")
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{SCREEN[0]}x{SCREEN[1]}x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        os.close(writing)
        with os.fdopen(reading) as answer:
            number = answer.readline().strip()
        try:
            if not number:
                assert server.stderr is not None
                pytest.skip(f"Xvfb does not start: {server.stderr.read().decode(errors='replace').strip()}")
            yield f":{number}"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def found(display: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a window on it does."""
    folder = tmp_path_factory.mktemp("display")
    environment = os.environ | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb", "XDG_DATA_HOME": str(folder)}
    environment.pop("WAYLAND_DISPLAY", None)
    command = [sys.executable, "-m", "tests.app.on_display", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    if ended.returncode and NO_PLUGIN in ended.stderr:
        pytest.skip(f"Qt cannot use a display on this machine: {ended.stderr.strip().splitlines()[0]}")
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1]) | {"said": ended.stderr}
    assert answer["platform"] == "xcb" and tuple(answer["screen"]) == SCREEN
    return answer


def test_every_shortcut_does_one_thing_once(found: dict[str, Any]) -> None:
    shortcuts = found["shortcuts"]
    assert {"quit Ctrl+Q", "redo Ctrl+Y", "redo Ctrl+Shift+Z", "undo Ctrl+Z"} <= shortcuts.keys()
    assert len(shortcuts) >= sum(bool(info.keys) for info in ACTIONS)
    assert {each: fired for each, fired in shortcuts.items() if fired != [each.split()[0]]} == {}
    assert "Ambiguous" not in found["said"]


def test_a_file_is_taken_by_every_panel(found: dict[str, Any]) -> None:
    assert {"graph", "outline", "constraints", "code", "history", "trials"} <= found["drops"].keys()
    assert [name for name, taken in found["drops"].items() if not taken] == []


def test_the_first_window_is_inside_a_small_screen(found: dict[str, Any]) -> None:
    assert found["inside"], found["area"]


def test_nothing_that_is_pressed_is_cut_in_the_smallest_window(found: dict[str, Any]) -> None:
    assert found["cut"] == []
