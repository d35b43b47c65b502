"""The suites: every row opens and needs the bytes and operations that its file says, which are the published ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from engine.suite import Suite, SuiteRow, is_reference, model_file, read_row, read_suite, suite_names
from engine.suite.operators import OPERATORS
from engine.support.errors import BadInput
from engine.tensor.traffic import flop_counts

KERNELS = Path(__file__).parents[3] / "shared" / "research" / "kernels.md"
PUBLISHED = {
    "alcop-matmul": "### c.1",
    "transformer": "### c.2",
    "batched": "### c.3",
    "conv": "### c.4",
    "memory": "### c.5",
}
CONTRACTIONS = ("matmul", "gemv", "batched-matmul", "conv")
SUITES = {name: read_suite(name) for name in suite_names()}
ROWS = [pytest.param(suite, row, id=suite.reference(row)) for suite in SUITES.values() for row in suite.rows]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOMSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize(("suite", "row"), ROWS)
def test_a_row_opens_and_needs_what_its_file_says(suite: Suite, row: SuiteRow) -> None:
    graph = engine.load(suite.reference(row))
    plan = engine.fuse(graph)
    assert not plan.unsupported and plan.groups
    once = row.bytes - row.again
    interface = sum(graph.tensors[name].bytes for name in (*graph.inputs, *graph.outputs))
    moved = engine.plan_bytes(plan)
    # A strided convolution with a smaller kernel skips inputs, a transposed one those whose windows are all padding;
    # several kernels move more than one would.
    skips = row.operator == "conv" and any(r < s for r, s in zip(row.sizes["kernel"], row.sizes["stride"], strict=True))
    assert once < interface if skips else once == interface
    if row.operator == "transposed-conv" and all(
        p >= k for p, k in zip(row.sizes["pad"], row.sizes["kernel"], strict=True)
    ):
        x = graph.tensors[graph.inputs[0]]
        inner = x.bytes * math.prod(size - 2 for size in x.shape[2:]) // math.prod(x.shape[2:])
        assert once - x.bytes + inner <= moved < once
    else:
        assert moved == once if len(plan.launches) == 1 else moved > once
    operations = sum(flop_counts(group.program)[0] * len(group.instances) for group in plan.groups)
    if row.operator in CONTRACTIONS:
        assert operations == row.flops
    else:
        # A published count per element takes an exponential for one operation; ours counts its instructions.
        assert 0.5 * row.flops <= operations


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "row"), ROWS)
def test_a_row_compiles_and_is_predicted_no_faster_than_its_floor(suite: Suite, row: SuiteRow) -> None:
    groups = engine.fuse(engine.load(suite.reference(row)), target="h200").groups
    predicted = sum(engine.predict(engine.compile(group)).microseconds * len(group.instances) for group in groups)
    # Both take 4.3e12 bytes a second from the same published measurement.
    assert predicted >= 0.999 * row.floor(suite.ceilings)


@pytest.mark.parametrize("name", PUBLISHED)
def test_figures_agree_with_the_published_tables(name: str) -> None:
    if not KERNELS.is_file():
        pytest.skip(f"{KERNELS} is not here: the suites' source is not part of the repository")
    suite, text = SUITES[name], KERNELS.read_text(encoding="utf-8")
    table = text[text.index(PUBLISHED[name]) :].removeprefix("### ").split("\n### ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and "**" in line]
    assert 10 < len(lines) <= len(suite.rows)
    for row, line in zip(suite.rows, lines, strict=False):
        before, floor, _ = line.split("**")
        figures = [float(cell) for cell in before.split("|") if re.fullmatch(r" [\d.]+ ", cell)]
        gigaflops, megabytes = reversed(figures) if name == "memory" else figures[:2]
        assert math.isclose(row.bytes / 1e6, megabytes, rel_tol=0.006), line
        # Published figures have two digits behind the point, or three digits in all.
        assert math.isclose(row.flops / 1e9, gigaflops, rel_tol=0.006, abs_tol=0.0051), line
        assert math.isclose(row.floor(suite.ceilings), float(floor), rel_tol=0.006, abs_tol=0.0051), line


def test_the_suites_hold_what_was_published() -> None:
    counts = {name: len(suite.rows) for name, suite in SUITES.items()}
    assert counts["alcop"] == 22 and counts["alcop-matmul"] == 41 and counts["batched"] == 13
    families = {row.name.split("-")[0] for row in SUITES["gta"].rows}
    assert families == {
        "gemv", "gemm", "scan", "mean", "variance", "conv1d", "conv2d", "conv3d", "dilated", "transposed"
    }  # fmt: skip
    assert {row.operator for suite in SUITES.values() for row in suite.rows} == OPERATORS.keys()


def test_a_row_is_found_by_its_reference() -> None:
    suite, row = read_row("suite:alcop/MM_BERT_FC1")
    assert (suite.name, row.sizes) == ("alcop", {"m": 512, "n": 3072, "k": 768})
    assert row.limit(suite.ceilings) == "compute"
    # 2 x 512 x 3072 x 768 operations at 790e12 a second.
    assert row.floor(suite.ceilings) == pytest.approx(3.058, rel=1e-3)
    assert is_reference("suite:alcop/x") and not is_reference("alcop/x.onnx")


def test_the_same_bytes_are_written_every_time() -> None:
    first = model_file("suite:gta/gemv-512x16")
    data, changed = first.read_bytes(), first.stat().st_mtime_ns
    assert model_file("suite:gta/gemv-512x16").stat().st_mtime_ns == changed
    first.write_bytes(b"cut")
    assert model_file("suite:gta/gemv-512x16").read_bytes() == data


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("suite:alcop/MM_BERT_FC3", "MM_BERT_FC1"),
        ("suite:alcopp/x", "alcop"),
        ("suite:alcop", "names no row"),
        ("suite:", "there is no such suite"),
        ("suite:../models/x", "there is no such suite"),
    ],
)
def test_a_name_that_is_wrong_is_told_with_the_nearest(reference: str, says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)):
        engine.load(reference)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"operator": "matmull"}, "matmull is not known"),
        ({"sizes": {"m": 2, "n": 2}}, "missing a required argument: 'k'"),
        ({"sizes": {"m": 2, "n": 2, "k": 2, "q": 1}}, "unexpected keyword argument 'q'"),
        ({"sizes": {"m": 2, "n": 2, "k": 0}}, "axis 1 has size 0"),
        ({"bytes": "many"}, "rows[0].bytes"),
        ({"speed": 3}, "speed"),
    ],
)
def test_a_broken_row_is_told_by_its_place(tmp_path: Path, change: dict[str, object], says: str) -> None:
    good = {
        "name": "r",
        "operator": "matmul",
        "dtype": "float16",
        "sizes": {"m": 2, "n": 2, "k": 2},
        "flops": 16,
        "bytes": 24,
    }
    ceilings = {"flops_per_second": 1e12, "bytes_per_second": 1e12, "origin": "a test"}
    for row in (good, {**good, **change}):
        content = {"title": "t", "source": "s", "ceilings": ceilings, "rows": [row]}
        (tmp_path / "mine.json").write_text(json.dumps(content), encoding="utf-8")
        if row is good:
            assert engine.load(model_file("suite:mine/r", tmp_path)).outputs == ("c",)
            continue
        with pytest.raises(BadInput, match=re.escape(says)):
            engine.load(model_file("suite:mine/r", tmp_path))


def test_a_file_that_is_no_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"title":', encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    for name, says in (("cut", "is cut short"), ("list", "no JSON object")):
        with pytest.raises(BadInput, match=says):
            read_suite(name, tmp_path)
