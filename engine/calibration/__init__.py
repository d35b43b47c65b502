"""Figures of a target from measured times: read the files, fit, say how much closer predictions came."""

from engine.calibration.build import calibrate

__all__ = ["calibrate"]
