"""Where kernels stand under the roofs of a machine, worked out of a model's document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor, log10

from engine.documents.model import GroupDoc, ModelDoc, Time
from engine.target.machines import Machine
from engine.target.nodes import Target
from views.hierarchy import ambiguous_titles
from views.roofline.nodes import OriginPoints, Point, Roofline

MICRO = 1e-6
MEASURED = ("measured", "synthetic")
PUBLISHED = "published"
VECTOR_UNITS = "vector units"
"""What computes on a CPU."""

Times = Mapping[str, Time]
"""Group -> its time."""


def roofline(model: ModelDoc, machine: Machine, times: Sequence[Times], baselines: Sequence[Times]) -> Roofline:
    """Every kernel that has a time, one plot for each origin.

    times, baselines: of the present advice and of the pinned steps, each group once in a mapping of one origin or more;
    only times of one origin are compared.
    """
    ceilings = [(VECTOR_UNITS, machine.fp32_rate.value)]
    if isinstance(machine, Target):
        halves = any(group.fits_tensor_cores for group in model.groups)
        ceilings = [("CUDA cores", machine.fp32_rate.value)]
        ceilings += [("tensor cores", machine.tensor_rate.value)] if halves else []
    bandwidth = machine.dram_bandwidth.value
    intensities = [group.flops / group.bytes for group in model.groups if group.flops and group.bytes]
    left = 10.0 ** floor(log10(min([*intensities, 1.0])))

    ambiguous = ambiguous_titles(model)
    source = f"{machine.dram_bandwidth.source}; {machine.fp32_rate.source}"
    roofs = Roofline(bandwidth, tuple(ceilings), source, left, ())
    titles = {group.name: group.name if group.title in ambiguous else group.title for group in model.groups}

    def side(origin: str) -> OriginPoints:
        points = tuple(
            _point(group, titles[group.name], now, _of(baselines, group.name, origin), roofs)
            for group in model.groups
            for now in (_of(times, group.name, origin),)
            if now is not None and now.microseconds > 0 and group.bytes
        )
        seen = [time for each in times for time in each.values() if time.origin == origin]
        return OriginPoints(origin, where(seen, machine), points, len(model.groups) - len(points))

    times = [*times, _published_times(model, machine)]
    found = {time.origin for each in times for time in each.values()}
    shown = [origin for origin in (*MEASURED, PUBLISHED) if origin in found] or ["measured"]
    return replace(roofs, sides=tuple(map(side, ("predicted", *shown))))


def _published_times(model: ModelDoc, machine: Machine) -> dict[str, Time]:
    """The fastest time of somebody else's kernel for a group on this GPU, where a table has one."""
    name = machine.name.partition("-")[0].upper()
    found = {}
    for group in model.groups:
        here = [time for time in group.published if name in time.device]
        if here:
            best = min(here, key=lambda time: time.microseconds)
            found[group.name] = Time(best.microseconds, PUBLISHED, device=f"{best.who} on {best.device}")
    return found


def _point(group: GroupDoc, title: str, now: Time, baseline: Time | None, roofs: Roofline) -> Point:
    intensity = group.flops / group.bytes
    worth = group.flops or group.bytes * roofs.left
    known = dict(roofs.ceilings)
    ceiling = known.get("tensor cores" if group.fits_tensor_cores else "CUDA cores", known.get(VECTOR_UNITS, 0.0))
    ghost = worth / (baseline.microseconds * MICRO) if baseline and baseline.microseconds > 0 else None
    return Point(
        group=group.name, title=title, intensity=intensity, height=worth / (now.microseconds * MICRO), ghost=ghost,
        roof=min(roofs.bandwidth * (intensity or roofs.left), ceiling), microseconds=now.microseconds,
        share=group.share,
    )  # fmt: skip


def _of(times: Sequence[Times], group: str, origin: str) -> Time | None:
    found = (each[group] for each in times if group in each)
    return next((time for time in found if time.origin == origin), None)


def where(times: Iterable[Time], machine: Machine) -> str:
    """Where times of one origin come from: "H200 model, uncalibrated", "NVIDIA H200, 2026-11-18"."""
    return "; ".join(filter(None, dict.fromkeys(_place(time, machine) for time in times)))


def _place(time: Time, machine: Machine) -> str:
    if time.origin == "predicted":
        return f"{machine.name.upper()} model{', ' if time.note else ''}{time.note}"
    return ", ".join(filter(None, (time.device, time.date[:10]))) or time.note
