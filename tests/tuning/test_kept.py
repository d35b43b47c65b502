"""What a search keeps beside its times: how far their samples scatter, and why mappings were not searched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.execution.nodes import SYNTHETIC, Timing
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import REUSED, RefusedRecord
from engine.records.reader import RunReader
from engine.tuning.runner import Outcome
from tests.tuning.runs import Synthetic, run


@dataclass(frozen=True)
class Scattered(Synthetic):
    """Times with samples."""

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        found = Synthetic.finish(self, group, recipe)
        assert isinstance(found, Timing)
        return Timing(SYNTHETIC, found.microseconds, low=found.microseconds * 0.75, high=found.microseconds * 1.5)


def test_percentiles_are_kept_with_attempts_run_now_and_known_before(tmp_path: Path) -> None:
    run(tmp_path / "r.db", 4, runner=Scattered())
    again = run(tmp_path / "r.db", 4, runner=Scattered())[1]
    assert again and all(one.state == REUSED for one in again)
    with RunReader(tmp_path / "r.db") as reader:
        for number in (1, 2):
            for one in reader.attempts(number):
                assert one.microseconds is not None
                assert (one.low, one.high) == (one.microseconds * 0.75, one.microseconds * 1.5)


def test_a_predicted_time_has_no_percentiles(tmp_path: Path) -> None:
    attempts = run(tmp_path / "r.db", 3)[1]
    assert attempts and all(one.microseconds and one.low is one.high is None for one in attempts)


def test_why_mappings_are_not_searched_is_kept_with_the_run(tmp_path: Path) -> None:
    one = run(tmp_path / "r.db", 2)[0]
    (progress,) = one.progress.values()
    with RunReader(tmp_path / "r.db") as reader:
        kept = reader.run()
    assert kept.refused == tuple(
        RefusedRecord("matmul_0", each.mapping, each.because, each.count) for each in progress.problem.refused
    )
    assert any("avx512" in each.mapping.lower() for each in kept.refused), "what no GPU has"
    assert all(each.because for each in kept.refused)
    assert not {each.mapping for each in kept.refused} & {task.mapping for task in kept.tasks}
