"""Figures fitted to tables of published times: what is found again, what judges it, which tables are refused.

The times are predictions for a machine that there is not, written as somebody's table.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import engine
from engine.calibration.published import operator_graph, published_observations
from engine.cost.calibration import calibration_of, keep_calibration
from engine.cost.estimate import model_microseconds
from engine.documents.model import PublishedTime
from engine.execution.nodes import PUBLISHED
from engine.measurements.published import TABLE, PublishedProblem, problem_of, read_table, write_table
from engine.support.errors import BadInput
from engine.target import DEVICES
from tests.calibration.test_fit import scaled
from tests.support.commands import loomscope, refused

TRUE = {"dram_bandwidth": 0.7, "fp32_rate": 0.8}
SIZES = [1 << n for n in range(24, 29)]
PROBLEMS = [
    *(PublishedProblem(operator, "float32", 1, (size,)) for operator in ("relu", "tanh", "add") for size in SIZES),
    *(PublishedProblem(operator, "float32", 2, (size,)) for operator in ("add", "mul") for size in SIZES),
    *(PublishedProblem("matmul", "float32", 2, (1, m, n, 1024)) for m in (2048, 4096) for n in (2048, 4096, 8192)),
    *(PublishedProblem("matmul", "float32", 2, (8, m, 1024, k)) for m in (512, 1024, 2048) for k in (256, 512)),
]
WITHOUT_GRAPH = {
    ("add + mul + reducemean + sqrt + 1 more", "float32", 2), ("mul + reducemean + add + sqrt + 1 more", "bfloat16", 1),
    ("relu + mul", "bfloat16", 1), ("sigmoid + mul", "bfloat16", 2),
    ("conv", "float32", 1), ("conv", "float32", 2), ("matmul", "float32", 1),
}  # fmt: skip
"""Chains, convolutions, whose sizes the table does not hold, and a product with a vector."""


def table(path: Path, device: str = "A100 SXM, 80 GB", rows: int = 1000, far: float = 1.0) -> Path:
    """Every problem's time on an A100 with other figures.  far: how much longer softmax took than it says."""
    noise = random.Random(7)
    machine = scaled(DEVICES["a100"], TRUE)
    softmax = [PublishedProblem("softmax", "float32", 1, (4096, 1024 * n)) for n in range(1, 9)]
    made = []
    for problem in (*PROBLEMS, *softmax)[:rows]:
        graph = operator_graph(problem)
        assert graph is not None
        kernel = engine.compile(engine.fuse(graph, "a100").groups[0])
        time = model_microseconds(kernel.facts, machine) * noise.uniform(0.99, 1.01)
        time *= far if problem.operator == "softmax" else 1
        made.append((problem, PublishedTime("PyTorch", device, time, "a test")))
    write_table(made, path)
    return path


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table(tmp_path_factory.mktemp("tables") / "times.csv", far=3.0)


@pytest.mark.slow(sentinel=True)
def test_figures_are_found_again_and_the_other_half_judges_them(
    times: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    found = engine.calibrate([times])
    assert (found.target, found.device, found.origin) == ("a100", "A100 SXM, 80 GB", PUBLISHED)
    for name, factor in TRUE.items():
        assert found.figures[name].value / found.figures[name].before == pytest.approx(factor, rel=0.05), name
    assert not {"launch_overhead", "dram_latency"} & found.figures.keys(), "they hold how the times were taken"
    rows = published_observations([times], None)
    assert found.errors[-1].rows == len(rows.judged)
    assert not {one.name for one in rows.fitted} & {one.name for one in rows.judged}
    errors = {error.kind: error for error in found.errors}
    assert errors["relu float32 by PyTorch"].before > 0.2 > 0.03 > errors["relu float32 by PyTorch"].after
    # Three times as long, as kernels that read their rows several times: said, and nothing is bent to meet it.
    assert errors["softmax float32 by PyTorch"].after > 0.5
    keep_calibration(found)
    assert calibration_of("a100") == found
    note = engine.predict(engine.compile(engine.fuse(operator_graph(PROBLEMS[0]), "a100").groups[0])).note
    assert note.startswith("calibrated on times.csv: published times of others' kernels, error ")


def test_short_times_and_other_devices_are_not_fitted_to(times: Path) -> None:
    rows = published_observations([times], "a100")
    assert rows.fitted and min(one.microseconds for one in rows.fitted) >= 20
    assert {one.kind.partition(" ")[0] for one in rows.fitted} == {"relu", "tanh", "add", "mul", "matmul"}
    assert "softmax" in {one.kind.partition(" ")[0] for one in rows.judged}
    with pytest.raises(BadInput, match=r"no published time of NVIDIA H200") as caught:
        engine.calibrate([times], "h200")
    assert "it has a100" in str(caught.value.hint)


def test_tables_that_make_no_calibration_are_refused(times: Path, tmp_path: Path) -> None:
    few = table(tmp_path / "few.csv", rows=15)
    with pytest.raises(BadInput, match=r"published times in the half that is fitted to, 12 are needed"):
        engine.calibrate([few])
    said = refused("calibrate", str(TABLE))
    assert "published times of 5 GPUs" in said and "--target: a100, a100-pcie-40" in said
    own = tmp_path / "own.json"
    own.write_text('{"rows": []}', encoding="utf-8")
    assert "mix published times with measured ones" in refused("calibrate", str(times), str(own))
    broken = tmp_path / "broken.csv"
    head = times.read_text(encoding="utf-8").splitlines()[0]
    row = 'relu,float32,1,1024,"A100 SXM, 80 GB",PyTorch,30,test'
    wrong = (("float32", "floatx"), ("float32", "int32"), ("1024", "0"), ("1024", "1e3"), (",30,", ",nan,"))
    for text in ("operator\nrelu\n", *(f"{head}\n{row.replace(*change)}\n" for change in wrong)):
        broken.write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match="is broken"):
            engine.calibrate([broken])
    assert "is broken" in refused("calibrate", str(broken))


def test_the_verb_says_whose_times_they_are(times: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    said = loomscope("calibrate", str(times)).stdout
    assert "published times of others' kernels" in said and "matmul float32 by PyTorch" in said


def test_each_operator_of_the_shipped_table_is_drawn_or_named() -> None:
    """The graph of a row is a group that finds the row."""
    without = set()
    for (operator, dtype, inputs), columns in read_table(TABLE).items():
        sizes = min((size for times in columns.values() for size in times), key=lambda size: (len(size) < 4, size))
        problem = PublishedProblem(operator, dtype, inputs, sizes)
        graph = operator_graph(problem)
        if graph is None:
            without.add((operator, dtype, inputs))
        else:
            assert problem_of(engine.fuse(graph, "h100").groups[0]) == problem
    assert without == WITHOUT_GRAPH
