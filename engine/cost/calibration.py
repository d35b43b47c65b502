"""Predictions with the figures that the user's files of times gave, where there are any.

`engine.calibration` fits figures of a target to measured or published times; this module keeps them in the user's data
folder, one file a target, and every prediction for that target uses them and says so.  What is compiled never depends
on them: a recipe makes the same CUDA text everywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.execution.nodes import MEASURED, PUBLISHED
from engine.support.errors import BadInput
from engine.support.serialization import from_json, to_json
from engine.support.user_data import data_folder
from engine.target import Target

FORMAT, VERSION = "loomscope-calibration", 1
FITTED = (
    "launch_overhead", "dram_bandwidth", "dram_latency", "l2_bandwidth", "shared_bandwidth", "fp32_rate",
    "tensor_rate", "tf32_rate", "special_rate",
)  # fmt: skip
"""Figures of a target that measurements can change."""
ALL = "all"
"""The kind of the error over every row."""


@dataclass(frozen=True, slots=True)
class FittedFigure:
    """One figure of a target after the fit."""

    value: float
    unit: str
    before: float
    """What the target's description says."""
    rows: int
    """Rows whose predicted time depends on it."""


@dataclass(frozen=True, slots=True)
class KindError:
    """How far predictions are from measured times, over the rows of one kind of kernel."""

    kind: str
    """"row reduction", "contraction on tensor cores", ..., or "all"."""
    rows: int
    before: float
    """Median of |predicted / measured - 1| with the target's own figures."""
    after: float
    """The same with fitted ones, each row predicted by a fit that did not see it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Figures of one target, fitted to times of one device."""

    target: str
    device: str
    date: str
    """Of the earliest file."""
    files: tuple[str, ...]
    figures: Mapping[str, FittedFigure]
    """Figure -> its fit; those that too few rows depend on are left out and stay what they are."""
    errors: tuple[KindError, ...]
    """By kind; the last is over all rows."""
    origin: str = MEASURED
    """Of the times; published ones are of other people's kernels."""

    @property
    def note(self) -> str:
        """What a prediction says of itself: "calibrated on a.json and 2 more, error 12 %"."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        whose = ": published times of others' kernels" if self.origin == PUBLISHED else ""
        return f"calibrated on {self.files[0]}{more}{whose}, error {self.errors[-1].after:.0%}"

    def apply(self, target: Target) -> Target:
        """The target with the fitted figures in place of its own."""
        figures: dict[str, Any] = {}
        for name, fitted in self.figures.items():
            figures[name] = replace(getattr(target, name), value=fitted.value, source=f"fitted: {self.note}")
        return replace(target, **figures)


def calibrated_target(target: Target) -> Target:
    """The target with the figures of the user's calibration of it, or itself without one.

    Raises BadInput where the calibration's file is broken.
    """
    file = calibration_stamp(target.name)
    return target if file is None else _read_calibrated(*file, target)


def calibration_file(target: str) -> Path:
    """Where a target's calibration is kept; deleting the file undoes it."""
    return Path(_file_in(data_folder(), target))


def calibration_of(target: str) -> Calibration | None:
    """The kept calibration of a target, None without one.  Raises BadInput for a broken file."""
    file = calibration_stamp(target)
    return None if file is None else _read(*file)


def calibration_stamp(target: str) -> tuple[str, int] | None:
    """(path, time of its last change), asked for at every prediction: it may have been written or deleted since."""
    path = _file_in(data_folder(), target)
    try:
        return path, os.stat(path).st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=64)
def _file_in(folder: Path, target: str) -> str:
    return str(folder / "calibration" / f"{target}.json")


@lru_cache(maxsize=8)
def _read_calibrated(path: str, changed: int, target: Target) -> Target:
    return _read(path, changed).apply(target)


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Calibration:
    hint = "delete it, or take a new one with `loomscope calibrate`"
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput("calibration", path, f"cannot be read: {error}", hint) from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise BadInput("calibration", path, f"is no calibration of version {VERSION}", hint)
    try:
        found = from_json(Calibration, {key: data[key] for key in data.keys() - {"format", "version"}})
    except BadInput as error:
        raise BadInput("calibration", f"{path}, {error.subject}", error.reason, hint) from None
    strange = found.figures.keys() - set(FITTED)
    if strange or not found.files or not found.errors or any(not f.value > 0 for f in found.figures.values()):
        reason = f"speaks of {sorted(strange)[0]}" if strange else "lacks its files or errors, or has figures below 0"
        raise BadInput("calibration", path, reason, hint)
    return found


def keep_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    """Write a calibration, by default where predictions find it.  Raises BadInput where it cannot be written."""
    path = path or calibration_file(calibration.target)
    plain = to_json(calibration)
    assert isinstance(plain, dict)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "version": VERSION, **plain}, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput("calibration", str(path), f"cannot be written: {error.strerror or error}") from error
    return path
