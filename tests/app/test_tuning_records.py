"""`loomscope trials`: runs, the best of each mapping, and what explains the times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.execution.nodes import SYNTHETIC, Failure
from engine.records.nodes import FAILED, FINISHED, SEARCHED, Attempt, Round
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from tests.records.test_runs import REFUSED, REQUEST, TASK, trial
from tests.support.commands import document, loomscope, refused


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two runs: one without an attempt, and one whose times follow its stages alone."""
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        RunLog.start(store, REQUEST).set_state(FINISHED, "nothing was tried")
        log = RunLog.start(store, REQUEST, [TASK], refused=[REFUSED])
        for number in range(1, 13):
            stages, order = 1 + number % 3, ("rows", "columns")[number % 2]
            attempt = Attempt(
                number, None, "matmul_0", "wmma", (("stages", stages), ("order", order)), 10.0 * stages, "new",
                3.0 * stages, "", "", 0.1 * number, low=2.5 * stages, high=4.0 * stages,
            )  # fmt: skip
            log.keep(attempt, trial(number))
        hung = replace(trial(99), outcome=Failure("hang", "10 s"))
        values = (("stages", 3), ("order", "rows"))
        log.keep(Attempt(13, None, "matmul_0", "wmma", values, 1.0, FAILED, None, "hang", "10 s", 1.4), hung)
        log.add_round(Round(1, SEARCHED, "matmul_0", "wmma", "the first", {}, 3.0, 13, 1.4))
        log.set_state(FINISHED, "all trials are spent")
    return path


def test_the_last_run_is_told(records: Path) -> None:
    told = document("trials", str(records))
    assert told["trials"] == {"synthetic": {"times": 12, "failures": {"hang": 1}}}
    assert [(run["number"], run["state"], run["message"]) for run in told["runs"]] == [
        (1, FINISHED, "nothing was tried"), (2, FINISHED, "all trials are spent"),
    ]  # fmt: skip
    (found,) = told["mappings"]
    assert (found["attempts"], found["failures"], found["microseconds"]) == (13, {"hang": 1}, 3.0)
    assert found["program"]["stages"] == 1 and found["trial"] == 3
    assert found["rank_correlation"] == pytest.approx(1.0)
    assert found["importance"]["stages"] == pytest.approx(1.0)
    assert found["importance"]["order"] == pytest.approx(0.0, abs=1e-9)
    assert told["rounds"][0]["reason"] == "the first" and told["tasks"][0]["left"] == 60
    assert told["runs"][1]["start"] == REQUEST.start
    text = loomscope("trials", str(records)).stdout
    assert "model from near.db" in text
    assert (found["low"], found["high"]) == (2.5, 4.0) and "(2.50 to 4.00)" in text
    assert told["refused"][0]["mapping"] == "dp4a" and "multiplies int8, not float16" in text
    assert "all trials are spent" in text and "stages 100 %" in text and "1 hang" in text


def test_another_run_and_none(records: Path, tmp_path: Path) -> None:
    assert document("trials", str(records), "--run", "1")["mappings"] == []
    assert "no run 7" in refused("trials", str(records), "--run", "7")
    RecordStore(tmp_path / "empty.db").close()
    assert "no run is kept" in loomscope("trials", str(tmp_path / "empty.db")).stdout
    assert "is not there" in refused("trials", str(tmp_path / "absent.db"))


def test_trials_of_one_origin_are_exported(records: Path, tmp_path: Path) -> None:
    document("trials", str(records), "--export", str(tmp_path / "t.json"))
    table = json.loads((tmp_path / "t.json").read_text())
    assert table["origin"] == SYNTHETIC and len(table["trials"]) == 13
    document("trials", str(records), "--export", str(tmp_path / "t.csv"), "--origin", "measured")
    assert (tmp_path / "t.csv").read_text().count("\n") == 1
    assert "no origin" in refused("trials", str(records), "--export", str(tmp_path / "t.csv"), "--origin", "guessed")


def log_of(path: Path, times: dict[int, float], group: str = "vector_add") -> Path:
    """A cache of Kernel Tuner; times in milliseconds by block."""
    entries = {f"{block}": {"block": block, "time": time} for block, time in times.items()}
    head = {"device_name": "NVIDIA A100", "kernel_name": group, "tune_params_keys": ["block"]}
    path.write_text(json.dumps({**head, "cache": entries}))
    return path


def test_a_log_of_another_tuner_is_told_like_a_run(tmp_path: Path) -> None:
    path = log_of(tmp_path / "cache.json", {32: 0.5, 64: 0.25, 128: 1.0})
    told = document("trials", str(path))
    (run,) = told["runs"]
    assert (run["origin"], run["runner"], run["target"], run["started"]) == ("published", "imported", "NVIDIA A100", "")
    (found,) = told["mappings"]
    assert (found["group"], found["microseconds"], found["program"]) == ("vector_add", 250.0, {"block": 64})
    text = loomscope("trials", str(path)).stdout
    assert "published times" in text and "promised" not in text and "round" not in text
    assert "its log has them all" in refused("trials", str(path), "--export", str(tmp_path / "t.csv"))
    assert not (tmp_path / "t.csv").exists()


def test_two_runs_are_compared_by_group(records: Path, tmp_path: Path) -> None:
    before = log_of(tmp_path / "before.json", {32: 0.8, 64: 0.6, 128: 0.4})
    after = log_of(tmp_path / "after.json", {32: 0.4, 64: 0.2, 128: 0.1})
    (group,) = document("trials", str(after), "--against", str(before))["against"]["groups"]
    found = group["found"]
    assert (found["own"]["best"], found["other"]["best"], found["ratio"]) == (100.0, 400.0, pytest.approx(4.0))
    assert (found["own"]["reached"], found["other"]["reached"]) == (1, 3)
    assert found["differences"] == [], "both are fastest with 128"
    text = loomscope("trials", str(after), "--against", str(before)).stdout
    assert "4.000" in text and "1 and 3" in text and "before.json" in text
    # Predicted, synthetic and published times are not divided by each other.
    (mixed,) = document("trials", str(records), "--against", str(before))["against"]["groups"]
    assert (mixed["own_group"], mixed["other_group"]) == ("matmul_0", "vector_add"), "the only group of each"
    assert mixed["found"]["ratio"] is None and "synthetic and published" in mixed["found"]["why_not"]
    assert "synthetic and published" in loomscope("trials", str(records), "--against", str(before)).stdout


def test_a_run_that_cannot_be_compared_is_refused(records: Path, tmp_path: Path) -> None:
    assert document("trials", str(records), "--against", "1")["against"]["run"] == 1
    assert "with itself" in refused("trials", str(records), "--against", "2")
    assert "with itself" in refused("trials", str(records), "--against", str(records))
    assert "no run 7" in refused("trials", str(records), "--against", "7")
    assert "is not there" in refused("trials", str(records), "--against", str(tmp_path / "absent.db"))
