"""`loomscope generate`: a folder that stands alone, and a manifest with the keys that other programs read."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.semantics.single import Node, write_model
from tests.support.commands import document, loomscope

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    """Of the built-in model; "wall" is added: the seconds that the verb took."""
    start = time.perf_counter()
    found = document("generate", "example", "-o", str(folder))
    return {**found, "wall": time.perf_counter() - start}


def compiled(text: str, include: Path) -> str:
    """NVRTC's log; "" for text that compiles without a remark."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None)
    options = [b"--gpu-architecture=sm_80", b"--std=c++17", f"-I{include}".encode()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    return f"{status.name} {log.decode()}" if status != nvrtc.nvrtcResult.NVRTC_SUCCESS else ""


@pytest.mark.slow(sentinel=True)
def test_every_file_compiles_with_the_folders_own_include(manifest: dict[str, Any], folder: Path) -> None:
    files = sorted(path.name for path in folder.glob("*.cu"))
    assert files == sorted(kernel["file"] for kernel in manifest["kernels"])
    for kernel in manifest["kernels"]:
        text = (folder / kernel["file"]).read_text()
        assert re.search(rf"\b{kernel['entry']}\(", text)
        assert re.findall(r'#include "(.*)"', text) == ["loom.cuh"]
        assert compiled(text, folder / "include") == ""
    assert compiled(text, folder) != "", "without include/ it must not compile"


def test_a_kernel_has_exactly_these_figures(manifest: dict[str, Any]) -> None:
    for kernel in manifest["kernels"]:
        assert kernel.keys() == {
            "group", "file", "entry", "grid", "block", "shared_bytes", "tensor_cores", "stages", "parameters",
            "workspaces", "compiled", "relaxed", "launches",
        }  # fmt: skip
        assert kernel["stages"].keys() == {"shared", "register"}
        assert kernel["compiled"].keys() == {"sm_80", "sm_90a"}
        for figures in kernel["compiled"].values():
            assert figures.keys() == {"registers", "spill_bytes", "runs_on"}
            assert figures["registers"] > 0 and figures["spill_bytes"] == 0


def test_a_pointer_s_alignment_is_that_of_the_widest_access_in_the_text(
    manifest: dict[str, Any], folder: Path
) -> None:
    """Counted in the text: an access of N elements, or a copy of N bytes, through the accessor of a pointer: its own,
    or one that takes it for some blocks."""
    for kernel in manifest["kernels"]:
        text = (folder / kernel["file"]).read_text()
        for p in (*kernel["parameters"], *kernel["workspaces"]):
            size = np.dtype(p["dtype"]).itemsize
            accessors = re.findall(rf"Global<[^>]*> (\w+)\([^,]*\b{p['parameter']}\b", text)
            name = f"(?:{'|'.join(accessors)})"
            assert p["parameter"].removesuffix("_") in accessors
            wide = [int(n) * size for n in re.findall(rf"\b{name}\.(?:load|store)<(\d+)>", text)]
            copied = [int(n) for n in re.findall(rf"async_copy<(\d+)>\(\w+, .*?, {name}, ", text)]
            assert p["alignment"] == max([size, *wide, *copied]), (kernel["group"], p["name"])


def test_workspaces_follow_the_parameters(manifest: dict[str, Any], folder: Path) -> None:
    (kernel,) = (k for k in manifest["kernels"] if k["workspaces"])
    keys = {"name", "parameter", "dtype", "elements", "bytes", "alignment", "zeroed"}
    assert all(w.keys() == keys for w in kernel["workspaces"])
    text = (folder / kernel["file"]).read_text()
    (signature,) = re.findall(rf"^{kernel['entry']}\((.*)\)$", text, re.MULTILINE)
    declared = [words.split()[-1] for words in signature.split(",")]
    assert declared == [p["parameter"] for p in (*kernel["parameters"], *kernel["workspaces"])]
    found = {w["name"]: (w["bytes"] - 4 * w["elements"], w["alignment"], w["zeroed"]) for w in kernel["workspaces"]}
    assert found == {"parts": (0, 8, False), "arrivals": (0, 4, True)}  # pairs of floats, counters


def test_seconds_are_what_the_stages_took(manifest: dict[str, Any]) -> None:
    seconds = manifest["seconds"]
    assert list(seconds) == ["load", "fuse", "schedule", "print", "compile"]
    assert all(spent > 0 for spent in seconds.values())
    assert sum(seconds.values()) <= manifest["wall"]


def test_launches_read_only_what_is_there(manifest: dict[str, Any]) -> None:
    roles = {buffer["name"]: buffer["role"] for buffer in manifest["buffers"]}
    assert set(roles.values()) == {"input", "constant", "intermediate", "output"}
    kernels = {kernel["group"]: kernel for kernel in manifest["kernels"]}
    ready = {name for name, role in roles.items() if role in ("input", "constant")}
    for launch in manifest["launches"]:
        parameters = {p["name"] for p in kernels[launch["group"]]["parameters"]}
        assert parameters == launch["arrays"].keys()
        outputs = set(launch["arrays"].values()) - ready
        assert outputs <= roles.keys()
        ready |= outputs
    assert {name for name, role in roles.items() if role == "output"} <= ready


def test_the_manifest_is_in_the_folder(manifest: dict[str, Any], folder: Path) -> None:
    written = json.loads((folder / "manifest.json").read_text())
    assert written == {key: value for key, value in manifest.items() if key not in ("schema", "wall")}


def test_the_table_names_every_file(folder: Path, manifest: dict[str, Any]) -> None:
    done = loomscope("generate", "example", "-o", str(folder))
    assert done.returncode == 0
    assert all(kernel["file"] in done.stdout for kernel in manifest["kernels"])


def test_entries_that_a_kernel_did_not_take_are_told(tmp_path: Path) -> None:
    """Softened entries cost nothing but the wish: the kernels are written, and stderr and manifest say what became."""
    path = tmp_path / "recipe.json"
    assert loomscope("recipe", "example", "-o", str(path)).returncode == 0
    recipe = json.loads(path.read_text())
    group = next(iter(recipe["groups"]))
    wish = {"statements": ["S0"], "dimension": "innermost", "field": "mark", "value": ["stages", 3]}
    advice = {"author": "user", "scenario": {"entries": [wish]}}
    recipe["groups"][group].append(advice)
    path.write_text(json.dumps(recipe))
    chosen = ("--recipe", str(path), "--group", group, "--json")
    done = loomscope("generate", "example", "-o", str(tmp_path / "k"), *chosen)
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    (entry,) = (e for e in kernel["relaxed"] if e["author"] == "user")
    assert "mark stages 3" in entry["entry"] and entry["because"]
    assert f"{group}: user's “{entry['entry']}” is relaxed: {entry['because']}" in done.stderr


def test_a_group_without_a_kernel_is_named_and_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks than a launch has, as if it had but one; the other kernels are written all the same."""
    monkeypatch.setattr("engine.kernels.families.MAX_GRID", 1)
    nodes: list[Node] = [("Relu", ["x"], ["y"], {}), ("Softmax", ["z"], ["w"], {})]
    inputs = {"x": ("float16", (2**30,)), "z": ("float16", (4, 64))}
    path, out = str(write_model(tmp_path / "large.onnx", nodes, inputs, ["y", "w"])), tmp_path / "out"
    for more in ((), ("--json",)):
        done = loomscope("generate", path, "-o", str(out), *more)
        assert done.returncode == 1
        assert "relu_0: there is no kernel: has 1,048,576 blocks, a launch has 1 at most" in done.stderr
        found = json.loads((out / "manifest.json").read_text())
        assert list(found["unsupported"]) == ["relu_0"]
        assert [kernel["group"] for kernel in found["kernels"]] == ["softmax_0"] and (out / "softmax_0.cu").is_file()
    assert json.loads(done.stdout)["unsupported"] == found["unsupported"]
    whole = loomscope("generate", path, "-o", str(out), "--group", "softmax_0")
    assert (whole.returncode, whole.stderr) == (0, "")
