"""Scatters through bins of their destinations: every reduction and type, crowded bins, the order of sums, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.kernels.scatter.config import ScatterConfig
from engine.tensor import scatter
from engine.verify.levels import find_run
from tests.benchmarks.speed import over_floor
from tests.benchmarks.speed_graphs import scattered
from tests.semantics.single import write_model
from tests.support.needs import needs_compiler, needs_nvrtc

Arrays = dict[str, np.ndarray]
JOIN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


@dataclass(frozen=True)
class Case:
    """One scatter."""

    operator: str
    how: str
    data: tuple[int, ...]
    indices: tuple[int, ...]
    dtype: str = "float32"
    axis: int = 0
    index: str = "int64"
    crowd: int = 0
    """Updates that have one destination beside those of all others."""

    def __str__(self) -> str:
        parts = (self.operator, self.how, self.dtype, "x".join(map(str, self.data)), f"axis {self.axis}", self.crowd)
        return " ".join(map(str, parts))

    def group(self, folder: Path) -> engine.FusionGroup:
        """The group that joins updates."""
        attributes: dict[str, object] = {"reduction": self.how}
        if self.operator == "ScatterElements":
            attributes["axis"] = self.axis
        inputs = {"x": (self.dtype, self.data), "at": (self.index, self.indices), "rows": (self.dtype, self.updates)}
        path = write_model(folder / "s.onnx", [(self.operator, ["x", "at", "rows"], ["y"], attributes)], inputs, ["y"])
        return engine.fuse(engine.load(path)).groups[0]

    @property
    def updates(self) -> tuple[int, ...]:
        if self.operator == "ScatterElements":
            return self.indices
        return (*self.indices[:-1], *self.data[self.indices[-1] :])

    def arrays(self) -> Arrays:
        """Indices with duplicates, half of them negative, all in range."""
        draw, dtype = np.random.default_rng(7), NUMPY.get(self.dtype) or np.dtype(self.dtype)
        sizes = [self.data[self.axis]] if self.operator == "ScatterElements" else self.data[: self.indices[-1]]
        at = draw.integers(0, sizes, self.indices)
        at.reshape(-1)[: self.crowd] = 1
        at -= np.where(draw.random(self.indices) < 0.5, sizes, 0)
        if "int" in self.dtype:
            made = (draw.integers(-3, 4, shape).astype(dtype) for shape in (self.data, self.updates))
        else:
            made = ((0.5 + draw.random(shape)).astype(dtype) for shape in (self.data, self.updates))
        x, rows = made
        return {"x": x, "at": at.astype(self.index), "rows": rows}

    def destinations(self, at: np.ndarray) -> np.ndarray:
        """The place in the flattened data of each element of the updates."""
        numbers = np.arange(np.prod(self.data)).reshape(self.data)
        if self.operator == "ScatterElements":
            places = list(np.indices(self.indices))
            places[self.axis] = at % self.data[self.axis]
            return numbers[tuple(places)]
        return numbers[tuple((at % self.data[: at.shape[-1]]).reshape(-1, at.shape[-1]).T)].reshape(self.updates)


CASES = [
    Case("ScatterND", "add", (50, 32), (300, 1)),
    Case("ScatterND", "add", (50, 33), (203, 1)),
    Case("ScatterND", "add", (10, 12, 16), (20, 20, 2)),
    Case("ScatterND", "add", (100,), (700, 1)),
    Case("ScatterND", "add", (50, 64), (200, 1), "float16"),
    Case("ScatterND", "add", (50, 64), (200, 1), "bfloat16"),
    Case("ScatterND", "add", (50, 32), (200, 1), "int64"),
    Case("ScatterND", "add", (20, 256), (90, 1), crowd=70),
    Case("ScatterND", "mul", (50, 32), (300, 1)),
    Case("ScatterND", "mul", (50, 8), (100, 1), "int32", crowd=50),
    Case("ScatterND", "max", (50, 32), (200, 1)),
    Case("ScatterND", "min", (50, 32), (200, 1), "int32", crowd=120),
    Case("ScatterElements", "add", (40, 24), (200, 24)),
    Case("ScatterElements", "add", (40, 24), (30, 100), axis=1, index="int32"),
    Case("ScatterElements", "add", (6, 40, 8), (6, 90, 8), axis=1, crowd=900),
    Case("ScatterElements", "max", (40, 24), (200, 20), "float16"),
    Case("ScatterElements", "mul", (40, 24), (40, 20), "float32", axis=1),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small scatters are sorted as large ones are."""
    monkeypatch.setattr(scatter, "WORTH_SORTING", 1)


def joined(case: Case, arrays: Arrays) -> np.ndarray:
    """Each update joined in turn, then with what stands there; of halves all in float32, and rounded at the end."""
    x, kind = arrays["x"].reshape(-1), np.float32 if arrays["x"].dtype.itemsize == 2 else arrays["x"].dtype
    lowest, highest = (-np.inf, np.inf) if "float" in case.dtype else (np.iinfo(kind).min, np.iinfo(kind).max)
    total = np.full(x.shape, {"add": 0, "mul": 1, "max": lowest, "min": highest}[case.how], kind)
    for place, update in zip(case.destinations(arrays["at"]).reshape(-1), arrays["rows"].reshape(-1), strict=True):
        total[place] = JOIN[case.how](total[place], update.astype(kind))
    return JOIN[case.how](x.astype(kind), total).astype(x.dtype).reshape(case.data)


@pytest.mark.few(6)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_to_updates_joined_in_turn(case: Case, tmp_path: Path) -> None:
    """To the last bit, at both levels and in both orders of threads and blocks: no run differs from another."""
    kernel = engine.compile(case.group(tmp_path))
    assert isinstance(kernel.tile.config, ScatterConfig)
    arrays = case.arrays()
    expected = joined(case, arrays)
    if case.crowd:
        counts = np.bincount(case.destinations(arrays["at"]).reshape(-1))
        assert counts.max() > kernel.tile.config.capacity
    for level in ("source", "ptx"):
        for order in ("late", "early"):
            run, outputs, _ = find_run(level, kernel)(kernel.source, arrays, order=order)
            assert not run.findings, (level, order, run.findings[0])
            assert np.array_equal(outputs["y"].reshape(case.data), expected), (level, order)


@needs_compiler
@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
def test_the_last_of_several_updates_stays(operator: str, tmp_path: Path) -> None:
    """Without a reduction the largest number of an update is what bins are asked for."""
    shape = (300, 1) if operator == "ScatterND" else (300, 32)
    group = Case(operator, "none", (50, 32), shape).group(tmp_path)
    kernel = engine.compile(group)
    assert isinstance(kernel.tile.config, ScatterConfig) and "ordered" not in kernel.tile.buffers
    assert [engine.check(kernel, level=level).status for level in ("source", "ptx")] == ["pass", "pass"]


@needs_compiler
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("take_number(counts, place_i)", "counts.load(place_i)"),
        ("(theirs < mine) ? 1 : 0", "(theirs < mine) ? 0 : 0"),
        ("number < 64", "number < 65"),
        ("(came <= 64) ? came : 0", "(came <= 64) ? came : 64"),
        ("place_i < 50", "place_i < 51"),
    ],
    ids=["counted at once", "one rank for all", "past the bin", "joined and searched", "past the last destination"],
)
def test_faults_are_found(text: str, fault: str, tmp_path: Path) -> None:
    case = Case("ScatterND", "add", (50, 32), (300, 1), crowd=80)
    kernel = engine.compile(case.group(tmp_path))
    arrays = case.arrays()
    is_outside = text.startswith("place_i")
    if is_outside:
        arrays["at"][0] = 50  # which ONNX forbids: it is left out, and reaches nobody's memory
    assert text in kernel.source.text
    broken = replace(kernel.source, text=kernel.source.text.replace(text, fault))

    def is_right(source: engine.CudaSource) -> bool:
        run, outputs, _ = find_run("source", kernel)(source, arrays)
        given = {**arrays, "at": arrays["at"][1:], "rows": arrays["rows"][1:]} if is_outside else arrays
        short = replace(case, indices=(len(given["at"]), 1))
        return not run.findings and np.array_equal(outputs["y"].reshape(case.data), joined(short, given))

    assert is_right(kernel.source) and not is_right(broken)


@needs_compiler
def test_requests_of_evenly_spread_updates_are_those_that_work_takes(tmp_path: Path) -> None:
    kernel = engine.compile(Case("ScatterND", "add", (64, 32), (512, 1)).group(tmp_path))
    at = np.random.default_rng(1).permutation(np.repeat(np.arange(64), 8)).reshape(512, 1)
    ones = np.ones((512, 32), np.float32)
    run, _, _ = find_run("source", kernel)(kernel.source, {"x": ones[:64], "at": at, "rows": ones})
    outside = sum(site.requests for site in run.counts if site.kind.startswith("global"))
    inside = sum(site.requests for site in run.counts if site.kind.startswith("shared"))
    assert (outside, inside) == (kernel.facts.global_requests, kernel.facts.shared_requests)


def test_what_bins_cannot_hold_is_searched(tmp_path: Path) -> None:
    """Many updates of few destinations are searched as before; a neighbour with more destinations is sorted."""
    few = engine.compile(Case("ScatterND", "add", (8, 4), (4096, 1)).group(tmp_path))
    many = engine.compile(Case("ScatterND", "add", (512, 4), (4096, 1)).group(tmp_path))
    assert (few.family, many.family) == ("reduction", "scatter")


def test_short_searches_are_one_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "WORTH_SORTING", 2**20)
    short = engine.compile(Case("ScatterND", "add", (64, 32), (64, 1)).group(tmp_path))
    assert short.family != "scatter" and len(short.launches) == 1


@needs_nvrtc
@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_edges_of_a_graph_are_within_three_times_the_floor(gpu: str) -> None:
    plan = scattered(10_000, 100_000, 32, gpu)
    (group,) = plan.groups
    kernel = engine.compile(group)
    assert len(kernel.launches) == 2 and over_floor(plan)[0] <= 3
    assert compile_cuda(kernel.source.text, kernel.target.architecture).spill_bytes == 0
