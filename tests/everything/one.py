"""One file in a process of its own: `python -m tests.everything.one FILE [--whole]` prints its row as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import engine
from engine import EngineError, Unsupported
from tests.everything import kept


def main(arguments: Sequence[str] | None = None) -> None:
    """Check a file and print its row."""
    name, *options = sys.argv[1:] if arguments is None else arguments
    row = whole(Path(name)) if "--whole" in options else kernels(Path(name))
    print(json.dumps(row))


def kernels(path: Path) -> dict[str, Any]:
    """Check every kernel of a file: how many passed, and every other one with its reason."""
    start = time.perf_counter()
    row: dict[str, Any] = {"groups": 0, "passed": 0, "cached": 0, "problems": []}
    try:
        graph = engine.load(path)
        plan = engine.fuse(graph)
    except EngineError as error:
        row["problems"].append(_problem("", error))
    else:
        row["groups"] = len(plan.groups)
        row["problems"] += [
            {"group": name, "status": "unsupported", "message": reason} for name, reason in plan.unsupported.items()
        ]
        for group in plan.groups:
            _check(group, graph, row)
    return {**row, "seconds": round(time.perf_counter() - start, 2)}


def _check(group: engine.FusionGroup, graph: engine.OperatorGraph, row: dict[str, Any]) -> None:
    """Check a group, or remember that it was checked, and enter what came of it."""
    start = time.perf_counter()
    try:
        kernel = engine.compile(group)
        key = kept.key_of(kernel, graph)
    except EngineError as error:
        row["problems"].append(_problem(group.name, error))
        return
    if kept.recall(key):
        row["cached"] += 1
        row["passed"] += 1
        return
    found = engine.check(kernel)
    if found.status == "pass":
        row["passed"] += 1
        spent = time.perf_counter() - start
        counted = (found.blocks_run, found.blocks_total, found.elements_compared, found.max_error)
        kept.keep(key, kept.Passed(*counted, seconds=round(spent, 2)))
    else:
        row["problems"].append({"group": group.name, "status": found.status, "message": found.message})


def whole(path: Path) -> dict[str, Any]:
    """Run a model end to end and compare its outputs."""
    start = time.perf_counter()
    graph = engine.load(path)
    plan = engine.fuse(graph)
    recipe = engine.default_recipe(plan)
    key = kept.whole_key(plan, recipe, path)
    row: dict[str, Any] = {"launches": len(plan.launches), "outputs": len(graph.outputs), "problems": []}
    if before := kept.recall(key):
        return {**row, **asdict(before), "cached": 1}
    try:
        found = engine.check_model(graph, plan, recipe)
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
    if found.status == "pass":
        kept.keep(key, passed)
    return {**row, **asdict(passed), "cached": 0}


def _problem(group: str, error: EngineError) -> dict[str, str]:
    status = "unsupported" if isinstance(error, Unsupported) else "fail"
    return {"group": group, "status": status, "message": str(error)}


if __name__ == "__main__":
    main()
