"""The stream of synthetic trials: the same ones for a seed, whole in the file, no faster than asked."""

from __future__ import annotations

from pathlib import Path

from engine.execution.nodes import SYNTHETIC
from engine.records.nodes import FAILED, FINISHED
from engine.records.reader import RunReader
from tests.benchmarks import trial_stream


def test_a_stream_is_whole_in_the_file_and_keeps_its_pace(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    path = tmp_path / "r.db"
    assert trial_stream.stream(path, 1000, 500.0, seed=3, clock=lambda: now[0], sleep=sleep) == 2.0
    with RunReader(path) as reader:
        run = reader.run()
        kept = reader.attempts(run.number)
        assert (run.state, run.request.origin, len(kept)) == (FINISHED, SYNTHETIC, 1000)
        assert {reader.trial(one.trial).origin for one in kept[:20] if one.trial} == {SYNTHETIC}
        assert sum(one.attempts for one in reader.rounds(run.number)) == 1000 // 64 * 64
    failed = [one for one in kept if one.state == FAILED]
    assert 25 < len(failed) < 80 and {one.failure for one in failed} == set(trial_stream.FAILURES)
    assert all((one.microseconds is None) == (one.state == FAILED) for one in kept)


def test_the_seed_decides_everything() -> None:
    one, same, other = (list(trial_stream.attempts(50, seed)) for seed in (1, 1, 2))
    assert one == same and one != other
    assert len({trial.subject.key for _, trial in (*one, *other)}) == 100
