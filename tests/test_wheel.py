"""The wheel, built from the tracked files, is installed into empty environments and used there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
REQUIRED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
CLEAN = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "QT_QPA_PLATFORM": "offscreen"}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, env=CLEAN, timeout=900
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def interpreter(version: str) -> str:
    """A Python of this version; skips where there is none."""
    if version == HERE:
        return sys.executable
    # pyenv's own `python3.12` on the path says no more than that it has one.
    known = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    found = next(map(str, known), None) or shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"there is no Python {version} here")
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of the tracked files, and the sdist with the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no git checkout: which files are tracked is unknown")
    names = listed.stdout.decode().split("\0")
    for name in filter(None, names):
        if not name.startswith("tests/"):
            target = folder / "tree" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    builder = folder / "builder"
    run(sys.executable, "-m", "venv", builder, cwd=folder)
    run(builder / "bin/pip", "wheel", "--quiet", "--no-deps", "-w", "dist", "./tree", cwd=folder)
    run(builder / "bin/pip", "install", "--quiet", *REQUIRED, cwd=folder)
    make = "from setuptools import build_meta; build_meta.build_sdist('../dist')"
    run(builder / "bin/python", "-c", make, cwd=folder / "tree")
    (source,) = (folder / "dist").glob("*.tar.gz")
    run(builder / "bin/pip", "wheel", "--quiet", "--no-deps", "-w", "from_source", source, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = (built / "dist").glob("*.whl")
    return found


def files(wheel: Path) -> dict[str, bytes]:
    """Name -> contents of what is installed."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


@pytest.mark.slow(sentinel=False)
def test_the_sdist_makes_the_same_wheel(built: Path, wheel: Path) -> None:
    (again,) = (built / "from_source").glob("*.whl")
    assert files(again) == files(wheel)
    assert "engine/py.typed" in files(wheel)


@pytest.mark.slow(sentinel=False)
def test_the_metadata_says_what_an_index_shows(wheel: Path) -> None:
    (text,) = (data for name, data in files(wheel).items() if name.endswith("/METADATA"))
    found = message_from_string(text.decode())
    assert (found["Name"], found["License-Expression"], found["Requires-Python"]) == (
        "loomscope", "Apache-2.0", ">=3.11",
    )  # fmt: skip
    assert {"gpu", "torch", "cluster", "learned", "sass", "test"} <= set(found.get_all("Provides-Extra", []))
    assert found["Keywords"] and "Typing :: Typed" in found.get_all("Classifier", [])
    required = [one for one in found.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert not any(one.startswith(("lightgbm", "torch", "pycuda", "distributed")) for one in required)


@pytest.mark.slow(sentinel=False)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_in_an_empty_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    python = interpreter(version)
    run(python, "-m", "venv", "env", cwd=tmp_path)
    run("env/bin/pip", "install", "--quiet", wheel, cwd=tmp_path)
    listed = run("env/bin/pip", "list", cwd=tmp_path)
    assert "lightgbm" not in listed and "pytest" not in listed
    assert "7 pass, 0 fail, 0 unsupported" in run("env/bin/loomscope", "verify", "example", cwd=tmp_path)
    run("env/bin/loomscope", "render", "example", "-o", "example.png", cwd=tmp_path)
    assert (tmp_path / "example.png").read_bytes().startswith(b"\x89PNG")
    tuned = run(
        "env/bin/loomscope", "tune", "example", "--group", "layernorm_0", "--trials", "12", "--strategy", "evolution",
        cwd=tmp_path,
    )  # fmt: skip
    assert "layernorm_0" in tuned, "the search goes on without the extra `learned`"
    assert run("env/bin/python", ROOT / "tests/support/qt_references.py", cwd=tmp_path).strip() == "{}"
    recipe = run("env/bin/loomscope", "recipe", "example", "-o", "-", cwd=tmp_path)
    assert recipe.startswith("{") and recipe.endswith("}\n")
    script = "import engine; print(engine.fuse(engine.load('suite:alcop/MM_RN50_FC')).groups[0].name)"
    assert run("env/bin/python", "-c", script, cwd=tmp_path).strip() == "matmul_0"
