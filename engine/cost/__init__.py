"""Predicted times: traffic, occupancy and latency of one kernel on one GPU, every figure with its reason."""
