"""The benchmark of published times: classes, floors, forced schedules, what cannot be expressed, missing files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cost.alcop_nodes import GemmProblem
from engine.tensorize.space import GemmConfig
from tests.benchmarks import published
from tests.benchmarks.published_method import added_microseconds
from tests.benchmarks.published_rows import Row, Schedule, read_rows

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


def neusight(folder: Path, *lines: str) -> list[Row]:
    head = NEUSIGHT.partition("\n")[0]
    (folder / "neusight_a100_h100.csv").write_text("\n".join((head, *lines, "")), encoding="utf-8")
    return read_rows(folder)


def product(kernel: str, threads: int) -> str:
    return f"linear,float32,100.0,NVIDIA A100-PCIE-40GB,1,512,512,1024,,{kernel},32x8x1,{threads}x1x1"


def test_slices_of_a_named_kernel_are_read_and_forced(tmp_path: Path) -> None:
    names = ("ampere_sgemm_32x64_sliced1x4_tn", "ampere_sgemm_32x64_tn", "ampere_sgemm_32x64_splitK_tn")
    sliced, plain, split = neusight(tmp_path, *(product(name, threads=256) for name in names))
    assert sliced.schedule and plain.schedule and split.schedule is None
    assert (sliced.schedule.name, sliced.schedule.slices) == ("32x64_sliced1x4", 4)
    assert (plain.schedule.name, plain.schedule.slices) == ("32x64", 1)
    chosen = GemmConfig((64, 64, 16), (4, 4), 3)
    forced = [published.forced_config(one.schedule, chosen) for one in (sliced, plain)]
    assert forced == [GemmConfig((64, 32, 64), (4, 8), 2, slices=4), GemmConfig((64, 32, 16), (2, 4), 3)]
    assert all(config and config.parts == 256 for config in forced)


@pytest.mark.parametrize(("block", "depth"), [((32, 32), 64), ((32, 64), 64), ((32, 128), 32)])
def test_sliced_tiles_are_as_deep_as_static_memory_holds_two(block: tuple[int, int], depth: int) -> None:
    config = published.forced_config(Schedule("", block, 256, slices=4), GemmConfig((64, 64, 16), (4, 4), 3))
    assert config is not None and config.block == (*block, depth)
    assert 2 * sum(GemmProblem(1, 1, 1, element_bytes=4).tile_bytes(config)) <= 48 * 1024


def element_wise(added: float, rows: int) -> list[str]:
    """A bandwidth of exactly a megabyte (2^18 elements read) each microsecond, and what is added."""
    sizes = [2**n for n in range(10, 10 + rows)]
    return [f"relu,float32,{added + n / 256},NVIDIA A100-PCIE-40GB,{n},,,,1024,,," for n in sizes]


@pytest.mark.parametrize(("added", "rows", "told"), [(18.0, 12, {"neusight": 14.0}), (4.0, 12, {"neusight": 0.0}),
                                                    (18.0, 9, {})])  # fmt: skip
def test_what_a_source_adds_is_the_intercept_of_its_element_wise_rows(
    added: float, rows: int, told: dict[str, float], tmp_path: Path
) -> None:
    """Less the 4 µs that an empty kernel takes as our estimate counts it; products say nothing of it."""
    lines = (product("ampere_sgemm_64x64_tn", threads=64), *element_wise(added, rows))
    assert added_microseconds(neusight(tmp_path, *lines)) == pytest.approx(told, abs=1e-6)


def test_what_a_source_adds_is_shown_and_added(tmp_path: Path) -> None:
    neusight(tmp_path, product("ampere_sgemm_64x64_tn", threads=64), *element_wise(18.0, 12))
    (tmp_path / "xla_matmul_perf_table.csv").write_text(XLA, encoding="utf-8")
    file = tmp_path / "found.json"
    options = ["--measured", str(tmp_path), "--json", str(file), "--processes", "1", "--only", "gemm/"]
    assert published.main(options) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["summary"]["measuring"] == pytest.approx({"neusight": 14.0})
    told = [row for row in document["rows"] if row["predicted"] is not None]
    assert {row["row"].partition(":")[0]: round(row["measuring"], 6) for row in told} == {"xla": 0.0, "neusight": 14.0}
    assert all(row["predicted"] == row["kernel"] + row["measuring"] for row in told)


def test_no_file_is_no_row(tmp_path: Path) -> None:
    assert read_rows(tmp_path) == []
