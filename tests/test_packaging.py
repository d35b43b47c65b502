"""What is shipped: the package list, the data files, and README's commands."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.commands import document, loomscope

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETUPTOOLS = PROJECT["tool"]["setuptools"]
TOP = ("app", "engine", "resources", "views")


EXAMPLES = ROOT / "resources/docs/examples"
"""Scripts to read and run: documents, not modules."""


def packages() -> list[str]:
    """What setuptools finds: folders with an __init__.py below those that are named."""
    patterns = SETUPTOOLS["packages"]["find"]["include"]
    folders = (file.parent.relative_to(ROOT).parts for top in TOP for file in (ROOT / top).rglob("__init__.py"))
    return [name for name in map(".".join, folders) if any(fnmatchcase(name, pattern) for pattern in patterns)]


def test_the_packages_that_are_found_are_the_tree() -> None:
    folders = {
        module.parent
        for top in TOP
        for module in (ROOT / top).rglob("*.py")
        if "__pycache__" not in module.parts and EXAMPLES not in module.parents
    }
    assert sorted(packages()) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)


def test_every_data_file_is_shipped() -> None:
    listed = {
        path
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    kinds = {".cuh", ".hpp", ".cpp", ".svg", ".ttf", ".otf", ".json", ".md", ".onnx", ".txt"}
    present = set(EXAMPLES.glob("*.py")) | {
        path for top in ("engine", "resources", "views") for path in (ROOT / top).rglob("*") if path.suffix in kinds
    }
    assert present - listed == set()
    assert {path.suffix for path in listed} >= {".cuh", ".hpp", ".cpp", ".svg", ".onnx"}


def commands() -> list[str]:
    """The first line of every shell block of the README."""
    return [block.splitlines()[0] for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]


def test_the_readme_sets_up_everything_in_one_command_each() -> None:
    set_up = [line for line in commands() if line.startswith("python3 -m venv")]
    assert len(set_up) == 2
    assert set_up[0].endswith(".venv/bin/loomscope open")
    assert "pytest" in set_up[1]


def test_ci_runs_the_words_of_the_readme() -> None:
    tests = next(line for line in commands() if line.startswith("python3 -m venv") and "pytest" in line)
    assert tests in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_what_the_readme_shows_of_the_example_is_what_is_printed() -> None:
    line = next(line for line in README.splitlines() if line.startswith("bert_tiny: "))
    assert loomscope("fuse", "example").stdout.splitlines()[0] == line
    groups = len(document("fuse", "example")["groups"])
    assert f"\n{groups} pass, 0 fail, 0 unsupported\n" in README


def test_the_licence_is_the_full_text() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"
