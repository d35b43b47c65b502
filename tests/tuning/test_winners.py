"""Which program is named: by those who search, and by those who read the records afterwards."""

from __future__ import annotations

import math
from pathlib import Path

from engine.execution.nodes import SYNTHETIC, Failure, Timing
from engine.records.nodes import (
    CHECKED,
    FAILED,
    NEW,
    SEARCHED,
    STOPPED,
    TIMED_AGAIN,
    Attempt,
    Request,
    Round,
    Run,
    TaskRecord,
)
from engine.records.reader import RunReader
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.tuning.final_validation import Judge
from engine.tuning.progress import program_of
from engine.tuning.winners import FINALISTS, winners
from tests.tuning.runs import Synthetic, run

REQUEST = Request("a", "h200", "model", "predicted", "predicted", 8)


def attempt(number: int, time: float | None, group: str = "a", failure: str = "", mapping: str = "x") -> Attempt:
    state = FAILED if failure else NEW
    return Attempt(number, number, group, mapping, (("tile", number),), 1.0, state, time, failure, "", 0.0)


def of(before: float) -> Run:
    tasks = tuple(TaskRecord(group, "x", {}, 9, (), 9, before) for group in ("a", "b"))
    return Run(1, "", STOPPED, "", "", 0, 0.0, REQUEST, tasks, {}, "")


def again(number: int, **times: float) -> Round:
    return Round(number, TIMED_AGAIN, "a", "", "", {f"attempt {name[1:]}": time for name, time in times.items()}, 1.0)


def test_the_fastest_that_beats_what_was_is_named() -> None:
    tried = [attempt(1, 9.0), attempt(2, 7.0), attempt(3, 7.0), attempt(4, 12.0, "b"), attempt(5, 1.0, mapping="")]
    found = winners(of(10.0), tried, ())
    assert set(found) == {"a"} and found["a"].attempt.number == 2
    assert (found["a"].microseconds, found["a"].before) == (7.0, 10.0)
    assert set(winners(of(math.inf), tried, ())) == {"a", "b"}, "whatever runs is better than what did not"
    assert winners(of(7.0), tried, ()) == {}


def test_times_taken_beside_each_other_count_until_the_search_goes_on() -> None:
    tried = [attempt(1, 9.0), attempt(2, 7.0), attempt(3, 8.0)]
    found = winners(of(10.0), tried, (again(1, n1=8.5, n2=8.8, n3=8.4),))
    assert (found["a"].attempt.number, found["a"].microseconds) == (3, 8.4)
    wrong = [*tried[:2], attempt(3, None, failure="wrong result")]
    assert winners(of(10.0), wrong, (again(1, n1=8.5, n2=8.8, n3=8.4),))["a"].attempt.number == 1
    searched = Round(2, SEARCHED, "a", "x", "", {}, 7.0, 1)
    assert winners(of(10.0), tried, (again(1, n1=8.5, n2=8.8, n3=8.4), searched))["a"].attempt.number == 2
    checked = Round(2, CHECKED, "a", "x", "agrees", {}, 8.4)
    assert winners(of(10.0), tried, (again(1, n1=8.5, n2=8.8, n3=8.4), checked))["a"].attempt.number == 3
    failed = Round(1, TIMED_AGAIN, "a", "", "could not be repeated", {}, 7.0)
    assert winners(of(10.0), tried, (failed,))["a"].attempt.number == 2


def test_the_fastest_of_each_group_are_read_alone(tmp_path: Path) -> None:
    tried = [attempt(number, 50.0 - number, "ab"[number % 2]) for number in range(1, 31)]
    tried += [attempt(31, None, failure="crash"), attempt(32, 0.5, mapping="")]
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        log.keep_all((one, None) for one in tried)
        log.mark_wrong(30, "wrong result", "differs")
        with RunReader(tmp_path / "r.db") as reader:
            assert [one.number for one in reader.fastest(1, 3, 99)] == [28, 26, 24, 29, 27, 25]
            assert [one.number for one in reader.fastest(1, 1, 20)] == [20, 19], "only those up to a number"
            (wrong,) = reader.attempts_found_wrong(1, 99)
            assert (wrong.number, wrong.failure, wrong.microseconds) == (30, "wrong result", None)
            assert reader.attempts_found_wrong(1, 29) == ()


def test_records_name_the_program_that_the_search_names(tmp_path: Path) -> None:
    """The same one that `-o` writes, also after finalists changed places."""

    def turned(group: object, recipes: object) -> list[Timing] | Failure:
        assert isinstance(recipes, list)
        return [Timing(SYNTHETIC, 0.5 - 0.01 * place) for place in range(len(recipes))]

    one, _ = run(tmp_path / "r.db", 24, runner=Synthetic(), judge=Judge(time_together=turned))
    (progress,) = one.progress.values()
    assert progress.winner is not None and progress.winner != progress.leader
    with RunReader(tmp_path / "r.db") as reader:
        kept = reader.run()
        found = winners(kept, reader.fastest(1, FINALISTS, 10_000), reader.rounds(1))
    (name,) = found
    assert found[name].attempt == progress.winner and found[name].microseconds == progress.time
    tuned = progress.problem.tuned(program_of(found[name].attempt))
    assert one.recipe().groups[name] == tuned.groups[name]
