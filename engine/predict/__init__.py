"""Predicted times: traffic, occupancy and latency of one kernel on one GPU, every figure with its reason."""

from __future__ import annotations

from engine.predict.model import predict
from engine.predict.nodes import KernelFacts, Occupancy, Prediction
from engine.predict.occupancy import occupancy
from engine.tensor.traffic import compulsory_bytes, flop_counts

__all__ = ["KernelFacts", "Occupancy", "Prediction", "compulsory_bytes", "flop_counts", "occupancy", "predict"]
