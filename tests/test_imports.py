"""Every module can be imported under a name of its own, and a process loads what it needs."""

from __future__ import annotations

import ast
import importlib.util
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from inspect import unwrap
from operator import attrgetter
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).parents[1]
MODULES = [
    found.name
    for top in ("app", "engine", "views")
    for found in pkgutil.walk_packages([str(ROOT / top)], f"{top}.")
    if not found.name.endswith("__main__")
    # Of these only the verbs can be imported without the extra `torch`.
    and (not found.name.startswith("engine.pytorch.") or found.name == "engine.pytorch.api")
]
HEAVY = (
    "onnx", "onnxruntime", "islpy", "highspy", "networkx", "engine.api", "engine.compilation",
    "engine.kernels.families", "engine.kernels.family", "engine.kernels.marks", "engine.scheduling.solve",
    "engine.tile.printer", "engine.tensor.operators", "lightgbm",
)  # fmt: skip
"""What the window's process leaves to its worker: readers of models, the compiler, solvers."""


LATER = (
    "engine.explore", "engine.kernels.space", "engine.cost.estimate", "engine.tile.nodes", "engine.tuning.strategy",
    "pyqtgraph",
)  # fmt: skip
"""What the window's process imports when something asks for it, so that it is on the screen sooner."""


def loaded_by(statement: str) -> set[str]:
    """The modules that a new process has after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.slow(sentinel=True)
def test_every_module_can_be_imported_under_a_name_of_its_own() -> None:
    """`import engine.a.b as c` fails where a package's name is taken by a function of its parent."""
    code = "\n".join(f"import {name} as c; assert c.__name__ == {name!r}, {name!r}" for name in MODULES)
    loaded_by(code)


def test_no_module_of_the_engine_has_the_name_of_a_verb() -> None:
    modules = {name.split(".")[1] for name in MODULES if name.startswith("engine.")}
    assert modules & ({*engine.__all__, "schedule", "run"}) == set()


def test_the_library_loads_nothing_until_a_name_is_asked_for() -> None:
    assert {name for name in loaded_by("import engine") if name.startswith("engine")} == {"engine"}


@pytest.mark.parametrize("name", [*HEAVY, *LATER])
def test_what_is_kept_out_exists(name: str) -> None:
    """A module that was renamed would be kept out of nothing."""
    assert importlib.util.find_spec(name)


@pytest.mark.parametrize("module", ["app.shell.main", "app.cli.main", "app.session.dimensions"])
def test_neither_window_nor_command_line_nor_its_options_start_with_the_compiler(module: str) -> None:
    assert loaded_by(f"import {module}") & set(HEAVY) == set()


@pytest.mark.slow(sentinel=True)
def test_the_window_is_there_before_what_it_needs_later() -> None:
    loaded = loaded_by("from app.shell.main import application, make_window\napplication(); make_window().show()")
    assert loaded & {*HEAVY, *LATER} == set()


def test_the_window_asks_the_model_of_knobs_without_the_compiler() -> None:
    assert loaded_by("from engine.explore.what_if import what_if_of_chart") & set(HEAVY) == set()


def test_every_name_of_the_library_comes_from_the_module_that_type_checkers_are_told() -> None:
    tree = ast.parse(Path(engine.__file__).read_text(encoding="utf-8"))
    checked = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name for _, name in checked} == set(engine.__all__) and len(checked) == len(engine.__all__)
    assert all(unwrap(getattr(engine, name)) is getattr(import_module(str(module)), name) for module, name in checked)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        attrgetter("nothing")(engine)
