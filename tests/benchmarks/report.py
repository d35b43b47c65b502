"""What every benchmark says besides its rows: where it ran, and its JSON document."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from engine.tuning.statistics import rank_correlation


def environment(*packages: str) -> dict[str, Any]:
    """The machine and the versions of `packages`.  Times depend on what else runs: the load is part of it."""
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def write(
    path: Path, name: str, environment: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]
) -> None:
    """The document {name, environment, rows, summary}; a run that is ended meanwhile leaves the one before."""
    document = {"name": name, "environment": environment, "rows": rows, "summary": summary}
    beside = path.with_name(f".new-{path.name}")
    beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    beside.replace(path)


def figures_in_words(figures: Mapping[str, Any]) -> list[str]:
    """Each figure with its name: "share 0.975", "legal 198", "-" for one that there is not."""
    texts = {n: "-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for n, v in figures.items()}
    return [f"{name} {text}" for name, text in texts.items()]


def rank_figure(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation for a summary; None where there is no order.  Differences below 1e-6 are ties."""
    found = rank_correlation(*(np.round(np.array(values, float), 6) for values in (one, other)))
    return None if math.isnan(found) else found
