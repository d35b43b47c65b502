"""Random small graphs through the whole path: a kernel is right, or the refusal says why.  Nothing else may happen."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
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
        assert report.status == "pass", story


@pytest.mark.parametrize("seed", range(20))
def test_the_advisers_kernels_are_right(tmp_path: Path, seed: int) -> None:
    check_graph(seed, tmp_path, wishes=False)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_wishes_are_met_or_refused_with_a_reason(tmp_path: Path, seed: int) -> None:
    check_graph(seed, tmp_path, wishes=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2300))
@pytest.mark.parametrize("wishes", [False, True], ids=["advisers", "wishes"])
def test_many_more(tmp_path: Path, seed: int, wishes: bool) -> None:
    check_graph(seed, tmp_path, wishes)
