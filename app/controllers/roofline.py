"""The roofline of the open model: arithmetic intensity against predicted and measured rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10

from engine.documents.model import GroupDoc, ModelDoc, Time
from engine.target.nodes import Target
from views.hierarchy import ambiguous_titles
from views.roofline.nodes import OriginPoints, Point, Roofline

MICRO = 1e-6
HALVES = ("float16", "bfloat16")
PRODUCTS = ("contraction", "attention")
"""Kinds of groups whose work is matrix products."""
MEASURED = ("measured", "synthetic")

Times = Mapping[str, Time]
"""Group -> its time."""


def roofline(model: ModelDoc, target: Target, times: Sequence[Times], baselines: Sequence[Times]) -> Roofline:
    """Every kernel that has a time, one plot for each origin.

    times, baselines: of the present advice and of the pinned steps, each group once in a mapping of one origin or more;
    only times of one origin are compared.
    """
    halves = any(_is_tensor(group) for group in model.groups)
    ceilings = [("CUDA cores", target.fp32_rate.value)]
    ceilings += [("tensor cores", target.tensor_rate.value)] if halves else []
    bandwidth = target.dram_bandwidth.value
    intensities = [group.flops / group.bytes for group in model.groups if group.flops and group.bytes]
    left = 10.0 ** floor(log10(min([*intensities, 1.0])))

    ambiguous = ambiguous_titles(model)
    titles = {group.name: group.name if group.title in ambiguous else group.title for group in model.groups}

    def side(origin: str) -> OriginPoints:
        points = tuple(
            _point(group, titles[group.name], now, _of(baselines, group.name, origin), dict(ceilings), bandwidth, left)
            for group in model.groups
            for now in (_of(times, group.name, origin),)
            if now is not None and now.microseconds > 0 and group.bytes
        )
        seen = [time for each in times for time in each.values() if time.origin == origin]
        return OriginPoints(origin, where(seen, target), points, len(model.groups) - len(points))

    found = {time.origin for each in times for time in each.values()}
    shown = [origin for origin in MEASURED if origin in found] or ["measured"]
    return Roofline(
        bandwidth,
        tuple(ceilings),
        f"{target.dram_bandwidth.source}; {target.fp32_rate.source}",
        left,
        tuple(side(origin) for origin in ("predicted", *shown)),
    )


def _point(
    group: GroupDoc, title: str, now: Time, baseline: Time | None,
    ceilings: Mapping[str, float], bandwidth: float, left: float,
) -> Point:  # fmt: skip
    intensity = group.flops / group.bytes
    worth = group.flops or group.bytes * left
    ceiling = ceilings["tensor cores"] if _is_tensor(group) else ceilings["CUDA cores"]
    return Point(
        group=group.name,
        title=title,
        intensity=intensity,
        height=worth / (now.microseconds * MICRO),
        ghost=worth / (baseline.microseconds * MICRO) if baseline and baseline.microseconds > 0 else None,
        roof=min(bandwidth * (intensity or left), ceiling),
        microseconds=now.microseconds,
        share=group.share,
    )


def _of(times: Sequence[Times], group: str, origin: str) -> Time | None:
    found = (each[group] for each in times if group in each)
    return next((time for time in found if time.origin == origin), None)


def _is_tensor(group: GroupDoc) -> bool:
    """Whether a group's products can go to the tensor cores."""
    return group.kind in PRODUCTS and group.dtype in HALVES


def where(times: Iterable[Time], target: Target) -> str:
    """Where times of one origin come from: "H200 model, uncalibrated", "NVIDIA H200, 2026-11-18"."""
    places = dict.fromkeys(
        f"{target.name.upper()} model{', ' if time.note else ''}{time.note}"
        if time.origin == "predicted"
        else ", ".join(filter(None, (time.device, time.date[:10]))) or time.note
        for time in times
    )
    return "; ".join(filter(None, places))
