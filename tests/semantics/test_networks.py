"""Real networks are whole: every operator of them is in a kernel, and every kernel compiles."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import engine
from tests.support.sentinels import sentinels

SHARED = Path(__file__).parents[3] / "shared" / "models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = [*sorted(SHARED.glob("*.onnx")), *sorted(LIGHT.glob("light_*.onnx"))]


def test_the_networks_are_there() -> None:
    assert len(list(LIGHT.glob("light_*.onnx"))) == 9
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is absent: the real graphs are not shipped")
    assert len(list(SHARED.glob("*.onnx"))) == 29


@pytest.mark.few(1)
@pytest.mark.parametrize("path", sentinels(NETWORKS, 10), ids=lambda path: path.stem)
def test_every_operator_is_in_a_kernel(path: Path) -> None:
    graph = engine.load(path)
    plan = engine.fuse(graph)
    assert plan.unsupported == {}
    covered = {name for group in plan.groups for instance in group.instances for name in instance.operators}
    assert {op.name for op in graph.operators} <= covered
    assert len(plan.launches) == sum(len(group.instances) for group in plan.groups)


@pytest.mark.slow
@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.stem)
def test_every_kernel_compiles(path: Path) -> None:
    for group in engine.fuse(engine.load(path)).groups:
        assert "__global__" in engine.compile(group).source.text, group.name
