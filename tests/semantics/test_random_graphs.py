"""Random small graphs through the whole path: a kernel is right, or the refusal says why.  Nothing else may happen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionGroup
from engine.tensor.evaluate import evaluate
from engine.verify.values import group_values
from tests.semantics.random_graphs import RandomGraph, random_entries


def check_graph(seed: int, folder: Path, wishes: bool) -> None:
    """Every group of the seed's graph, under the advisers' recipe or with random wishes on top."""
    drawn = RandomGraph(seed)
    plan = engine.fuse(engine.load(drawn.write(folder / f"graph{seed}.onnx")))
    assert not plan.unsupported, drawn
    for number, group in enumerate(plan.groups):
        recipe = engine.default_recipe(group)
        entries = random_entries(group, seed * 100 + number) if wishes else []
        if entries:
            recipe = recipe.advise("user", *entries)
        try:
            kernel = engine.compile(group, recipe)
        except (engine.Unsupported, engine.Illegal) as refusal:
            assert wishes and refusal.reason, f"{refusal}\n{group.program}\n{drawn}"
            continue
        report = engine.check(kernel)
        story = "\n".join([report.message, *map(str, entries), str(drawn), kernel.source.text])
        wrong = [f for f in report.findings if f.kind != "wrong result"]
        allowed = report.tolerance * (1 if report.status == "pass" else cancellation(group))
        assert report.status in ("pass", "fail") and not wrong and report.max_error <= allowed, story


def cancellation(group: FusionGroup) -> float:
    """How much larger than the results the values are that they were computed from: differences keep their errors."""
    expected, before = group_values(group)
    given = {n: {**expected, **before}[n].reshape(group.program.arrays[n].shape) for n in group.program.inputs}
    sizes = {
        name: float(np.abs(value).max())
        for name, value in {**given, **evaluate(group.program, given, exact=True)}.items()
        if value.dtype.kind == "f"
    }
    results = [sizes[name] for name in group.program.outputs if name in sizes]
    return max(sizes.values()) / max(min(results), 1e-30) if results else 1.0


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(20))
def test_the_advisers_kernels_are_right(tmp_path: Path, seed: int) -> None:
    check_graph(seed, tmp_path, wishes=False)


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_wishes_are_met_or_refused_with_a_reason(tmp_path: Path, seed: int) -> None:
    check_graph(seed, tmp_path, wishes=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2300))
@pytest.mark.parametrize("wishes", [False, True], ids=["advisers", "wishes"])
def test_many_more(tmp_path: Path, seed: int, wishes: bool) -> None:
    check_graph(seed, tmp_path, wishes)
