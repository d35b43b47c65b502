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
    text = loomscope("trials", str(records)).stdout
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
