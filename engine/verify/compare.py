"""Elements that a kernel made, held against those of a reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.graph.nodes import is_float
from engine.verify.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class ElementComparison:
    """Elements of one array, as they are and as they should be."""

    got: np.ndarray
    right: np.ndarray
    scale: float
    """Largest ordinary magnitude of the whole array."""
    tolerance: Tolerance
    """What the largest allowed error is, where elements have their own."""
    errors: np.ndarray
    """Of each element in the unit of the tolerance; 0 for an integer that is off as it may be."""
    wrong: np.ndarray
    """Which elements are off by more than they may be."""

    def within(self, limits: np.ndarray) -> ElementComparison:
        """The same where each element may also be off by its own limit, in the unit of the elements."""
        with np.errstate(invalid="ignore"):
            distance = np.abs(self.got.astype(np.float64) - self.right.astype(np.float64))
            excused = self.wrong & (distance <= limits)
        if not excused.any():
            return self
        wrong, because = self.wrong & ~excused, self.tolerance.because
        if not is_float(self.right.dtype):
            because = f"{because}; {int(excused.sum())} of {excused.size} integers lie where rounding decides"
            tolerance = Tolerance(self.tolerance.relative, because)
            return replace(self, errors=np.where(excused, 0.0, self.errors), wrong=wrong, tolerance=tolerance)
        grown = float((limits / (np.abs(self.right.astype(np.float64)) + self.scale))[excused].max())
        because = f"{because}; followed through these values, errors of some elements grow to {grown:.2g}"
        return replace(self, wrong=wrong, tolerance=Tolerance(max(grown, self.tolerance.relative), because))


def compare(tolerance: Tolerance, got: np.ndarray, right: np.ndarray, scale: float) -> ElementComparison:
    """Hold elements against the right ones.  scale: as in `ElementComparison`."""
    errors = tolerance.errors(got, right, scale)
    # `~ <=` instead of `>`: an error that is not a number is wrong.
    return ElementComparison(got, right, scale, tolerance, errors, ~(errors <= tolerance.relative))
