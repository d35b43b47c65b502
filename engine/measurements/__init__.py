"""Files of times: what `loomscope measure --json`, `predict --json` and `python -m tests.benchmarks.gpu` write."""

from engine.measurements.nodes import Launched, MeasuredRow, Measurements, SystemTime
from engine.measurements.read import measurements_of, read_measurements

__all__ = ["Launched", "MeasuredRow", "Measurements", "SystemTime", "measurements_of", "read_measurements"]
