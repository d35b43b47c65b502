"""The tests that need a display, where this machine can have one; `LOOMSCOPE_XCB=1` fails where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.xcb.display import PACKAGES, lacking

ROOT = Path(__file__).parents[1]
NO_PLUGIN = "platform plugin"
"""What Qt says where it lacks a system library that it needs for a display."""


def skip(reason: str) -> None:
    """Skips, unless the environment says that the machine has to be able to run these tests."""
    if os.environ.get("LOOMSCOPE_XCB"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.slow(sentinel=True)  # a minute, mostly of waiting for the display
def test_the_desktop_tests_pass() -> None:
    if lacking():
        skip(f"no display can be had on this machine: `{lacking()}`")
    done = subprocess.run([sys.executable, "-m", "tests.xcb"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode and NO_PLUGIN in done.stdout + done.stderr:
        skip("Qt lacks a system library for a display: README's section *Install* names them")
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr, done.stderr
    assert " skipped" not in done.stdout, done.stdout
    assert done.stdout.count("100%]") == 2, f"at scale 1 and at scale 2:\n{done.stdout}"


def test_the_packages_are_those_that_the_page_and_ci_install() -> None:
    for file in ("resources/docs/contributing.md", ".ci/run"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(f" {package}" in text for package in PACKAGES.values()), file
