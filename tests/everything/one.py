"""One file in a process of its own: `python -m tests.everything.one FILE [--level L] [--target T] [--whole]` prints its
row."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import engine
from engine import EngineError, Unsupported
from engine.cpu.nodes import AnyKernel
from engine.target import DEFAULT_TARGET
from engine.target.machines import is_cpu
from tests.everything import kept
from tests.everything.files import SIZES


def main(arguments: Sequence[str] | None = None) -> None:
    """Check a file and print its row."""
    parser = argparse.ArgumentParser(prog="python -m tests.everything.one")
    parser.add_argument("file", type=Path)
    parser.add_argument("--level", default="source")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--target", default=DEFAULT_TARGET)
    options = parser.parse_args(arguments)
    levels = ("source", "ptx") if options.level == "both" else (options.level,)
    check = whole if options.whole else kernels
    row = check(options.file, levels, options.target)
    print(json.dumps(row))


def kernels(path: Path, levels: Sequence[str] = ("source",), target: str = DEFAULT_TARGET) -> dict[str, Any]:
    """Check every kernel of a file: how many passed at all levels, and every other one with its reason."""
    start = time.perf_counter()
    row: dict[str, Any] = {"groups": 0, "passed": 0, "cached": 0, "problems": []}
    try:
        graph = engine.load(path, SIZES.get(path.stem))
        plan = engine.fuse(graph, target=target)
    except EngineError as error:
        row["problems"].append(_problem("", error))
    else:
        row["groups"] = len(plan.groups)
        row["problems"] += [
            {"group": name, "status": "unsupported", "message": reason} for name, reason in plan.unsupported.items()
        ]
        for group in plan.groups:
            _check(group, graph, levels, row)
    return {**row, "seconds": round(time.perf_counter() - start, 2)}


def _check(group: engine.FusionGroup, graph: engine.OperatorGraph, levels: Sequence[str], row: dict[str, Any]) -> None:
    """Check a group, or remember that it was checked, and enter what came of it."""
    try:
        kernel = engine.compile(group)
        remembered = [_passed(kernel, graph, level) for level in levels]
    except (EngineError, _Failed) as error:
        row["problems"].append(_problem(group.name, error))
        return
    row["passed"] += 1
    row["cached"] += all(remembered)


class _Failed(Exception):
    """A check that ended otherwise than with "pass"."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def _passed(kernel: AnyKernel, graph: engine.OperatorGraph, level: str) -> bool:
    """Whether it was known already that a kernel passes; raises `_Failed` where it does not."""
    start = time.perf_counter()
    key = kept.key_of(kernel, graph, level) if isinstance(kernel, engine.Kernel) else ""  # others run as fast as that
    if key and kept.recall(key):
        return True
    found = engine.check(kernel, level=level)
    if found.status != "pass":
        raise _Failed(found.status, f"{level}: {found.message}")
    counted = (found.blocks_run, found.blocks_total, found.elements_compared, found.max_error)
    if key:
        kept.keep(key, kept.Passed(*counted, seconds=round(time.perf_counter() - start, 2)))
    return False


def whole(path: Path, levels: Sequence[str] = ("source",), target: str = DEFAULT_TARGET) -> dict[str, Any]:
    """Run a model end to end at each level and compare its outputs; the figures are those of the last level."""
    rows = [_whole(path, level, target) for level in levels]
    return {**rows[-1], "problems": [one for row in rows for one in row["problems"]]}


def _whole(path: Path, level: str, target: str) -> dict[str, Any]:
    start = time.perf_counter()
    graph = engine.load(path, SIZES.get(path.stem))
    plan = engine.fuse(graph, target=target)
    recipe = engine.default_recipe(plan)
    row: dict[str, Any] = {"launches": len(plan.launches), "outputs": len(graph.outputs), "problems": []}
    key = "" if is_cpu(target) else kept.whole_key(plan, recipe, path, level)
    before = kept.recall(key) if key else None
    if before:
        return {**row, **asdict(before), "cached": 1}
    try:
        found = engine.check_model(graph, plan, recipe, level=level)
    except EngineError as error:
        row["problems"].append(_problem("", error))
        return {**row, "seconds": round(time.perf_counter() - start, 2), "cached": 0}
    row["problems"] += [
        {"group": c.group, "status": c.status, "message": c.message} for c in found.checks if c.status != "pass"
    ]
    worst = max(found.checks, key=lambda check: check.max_error)
    compared = sum(check.elements_compared for check in found.checks)
    blocks = worst.blocks_run
    passed = kept.Passed(blocks, blocks, compared, worst.max_error, round(time.perf_counter() - start, 2))
    if key and found.status == "pass":
        kept.keep(key, passed)
    return {**row, **asdict(passed), "cached": 0}


def _problem(group: str, error: EngineError | _Failed) -> dict[str, str]:
    status = error.status if isinstance(error, _Failed) else "unsupported" if isinstance(error, Unsupported) else "fail"
    return {"group": group, "status": status, "message": str(error)}


if __name__ == "__main__":
    main()
