"""Functions that NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

_erf = np.frompyfunc(math.erf, 1, 1)
_TABLE_STEP = 1.0 / 512
_TABLE_END = 6.0


def erf(x: np.ndarray) -> np.ndarray:
    """The error function to about 1e-15, in float64 for float64 operands and in float32 otherwise.

    A table of exact values and a Taylor step of four terms from the nearest entry: large arrays would take the scalar
    `math.erf` seconds.  Derivatives are erf' = 2/sqrt(pi) exp(-x^2) times Hermite polynomials.
    """
    kind = np.float64 if x.dtype == np.float64 else np.float32
    wide = np.clip(np.asarray(x, np.float64), -_TABLE_END, _TABLE_END)
    if wide.size < 4096:
        return np.asarray(_erf(wide), np.float64).reshape(x.shape).astype(kind)
    at = np.rint(wide / _TABLE_STEP)
    table = np.array([math.erf(k * _TABLE_STEP) for k in range(-int(_TABLE_END * 512), int(_TABLE_END * 512) + 1)])
    centre = at * _TABLE_STEP
    h = wide - centre
    slope = 2 / math.sqrt(math.pi) * np.exp(-centre * centre)
    c2 = centre * centre
    terms = 1 - h * (centre - h * ((2 * c2 - 1) / 3 - h * (centre * (2 * c2 - 3) / 6)))
    with np.errstate(invalid="ignore"):
        found = table[np.nan_to_num(at).astype(np.int64) + int(_TABLE_END * 512)] + slope * h * terms
    return np.where(np.isnan(x), np.nan, found).astype(kind)
