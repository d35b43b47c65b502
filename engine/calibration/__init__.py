"""Fit a target's figures to measured times."""

from engine.calibration.build import calibrate

__all__ = ["calibrate"]
