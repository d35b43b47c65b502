"""Fusion stitching (Zheng et al., 2020): which kernels become one, found by search, with every cost term shown."""

from __future__ import annotations
