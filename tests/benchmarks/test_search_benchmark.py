"""The search benchmark: its device, its truth, its races, and the whole command on small spaces."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.execution.nodes import PREDICTED, SYNTHETIC, Failure, Timing
from engine.kernels.gemm.space import GemmTemplate, prune_programs
from engine.kernels.prune import FAR_FROM_BEST, KEPT_ANYWAY
from engine.kernels.space import Program
from engine.records.nodes import Request
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.tuning.strategies import STRATEGIES
from tests.benchmarks import search
from tests.benchmarks.search_races import Race, curve, rank_correlation, run
from tests.benchmarks.search_truth import QUICK, WHOLE, Operator
from tests.benchmarks.synthetic_device import CLOCK, LAUNCH, Launch, _drawn
from tests.benchmarks.synthetic_device import run as timed
from tests.support.needs import needs_compiler, needs_nvrtc

LAUNCHED = Launch(
    text="a", shape="s", grid=(8, 24, 1), threads=128, shared_bytes=48 << 10, registers=120, spill_bytes=0,
    code_bytes=16 << 10, steps=24, stages=3, inner_steps=2, register_stages=1, copies=8, loads=0, reads=8, products=64,
    indices=20, conflicts=0.0, fetched=(8192, 8192), distinct=(1.0, 1.0), operands=8 << 20, written=32768,
)  # fmt: skip


def microseconds(launch: Launch, seed: int = 0) -> float:
    found = timed(launch, seed)
    assert isinstance(found, Timing) and found.origin == SYNTHETIC
    return found.microseconds


def test_a_kernel_has_one_time_and_noise_comes_from_the_seed() -> None:
    assert microseconds(LAUNCHED) == microseconds(LAUNCHED)
    others = {microseconds(replace(LAUNCHED, text=str(n))) for n in range(20)}
    assert len(others) == 20 and max(others) / min(others) < 1.08
    assert microseconds(LAUNCHED, seed=1) != microseconds(LAUNCHED)
    drawn = [_drawn(0, str(n)) for n in range(2000)]
    assert abs(sum(drawn) / 2000) < 0.08 and abs(sum(d * d for d in drawn) / 2000 - 1) < 0.12


@pytest.mark.parametrize(
    "slower",
    [
        {"spill_bytes": 64}, {"conflicts": 1.0}, {"registers": 200, "grid": (64, 64, 1)}, {"loads": 64.0},
        {"fetched": (32768, 32768)}, {"code_bytes": 256 << 10, "indices": 400.0}, {"stages": 1}, {"grid": (16, 24, 1)},
        {"shared_bytes": 120 << 10, "grid": (64, 64, 1)}, {"exchanged": 262144.0},
    ],
    ids=lambda changes: "-".join(changes),
)  # fmt: skip
def test_what_costs_a_gpu_costs_the_device(slower: Mapping[str, object]) -> None:
    larger = replace(LAUNCHED, grid=slower.get("grid", LAUNCHED.grid))  # type: ignore[arg-type]
    base = LAUNCHED if slower.keys() == {"grid"} else larger
    assert microseconds(replace(base, **slower)) > 1.005 * microseconds(base)  # type: ignore[arg-type]


def test_what_does_not_fit_an_sm_is_a_failure_and_a_launch_is_never_free() -> None:
    assert isinstance(timed(replace(LAUNCHED, shared_bytes=200 << 10)), Failure)
    tiny = replace(LAUNCHED, grid=(1, 1, 1), steps=1)
    assert LAUNCH / CLOCK * 0.8 < microseconds(tiny) < 3 * LAUNCH / CLOCK


def test_many_steps_go_on_as_the_simulated_ones_did() -> None:
    """Steps beyond those that are simulated cost what a step costs, whatever the stages."""
    large = replace(LAUNCHED, operands=1 << 30)  # more than stays in L2 whatever the steps
    for stages in (1, 2, 4):
        times = [microseconds(replace(large, steps=steps, stages=stages)) for steps in (32, 64, 96)]
        assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((1, 2, 3, 4), (10, 20, 30, 45), 1.0),
        ((1, 2, 3, 4), (4, 3, 2, 1), -1.0),
        # With ties: ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4 have a covariance of 4.5 to variances of 4.5 and 5.
        ((1, 2, 2, 9), (0, 7, 3, 8), 0.9487),
    ],
)
def test_a_rank_correlation_is_spearmans(
    first: tuple[float, ...], second: tuple[float, ...], expected: float
) -> None:
    assert rank_correlation(first, second) == pytest.approx(expected, abs=1e-4)
    assert rank_correlation(first[:2], second[:2]) is None


class Line:
    """Programs 0 to 99; the model promises the better ones a little wrongly."""

    def __init__(self) -> None:
        self.programs = tuple(Program("line", (("place", n),)) for n in range(100))
        self.dimensions = {"place": tuple(range(100))}

    def rank(self, program: Program) -> float:
        return 10.0 + abs(program.number("place") - 40)

    def time_of_unseen(self, program: Program) -> None:
        """All are known."""

    def accesses(self, program: Program) -> tuple[int, int]:
        return 0, 0

    def features(self, program: Program) -> tuple[float, ...]:
        return (float(program.number("place")),)


def test_a_race_counts_what_was_found_when() -> None:
    line = Line()
    times = {p: None if p.number("place") % 10 == 0 else 10.0 + abs(p.number("place") - 47) for p in line.programs}
    model = curve(line, times, "model", 30, 0, 10.0)  # type: ignore[arg-type]
    # 40 fails; then 39 and 41, of which the better has 16 to the best one's 10.
    assert model[:3] == [0.0, 10 / 18, 10 / 16] or model[:3] == [0.0, 10 / 16, 10 / 16]
    found = run(line, times, "model", Race(("model",), 30, 2))  # type: ignore[arg-type]
    assert found.reached_99 == 1.0 and found.best_of_10 < 1.0 == found.best_of_50 and 13 <= found.trials_to_99 <= 15
    never = run(line, times, "exhaustive", Race(("exhaustive",), 30, 1))  # type: ignore[arg-type]
    assert (never.reached_99, never.trials_to_99) == (0.0, 30)


def test_the_space_of_an_operator_is_whole_and_pruned_by_its_own_best() -> None:
    operator = Operator("BMM_BERT_QK", is_quick=True)
    programs, kept = operator.programs, operator.task.programs
    assert len(set(programs)) == len(programs) == math.prod(map(len, QUICK.values())) == operator.task.funnel.total
    assert math.prod(map(len, WHOLE.values())) <= 3000
    template = operator.task.template
    assert isinstance(template, GemmTemplate)
    sound = prune_programs(template, programs).left
    times = sorted(map(template.rank, sound))
    limit = max(FAR_FROM_BEST * times[0], times[KEPT_ANYWAY - 1])
    assert set(kept) == {program for program in sound if template.rank(program) <= limit} < set(sound) < set(programs)


@needs_compiler
@needs_nvrtc
@pytest.mark.slow
def test_the_whole_command_and_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--trials", "20", "--seeds", "1"]
    file, records = tmp_path / "search.json", tmp_path / "truth.db"
    arguments = ["--quick", "--processes", "1", "--figures", str(tmp_path / "f.db"), *common]
    assert search.main([*arguments, "--json", str(file), "--records", str(records)]) == 0
    document = json.loads(file.read_text())
    summary = document["summary"]
    assert summary["origin"] == SYNTHETIC and summary["operators"] == 3 == len(document["rows"])
    assert summary["rank_correlation"] < search.MOST_CORRELATION
    assert summary["strategies"].keys() == STRATEGIES.keys()
    assert 0 < summary["best_of_10"] <= summary["best_of_50"] <= 1
    assert 0 < summary["pruned_trials"] < 1 and summary["pruned_loss"] >= 0
    said = capsys.readouterr().out
    assert "MM_BERT_FC2" in said and "us synthetic" in said
    again = tmp_path / "again.json"
    assert search.main(["--recorded", str(records), *common, "--json", str(again)]) == 0
    recorded = json.loads(again.read_text())["summary"]
    for key in ("best_of_10", "pruned_loss", "pruned_trials", "rank_correlation", "timed"):
        assert recorded[key] == summary[key], key


def test_records_without_times_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RecordStore(tmp_path / "empty.db").close()
    assert search.main(["--recorded", str(tmp_path / "empty.db")]) == 2
    assert "holds no times" in capsys.readouterr().err
    assert search.main(["--recorded", str(tmp_path / "absent.db")]) == 2
    assert "is not there" in capsys.readouterr().err


def test_an_operator_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--operator", "MM_Nothing"]) == 2
    assert "MM_Nothing" in capsys.readouterr().err


def test_times_of_two_origins_are_never_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "both.db"
    with RecordStore(path) as store:
        for origin in (SYNTHETIC, PREDICTED):
            RunLog.start(store, Request("suite:gta/gemm-16x512x128", "h200", "random", "none", origin, 1, recipe="{}"))
    assert search.main(["--recorded", str(path)]) == 2
    assert "times that are predicted and synthetic" in capsys.readouterr().err


def test_a_model_that_knows_the_device_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "summarize", lambda outcomes, strategies: SUMMARY | {"rank_correlation": 0.93})
    monkeypatch.setattr(search, "_synthetic", lambda options, race: iter([SimpleNamespace(name="one")]))
    monkeypatch.setattr(search, "_line", lambda outcome: "")
    assert search.main(["--strategy", "model"]) == 1
    assert "0.93 tests nothing" in capsys.readouterr().err


SUMMARY = {
    "rank_correlation": 0.5,
    "strategies": {"model": {"best_of_10": 1, "best_of_50": 1, "trials_to_99": 1, "reached_99": 1}},
}
