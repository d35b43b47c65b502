"""Processor time from a file to the texts of all its kernels, in units that another machine leaves alone.

A loop of plain Python is timed beside it; what the plan, the recipes and the texts took at commit c3aab03 is known in
loops (2026-11-27: `engine` of that commit and of now by turns on one machine, three times).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import engine
from engine.support.errors import Unsupported

MODELS = Path(__file__).parents[3] / "shared" / "models"
LOOPS = {"bert_base_fp16_b8_s128": 8.7, "llama_2l_fp16_b2_s128_op20": 7.75, "resnet50_b8": 11.7}
"""Loops that c3aab03 took for a100."""
WARM = "suite:alcop/MM_RN50_FC"
"""What is compiled first, so that imports are not counted: they take as long as they did."""
ROUNDS, TURNS = 5, 200_000


def over_before() -> tuple[float, str]:
    """How many times what c3aab03 took a model takes now, at worst; and each, for people."""
    if not MODELS.is_dir():
        raise Unsupported("front end", str(MODELS), "is absent", "lay the shared files beside the repository")
    _texts(WARM)
    loop = min(_seconds(_loop) for _ in range(ROUNDS))
    found = {name: _seconds(lambda n=name: _texts(str(MODELS / f"{n}.onnx"))) / loop / LOOPS[name] for name in LOOPS}
    return max(found.values()), ", ".join(f"{name} {times:.2f}" for name, times in found.items())


def _texts(file: str) -> None:
    plan = engine.fuse(engine.load(file), "a100")
    recipe = engine.default_recipe(plan)
    for group in plan.groups:
        engine.compile(group, recipe)


def _seconds(work: Callable[[], None]) -> float:
    """Of the processor."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _loop() -> None:
    """What compilers written in Python do most: small tuples, dictionaries, calls, text."""
    found: dict[tuple[int, int], int] = {}
    for turn in range(TURNS):
        key = turn % 997, turn & 7
        found[key] = found.get(key, 0) + len(str(turn))
