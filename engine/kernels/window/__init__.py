"""Sliding windows: depthwise convolutions and poolings, of which a thread makes a strip of results."""
