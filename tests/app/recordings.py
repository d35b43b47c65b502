"""Files of times that no GPU ever made: samples drawn from a seeded generator, and called synthetic.

`python -m tests.app.recordings` writes the one that is shipped, for the built-in example.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

import engine
from engine.cost.nodes import Work
from engine.documents.model import ModelDoc
from engine.execution.statistics import summarise
from engine.present.model import model_doc

DATE = "2026-11-18T09:12:00+00:00"
DEVICE = "NVIDIA H200"
ROUNDS = 10


def samples(median: float, count: int, seed: int, spread: float = 0.01) -> list[float]:
    """Times with a fixed floor and a long tail, as kernels have them: microseconds."""
    drawn = np.random.default_rng(seed).gamma(2.0, 0.5, count)
    return [round(float(value), 4) for value in median * (1 + spread * (drawn - 0.84))]


def entry(
    median: float, count: int = 200, seed: int = 0, spread: float = 0.01, origin: str = "synthetic"
) -> dict[str, Any]:
    """One system's times, with what a GPU would have said after each round."""
    taken = samples(median, count, seed, spread)
    found = summarise(taken)
    states = [
        {"seconds": 0.1 * n, "sm_clock": 1980 - 15 * (n > 6), "memory_clock": 3201, "temperature": 41 + n // 2,
         "power": 300.0}
        for n in range(ROUNDS)
    ]  # fmt: skip
    return {
        "origin": origin, "microseconds": found.median, "low": found.low, "high": found.high, "samples": taken,
        "rounds": ROUNDS, "noise": found.noise, "states": states,
        "environment": {"device": DEVICE, "date": DATE, "method": "made up"},
    }  # fmt: skip


def of_model(model: ModelDoc, count: int = 200, origin: str = "synthetic", factor: float = 1.06) -> dict[str, Any]:
    """A document of `measure --json`: every group takes a little longer than predicted."""
    kernels = [
        {"group": group.name, "instances": group.instances,
         **entry(group.time.microseconds * factor, count, seed, origin=origin)}
        for seed, group in enumerate(model.groups)
        if group.time
    ]  # fmt: skip
    return {"schema": 1, "environment": {"model": model.name}, "kernels": kernels}


def launch(group: str, advice: str) -> dict[str, Any]:
    """What a file says of the kernel behind a time."""
    counts = {one.name: 1 for one in fields(Work) if one.default is MISSING}
    return {"group": group, "kind": "row", "count": 1, "facts": counts, "advice": advice}


def of_suite(rows: Sequence[str] = ("suite:made/up",), **systems: float) -> dict[str, Any]:
    """A document of the GPU benchmark: system -> median of its times."""
    measured = [
        {"row": row, "flops": 1000, "bytes": 1000, "floor_microseconds": 1.0, "bound": "memory",
         "systems": {name: entry(median, seed=seed) for seed, (name, median) in enumerate(systems.items())}}
        for row in rows
    ]  # fmt: skip
    return {"name": "gpu", "environment": {"device": DEVICE, "date": DATE}, "rows": measured, "summary": {}}


def written(document: dict[str, Any], folder: Path, name: str = "times.json") -> str:
    """The document as a file; its path."""
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def main() -> None:
    """Writes resources/measurements/synthetic/bert_tiny.json."""
    root = Path(__file__).resolve().parents[2] / "resources"
    graph = engine.load(str(root / "models" / "bert_tiny.onnx"))
    document = of_model(model_doc(graph, engine.fuse(graph)), count=80)
    (root / "measurements" / "synthetic" / "bert_tiny.json").write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
