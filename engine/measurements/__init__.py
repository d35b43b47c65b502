"""Files of times: what `loomscope measure --json`, `predict --json` and `python -m tests.benchmarks.gpu` write."""

from engine.measurements.nodes import Entry, Launched, Measured, Measurements
from engine.measurements.read import measurements_of, read_measurements

__all__ = ["Entry", "Launched", "Measured", "Measurements", "measurements_of", "read_measurements"]
