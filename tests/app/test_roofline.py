"""The roofline of a model: rates worked out another way, origins apart, ghosts at the baseline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.session.roofline import roofline, where
from engine.documents.model import GroupDoc, ModelDoc, PublishedTime, Time
from engine.target import target
from tests.app.fake_documents import model

H200 = target("h200")
MODEL = model()
PREDICTED = {group.name: group.time for group in MODEL.groups if group.time}


def measured(group: GroupDoc, factor: float, origin: str = "measured") -> Time:
    assert group.time is not None
    return Time(group.time.microseconds * factor, origin, device="NVIDIA H200", date="2026-11-18T09:12:00+00:00")


def test_every_kernel_is_a_point_under_its_roof() -> None:
    found = roofline(MODEL, H200, (PREDICTED, {}), (PREDICTED, {}))
    side = found.sides[0]
    assert [side.origin for side in found.sides] == ["predicted", "measured"]
    assert {point.group for point in side.points} == {group.name for group in MODEL.groups} and side.missing == 0
    for group, point in zip(MODEL.groups, side.points, strict=True):
        assert group.time is not None
        teraflops = group.flops / group.time.microseconds / 1e6
        assert point.height / 1e12 == pytest.approx(teraflops)
        assert point.intensity == pytest.approx(group.flops / group.bytes)
        by_bytes = 4.3e12 * group.flops / group.bytes
        ceiling = 0.629 * 989e12 if group.kind == "contraction" else 132 * 128 * 2 * 1.83e9
        assert point.roof == pytest.approx(min(by_bytes, ceiling))
    assert not found.sides[1].points and found.sides[1].missing == len(MODEL.groups)


def test_origins_stand_in_plots_of_their_own() -> None:
    some = {group.name: measured(group, 1.1) for group in MODEL.groups[:3]}
    made_up = {group.name: measured(group, 1.2, "synthetic") for group in MODEL.groups[3:5]}
    found = roofline(MODEL, H200, (PREDICTED, {**some, **made_up}), (PREDICTED, {}))
    assert [(side.origin, len(side.points), side.missing) for side in found.sides] == [
        ("predicted", 10, 0), ("measured", 3, 7), ("synthetic", 2, 8),
    ]  # fmt: skip
    assert found.sides[1].note == "NVIDIA H200, 2026-11-18" and found.sides[0].note == "H200 model, uncalibrated"


def test_a_ghost_is_the_same_kernel_at_the_baseline_of_the_same_origin() -> None:
    now = {group.name: measured(group, 1.0) for group in MODEL.groups[:2]}
    first, second = MODEL.groups[:2]
    baselines = (PREDICTED, {first.name: measured(first, 2.0), second.name: measured(second, 2.0, "synthetic")})
    points = roofline(MODEL, H200, (PREDICTED, now), baselines).sides[1].points
    assert points[0].ghost == pytest.approx(points[0].height / 2), "twice the time is half the rate"
    assert points[1].ghost is None, "a synthetic baseline is none of a measured time"


def test_a_kernel_without_operations_is_placed_by_its_bytes() -> None:
    copy = replace(MODEL.groups[0], flops=0, time=Time(10.0, "predicted"))
    alone = replace(MODEL, groups=(copy,))
    found = roofline(alone, H200, ({copy.name: Time(10.0, "predicted")}, {}), ({}, {}))
    (point,) = found.sides[0].points
    assert point.intensity == 0
    assert point.height / point.roof == pytest.approx(copy.bytes / 10e-6 / 4.3e12), "its part of the memory's rate"


def test_times_of_several_days_say_all_of_them() -> None:
    times = [Time(1.0, "measured", device="NVIDIA H200", date=f"2026-11-{day}T00:00:00") for day in (18, 19, 18)]
    assert where(times, H200) == "NVIDIA H200, 2026-11-18; NVIDIA H200, 2026-11-19"
    assert where([Time(1.0, "predicted", "fitted on H200")], H200) == "H200 model, fitted on H200"


def test_times_of_others_stand_in_a_plot_of_their_own_where_they_are_of_this_gpu() -> None:
    def with_times(*times: PublishedTime) -> ModelDoc:
        first, *others = MODEL.groups
        return replace(MODEL, groups=(replace(first, published=times), *others))

    a, b, c = (PublishedTime("cuBLAS", device, time, "a table") for device, time in
               (("H200", 30.0), ("H200", 21.3), ("A100", 9.0)))  # fmt: skip
    found = roofline(with_times(a, b, c), H200, (PREDICTED,), ())
    assert [side.origin for side in found.sides] == ["predicted", "published"]
    (point,) = found.sides[1].points
    assert (point.group, point.microseconds, point.ghost) == (MODEL.groups[0].name, 21.3, None)
    assert found.sides[1].note == "cuBLAS on H200" and found.sides[1].missing == len(MODEL.groups) - 1
    assert found.sides[0].points == roofline(MODEL, H200, (PREDICTED,), ()).sides[0].points
    both = roofline(with_times(a), H200, (PREDICTED, {MODEL.groups[0].name: measured(MODEL.groups[0], 2.0)}), ())
    assert [side.origin for side in both.sides] == ["predicted", "measured", "published"]
    elsewhere = roofline(with_times(c), H200, (PREDICTED,), ())
    assert [side.origin for side in elsewhere.sides] == ["predicted", "measured"]
