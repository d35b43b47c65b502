"""The benchmark of published times: classes, floors, forced schedules, what cannot be expressed, missing files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import published
from tests.benchmarks.published_rows import read_rows

XLA = """device,dtype,b,m,n,k,flops_per_s,microseconds
sm_90,bf16xbf16->bf16,1,256,512,1024,0,7.0
sm_90,bf16xbf16->bf16,1,512,512,1024,0,8.0
sm_90,bf16xbf16->bf16,1,4096,4096,1024,0,60.0
sm_90,f8e4m3fnxf8e4m3fn->bf16,1,256,512,256,0,5.0
"""
NEUSIGHT = """op,dtype,microseconds,device,B,M,N,K,H,kernel,grid,block
linear,float32,100.0,NVIDIA A100-PCIE-40GB,1,512,512,1024,,ampere_sgemm_64x64_tn,16x8x1,64x1x1
relu,float32,40.0,NVIDIA A100-PCIE-40GB,4096,,,,1024,,,
"""


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "xla_matmul_perf_table.csv").write_text(XLA, encoding="utf-8")
    (tmp_path / "neusight_a100_h100.csv").write_text(NEUSIGHT, encoding="utf-8")
    file = tmp_path / "found.json"
    assert published.main(["--measured", str(tmp_path), "--json", str(file), "--processes", "1"]) == 0
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_classes_and_rows_say_what_they_are_of(document: dict[str, Any]) -> None:
    classes = document["summary"]["classes"]
    products = "gemm/bf16/h100/cublas"
    assert set(classes) == {products, "gemm/fp32/a100-pcie-40/cublas", "elementwise/fp32/a100-pcie-40/torch"}
    assert classes[products]["rows"] == 3 and classes[products]["efficiency_rank"] is not None
    assert document["summary"]["not_expressed"] == 1 and "element type f8e4m3fn" in document["summary"]["why_not"]
    assert document["summary"]["below_floor"] == document["summary"]["above_ceiling"] == 0


def test_a_kernel_whose_name_says_its_tile_is_predicted_with_it(document: dict[str, Any]) -> None:
    same = [row for row in document["rows"] if row["same_schedule"]]
    assert [(row["tile"], row["device"]) for row in same] == [("64x64", "a100-pcie-40")]
    assert document["summary"]["same_schedule"]["64x64"]["rows"] == 1
    (row,) = same
    assert row["floor"] == pytest.approx(2 * 512 * 1024 * 512 / 19.5e12 * 1e6), "of the data sheet's FP32"
    assert row["floor"] < row["predicted"] != row["default"]


def test_no_file_is_no_row(tmp_path: Path) -> None:
    assert read_rows(tmp_path) == []
