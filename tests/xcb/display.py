"""A display of its own: Xvfb with openbox, gone when the tests are over."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep

PACKAGES = {"Xvfb": "xvfb", "openbox": "openbox", "xdotool": "xdotool"}
"""Program -> the Debian package that has it; resources/docs/contributing.md and .ci/run name the same."""
PATIENCE = 30.0
"""Seconds until the window manager answers."""


def lacking() -> str:
    """What is to be installed before the tests can run; "" where everything is there."""
    packages = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    return f"apt-get install {' '.join(packages)}" if packages else ""


@contextmanager
def display(width: int, height: int) -> Iterator[Mapping[str, str]]:
    """The environment of a process that is to paint on a display of that size."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        os.close(writing)
        with os.fdopen(reading) as answer:
            number = answer.readline().strip()
        try:
            if not number:
                assert server.stderr is not None
                raise OSError(f"Xvfb does not start: {server.stderr.read().decode(errors='replace').strip()}")
            environment = {**os.environ, "DISPLAY": f":{number}", "QT_QPA_PLATFORM": "xcb"}
            environment.pop("WAYLAND_DISPLAY", None)
            with subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL) as manager:
                try:
                    _wait_for_manager(environment)
                    yield environment
                finally:
                    manager.terminate()
        finally:
            server.terminate()


def _wait_for_manager(environment: Mapping[str, str]) -> None:
    """Windows that open before the manager is there are never activated."""
    end = monotonic() + PATIENCE
    while subprocess.run(["xdotool", "get_num_desktops"], env=environment, capture_output=True).returncode:
        if monotonic() > end:
            raise OSError("openbox does not answer")
        sleep(0.05)
