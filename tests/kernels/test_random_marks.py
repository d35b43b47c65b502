"""Random marks, splits and pins on random graphs: whatever is asked for, the kernel computes the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import engine
from tests.semantics.random_graphs import RandomGraph
from tests.support.needs import needs_compiler

NUMBERS = {
    "split": (2, 3, 4, 8, 16), "vector": (2, 4, 8), "unroll": (1, 2, 4), "thread": (32, 64, 96), "block": (1, 3, 100),
    "lane": (4, 16, 64), "warp": (2, 4), "tile": (32,),
}  # fmt: skip


def wishes(source: random.Random, group: engine.FusionGroup) -> str:
    """One to five entries about the group's iterators."""
    names = sorted({i.name for s in group.program.statements for i in s.iterators})
    lines = []
    for _ in range(source.randint(1, 5)):
        at = source.choice([*names, "innermost", "outermost"])
        wish = source.choice([*NUMBERS, "vector", "pin"])
        if wish == "pin":
            lines.append(f"all @ {at}: pin {source.choice(names)}")
        else:
            number = source.choice(NUMBERS[wish])
            lines.append(f"all @ {at}: {'split' if wish == 'split' else f'mark {wish}'} {number}")
    return "advice user\n" + "".join(f"  {line}\n" for line in lines)


def check_seed(seed: int, folder: Path) -> int:
    """Check every group of a random graph under random advice, over the advisers' or alone; how many were checked."""
    source, checked = random.Random(seed), 0
    for group in engine.fuse(engine.load(RandomGraph(seed).write(folder / "g.onnx"))).groups:
        if not any(s.iterators for s in group.program.statements):
            continue
        recipe = engine.default_recipe(group)
        if source.random() < 0.5:
            recipe = recipe.with_group(group.name, ())
        text = wishes(source, group)
        try:
            kernel = engine.compile(group, engine.merge_advice(recipe, group, text))
        except engine.Unsupported:  # an order of loops that no kernel has
            continue
        check = engine.check(kernel)
        assert check.status == "pass", f"{group.name} under {text}: {check.message}\n{kernel.source.text}"
        checked += 1
    return checked


@needs_compiler
def test_random_marks(tmp_path: Path) -> None:
    assert sum(check_seed(seed, tmp_path) for seed in range(16)) >= 16


@needs_compiler
@pytest.mark.parametrize("seed", [337, 420], ids=["one step beside more", "halves that are moved alone"])
def test_what_was_found_stays_mended(seed: int, tmp_path: Path) -> None:
    """Statements of one step ran as often as others of more; a launch that only moves elements mixed two types."""
    assert check_seed(seed, tmp_path)


@needs_compiler
@pytest.mark.slow
def test_many_random_marks(tmp_path: Path) -> None:
    assert sum(check_seed(seed, tmp_path) for seed in range(8, 480)) >= 500
