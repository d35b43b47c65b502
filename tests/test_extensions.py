"""Extensions as patches under cases/extensions: each touches few files, and its tests pass in a copy of the program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATCHES = ROOT / "tests" / "cases" / "extensions"
LIMITS = {"tile_operation": 4, "kernel_family": 7, "panel": 6}
"""Patch -> the most files that it may touch, its tests among them."""
CONTEXT = "-C1"
"""One line of context is enough: a comment reworded beside the place is no change of the extension."""


@pytest.mark.parametrize("name", LIMITS)
def test_an_extension_applies(name: str) -> None:
    """Said in every run: the slow test below would say it after a long time."""
    _run("git", "apply", "--check", CONTEXT, str(PATCHES / f"{name}.patch"), cwd=ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_an_extension_touches_few_files_and_passes_its_tests(name: str, tmp_path: Path) -> None:
    patch = PATCHES / f"{name}.patch"
    touched = _run("git", "apply", "--numstat", str(patch), cwd=ROOT).splitlines()
    files = [line.split("\t")[2] for line in touched]
    tests = [file for file in files if re.fullmatch(r"tests/(.+/)?test_\w+\.py", file)]
    assert tests, "an extension comes with a test"
    assert len(files) <= LIMITS[name], files
    # The copy lies beside the shared models, as the repository does; hidden folders hold environments and caches.
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    if (ROOT.parent / "shared").is_dir():
        (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    _run("git", "apply", CONTEXT, str(patch), cwd=tree)
    options = ("-q", "-m", "not gpu", "-p", "no:cacheprovider")
    _run(sys.executable, "-m", "pytest", *options, *tests, cwd=tree)


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
