"""GPU descriptions: names, origins, and figures that must agree with one another."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from engine.support.errors import BadInput
from engine.target import DEVICES, target, target_of_device

ORIGINS = (
    "measured", "data sheet", "programming guide", "CUDA programming guide", "model", "inferred", "assumed", "fitted",
)  # fmt: skip


def test_names_are_found_in_any_case() -> None:
    assert target("h200") is target("H200") is DEVICES["h200"]
    assert {"h200", "h100", "a100"} <= DEVICES.keys()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "a100"), ("NVIDIA A100 80GB PCIe", "a100-pcie-80"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40"), ("NVIDIA GeForce RTX 3090", None), ("", None),
    ],
)  # fmt: skip
def test_a_driver_s_title_names_a_target(title: str, name: str | None) -> None:
    found = target_of_device(title)
    assert (found.name if found else None) == name


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadInput) as caught:
        target("h300")
    assert "h300" in caught.value.subject
    assert all(name in caught.value.hint for name in DEVICES)


@pytest.mark.parametrize("name", DEVICES)
def test_every_figure_says_where_it_comes_from(name: str) -> None:
    figures = target(name).figures()
    assert len(figures) == 24
    for field, figure in figures.items():
        assert figure.value > 0, field
        assert figure.source.startswith(ORIGINS), field


@pytest.mark.parametrize(
    ("name", "teraflops", "sheet_bandwidth"),
    [
        ("h200", 67.0, 4.8e12), ("h100", 67.0, 3.35e12), ("h100-pcie", 51.3, 2.04e12),
        ("a100", 19.5, 2.04e12), ("a100-pcie-80", 19.5, 1.935e12), ("a100-pcie-40", 19.5, 1.555e12),
    ],
)  # fmt: skip
def test_rates_stay_under_the_data_sheet(name: str, teraflops: float, sheet_bandwidth: float) -> None:
    device = target(name)
    assert 0.85 * teraflops * 1e12 < device.fp32_rate.value <= teraflops * 1e12
    assert 0.85 * sheet_bandwidth < device.dram_bandwidth.value <= sheet_bandwidth
    assert device.dram_bandwidth.value < device.l2_bandwidth.value
    assert device.shared_per_block.value + device.shared_reserved.value == device.shared_per_sm.value


@pytest.mark.parametrize(
    ("name", "sheet"), [("h200", 989e12), ("h100", 989e12), ("h100-pcie", 756e12), ("a100", 312e12)]
)
def test_tensor_cores_are_faster_than_cuda_cores_and_tf32_half_as_fast_as_halves(name: str, sheet: float) -> None:
    device = target(name)
    assert 0.6 * sheet < device.tensor_rate.value <= sheet
    assert device.tf32_rate.value == pytest.approx(device.tensor_rate.value / 2, rel=0.01)
    assert device.fp32_rate.value < device.tf32_rate.value


def test_a_target_prints_every_figure_with_its_source() -> None:
    text = str(target("a100"))
    assert all(figure.source in text for figure in target("a100").figures().values())


def test_targets_of_one_name_have_hashes_of_their_own() -> None:
    """A calibration makes thousands of them, all of which are looked up in the cache of occupancies."""
    h200 = target("h200")
    made = [replace(h200, dram_latency=replace(h200.dram_latency, value=n * 1e-9)) for n in range(400, 500)]
    assert len({hash(one) for one in made}) == len(made)
    assert hash(replace(h200)) == hash(h200) == hash(pickle.loads(pickle.dumps(h200)))
