"""Predicted times: traffic, occupancy and latency of one kernel on one GPU, every figure with its reason."""

from __future__ import annotations

from engine.cost.nodes import KernelFacts, Occupancy, Prediction
from engine.cost.occupancy import occupancy
from engine.cost.roofline import predict
from engine.tensor.traffic import compulsory_bytes, flop_counts

__all__ = ["KernelFacts", "Occupancy", "Prediction", "compulsory_bytes", "flop_counts", "occupancy", "predict"]
