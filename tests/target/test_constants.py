"""Each hardware constant and register base is assigned in one module; shared memory is limited GPU by GPU."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.target import DEFAULT_TARGET, DEVICES, hardware, registers
from tests.kernels.test_tensor_cores import product_group
from tests.support.sources import ROOT, trees

WIDE = """advice user
  required all @ k: mark intrinsic mma_m16n8k16_f16
  required all @ i: mark block 256
  required all @ j: mark block 256
  required all @ i: mark warp 64
  required all @ j: mark warp 64
  required all @ k: mark tile 32
  required all @ k: mark stages 6
"""
"""Six stages of 32 KiB on tensor cores: 192 KiB of shared memory."""


def assigned(module: Path) -> set[str]:
    """Names in capitals that a module assigns at its top level."""
    found: set[str] = set()
    for statement in trees()[module].body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [n for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)]
        found |= {name.id.lstrip("_") for name in names if name.id.isupper()}
    return found


@cache
def homes() -> dict[str, list[str]]:
    """Name in capitals -> the modules that assign it."""
    found: dict[str, list[str]] = {}
    for path in trees():
        for name in assigned(path):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("module", [hardware, registers], ids=lambda module: module.__name__)
def test_a_hardware_constant_is_assigned_once(module: object) -> None:
    own = Path(str(module.__file__))  # type: ignore[attr-defined]
    names = assigned(own)
    assert {"WARP", "MAX_THREADS", "SECTOR", "SCHEDULERS", "SUM_BYTES"} <= assigned(Path(hardware.__file__))
    assert {name: homes().get(name) for name in names} == {name: [str(own.relative_to(ROOT))] for name in names}


@pytest.mark.parametrize("name", ["SHARED_BYTES", "BESIDE", "BASE_REGISTERS", "FRAGMENT", "OLDEST"])
def test_no_module_has_a_limit_or_a_base_of_its_own(name: str) -> None:
    assert name not in homes()


def test_the_limit_of_shared_memory_is_a_figure_of_each_target() -> None:
    literals = {
        str(path.relative_to(ROOT))
        for path, tree in trees().items()
        if path.is_relative_to(ROOT / "engine")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in (163, 227, 163 * 1024, 227 * 1024)
    }
    assert literals == {"engine/target/devices.py"}
    assert [DEVICES[name].shared_limit for name in ("h200", "h100", "a100")] == [232_448, 232_448, 166_912]


def test_no_function_of_the_engine_but_fuse_has_a_default_target() -> None:
    found = {
        f"{path.relative_to(ROOT)} {node.name}"
        for path, tree in trees().items()
        if path.is_relative_to(ROOT / "engine")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults))
        if isinstance(default, ast.Name) and (default.id == "DEFAULT_TARGET" or default.id.lower() in DEVICES)
    }
    assert found == {"engine/api.py fuse"}


def test_a_kernel_for_the_h200_has_more_shared_memory_than_an_a100_allows(tmp_path: Path) -> None:
    """It computes what it should; the same request for an A100 is refused with both figures."""
    group = product_group(tmp_path, (256, 256), (256, 256))
    for name in (DEFAULT_TARGET, "a100"):
        recipe = engine.merge_advice(engine.default_recipe(group, name), group, WIDE)
        if name == DEFAULT_TARGET:
            kernel = engine.compile(group, recipe)
            assert DEVICES["a100"].shared_limit < kernel.source.shared_bytes <= kernel.target.shared_limit
            assert kernel.tile.stages == 6 and engine.check(kernel).status == "pass"
        else:
            with pytest.raises(engine.EngineError) as refused:
                engine.compile(group, recipe)
            assert "6 stages need 196,608 bytes of shared memory, a block may have 166,912" in str(refused.value)
