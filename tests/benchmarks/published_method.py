"""What a source's way of measuring adds to the time of a kernel: the intercept of its element-wise rows.

NeuSight times one call of PyTorch between two events on an idle GPU: the first event has passed before the host has
sent the kernel, so that its dispatch counts.  An element-wise kernel takes as long as its bytes need, so a line

    microseconds = added + elements / rate

through the rows of one such operator on one GPU says what is added, whatever any model says.  No row of a product is
looked at: those are what it is used for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from engine.support.units import MICROSECONDS
from engine.target import target
from tests.benchmarks.published_rows import Row

BY_EVENTS = ("neusight",)
"""Sources that time one call between events; the others time kernels alone, or many in a row."""
FEWEST = 10
"""Rows that say a line."""


def added_microseconds(rows: Sequence[Row]) -> Mapping[str, float]:
    """Source -> what it adds to a kernel, beyond the launch that our estimate counts; the median of its lines."""
    lines: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.source in BY_EVENTS and row.operator == "elementwise" and row.problem:
            line = lines[row.source, row.device, row.problem.operator]
            line.append((float(str(dict(row.problem.sizes)["elements"])), row.microseconds))
    found: dict[str, list[float]] = defaultdict(list)
    for (source, device, _), line in lines.items():
        if len(line) >= FEWEST:
            found[source].append(intercept(line) - target(device).empty_kernel * MICROSECONDS)
    return {source: max(0.0, median(values)) for source, values in found.items()}


def intercept(line: Sequence[tuple[float, float]]) -> float:
    """Of the line through (x, y) with the least squares of relative errors: long rows say no more than short ones."""
    x, y = np.array(line, float).T
    factors = np.stack([1 / y, x / y], axis=1)
    return float(np.linalg.lstsq(factors, np.ones(len(y)), rcond=None)[0][0])
