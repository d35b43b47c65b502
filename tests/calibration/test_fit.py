"""The fit recovers the figures that synthetic times were made with, whatever a few bad rows say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.calibration.fit import Observation, fit_target, predicted_time, speaking
from engine.cost.calibration import FITTED
from engine.cost.nodes import Work
from engine.target import DEVICES, Target

H200 = DEVICES["h200"]
TRUE = {"dram_bandwidth": 0.8, "launch_overhead": 1.6, "l2_bandwidth": 0.6, "tensor_rate": 1.25, "special_rate": 0.7}
"""Figure -> what it is multiplied by on the machine that the synthetic times are of."""


def scaled(target: Target, factors: dict[str, float]) -> Target:
    figures = {name: getattr(target, name) for name in factors}
    return replace(target, **{n: replace(f, value=f.value * factors[n]) for n, f in figures.items()})


def facts(size: int, **changes: int) -> Work:
    plain = Work(
        blocks=132 * 8, threads=256, flops=size // 4, special=0, dram_bytes_read=size, dram_bytes_written=size,
        l2_bytes=2 * size, registers=32,
    )  # fmt: skip
    return replace(plain, **changes)


def kernels() -> list[tuple[str, Work]]:
    """Kernels of several sizes, each kind bound by another figure."""
    made = [("tiny", facts(1 << n)) for n in range(8, 16)]
    made += [("element-wise", facts(1 << n)) for n in range(22, 30)]
    made += [("re-read", facts(1 << n, l2_bytes=20 << n)) for n in range(20, 27)]
    made += [("contraction", facts(1 << n, tensor_flops=60_000 << n, tensor_type="float16")) for n in range(15, 22)]
    made += [("row reduction", facts(1 << n, special=60 << n)) for n in range(18, 25)]
    return made


def observations(machine: Target, noise: float = 0.0, outliers: int = 0, seed: int = 0) -> list[Observation]:
    stream = np.random.default_rng(seed)
    made = []
    for number, (kind, one) in enumerate(kernels()):
        plain = Observation(f"{kind}{number}", kind, 1.0, ((1, one),))
        time = predicted_time(plain, machine) * float(np.exp(stream.normal(0, noise)))
        made.append(replace(plain, microseconds=time))
    for number in stream.choice(len(made), outliers, replace=False):
        made[number] = replace(made[number], microseconds=3 * made[number].microseconds)
    return made


@pytest.mark.parametrize(
    ("noise", "outliers", "tolerance"),
    [(0.0, 0, 0.02), (0.03, 0, 0.06), (0.02, 3, 0.06)],
    ids=["exact", "noisy", "with outliers"],
)
def test_known_figures_are_recovered(noise: float, outliers: int, tolerance: float) -> None:
    found = fit_target(observations(scaled(H200, TRUE), noise, outliers), H200, tuple(TRUE))
    for name, factor in TRUE.items():
        got = getattr(found, name).value / getattr(H200, name).value
        assert got == pytest.approx(factor, rel=tolerance), name


def test_a_figure_that_no_row_depends_on_is_told() -> None:
    rows = speaking(observations(H200), H200, FITTED)
    assert rows["tf32_rate"] == 0 and rows["shared_bandwidth"] == 0
    assert rows["dram_bandwidth"] >= 6 and rows["tensor_rate"] >= 4 and rows["launch_overhead"] >= 8


def test_right_figures_stay_what_they_are() -> None:
    found = fit_target(observations(H200), H200, FITTED)
    for name in FITTED:
        assert getattr(found, name).value == pytest.approx(getattr(H200, name).value, rel=0.01), name
