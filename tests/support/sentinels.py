"""Loops over many real cases: a few stand in the normal run, the others are marked slow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def sentinels(cases: Iterable[object], kept: int) -> list[Any]:
    """The cases as parameters of a test: `kept` of them, spread evenly, run always; all run with `-m slow or not slow`.

    A case that is a tuple gives several parameters, as in `pytest.mark.parametrize`.
    """
    every = list(cases)
    chosen = {n * len(every) // kept for n in range(min(kept, len(every)))}
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if n in chosen else pytest.mark.slow)
        for n, case in enumerate(every)
    ]


def shipped_models(slow: str = "jacobi_2d") -> list[Any]:
    """The shipped ONNX files; those with `slow` in the name, stencils of hundreds of operators, run with `-m slow`."""
    models = Path(__file__).parents[2] / "resources" / "models"
    return [
        pytest.param(path, id=path.stem, marks=pytest.mark.slow(sentinel=False) if slow in path.stem else ())
        for path in sorted(models.glob("*.onnx"))
    ]
