"""Measured spaces of the CPU: what stands of a run, files and back, and figures of spaces whose answer is known."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from engine.kernels.space import Program
from engine.target.cpu import NAMED_CPUS
from tests.benchmarks import cpu_records
from tests.benchmarks.cpu_records import RECORDED, Recorded, judge, recorded_spaces, space_of, summarise_spaces
from tests.benchmarks.cpu_truth import Built, Group, WholeSpace, in_groups, standing

ROW = "conv2d-C10-b1"
CPU = replace(NAMED_CPUS["zen4"], name=RECORDED, title="a CPU that was made up")


@pytest.fixture(scope="module")
def promised() -> dict[Program, float]:
    """All programs of a row with what the estimate says."""
    space = WholeSpace(ROW, "zen4")
    return {program: space.template.rank(program) for program in space.template.every()}


def record(times: dict[Program, float]) -> Recorded:
    (mapping,) = {program.mapping for program in times}
    return Recorded(ROW, CPU, "2026-11-27", mapping, {replace(one, mapping=""): time for one, time in times.items()})


@pytest.mark.slow(sentinel=True)
def test_an_estimate_that_is_right_finds_the_best_at_once(promised: dict[Program, float]) -> None:
    found = judge(record(promised), seeds=2)
    assert found.programs == len(promised) and found.best == found.chosen == min(promised.values())
    assert found.best_of_50 == 1.0 and found.pruned_loss == 0.0 and found.rank == pytest.approx(1.0)
    assert found.random_best_of_50 < 1.0


@pytest.mark.slow(sentinel=True)
def test_an_estimate_that_is_wrong_is_told(promised: dict[Program, float]) -> None:
    most = max(promised.values()) + min(promised.values())
    found = judge(record({program: most - time for program, time in promised.items()}), seeds=2)
    assert found.rank == pytest.approx(-1.0) and found.pruned_loss > 0.1 and found.best_of_50 < 0.9
    by_chance = random.Random(0)
    found = judge(record({program: by_chance.uniform(50, 100) for program in promised}), seeds=2)
    assert found.rank is not None and abs(found.rank) < 0.1


@pytest.mark.slow(sentinel=True)
def test_a_file_is_read_as_it_was_written(
    promised: dict[Program, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_records, "FOLDER", tmp_path)
    space = WholeSpace(ROW, "zen4")
    built = [Built(program, (), tmp_path, "") for program in list(promised)[:40]]
    groups = [
        Group(number, {at: [10.0 + at, 30.0 + at, 20.0 + at] for at in chunk}, 1.0, 1.0)
        for number in range(2) for chunk in in_groups(range(40), 24)
    ]  # fmt: skip
    path = cpu_records.write_record(space, built, groups, rejected=3)
    (found,) = recorded_spaces(tmp_path)
    assert path.name.endswith(f"-cpu-{ROW}.json") and found.row == ROW
    assert found.cpu.figures() == space.machine.figures()
    assert list(found.times.values()) == [20.0 + at for at in range(40)]
    assert [p.values for p in found.times] == [one.program.values for one in built]


def test_groups_whose_reference_moved_do_not_stand() -> None:
    still = [Group(0, {n: [1.0]}, 100.0, 101.0) for n in range(5)]
    moved = [Group(0, {5: [1.0]}, 100.0, 106.0), Group(0, {6: [1.0]}, 94.0, 100.0)]
    assert standing([*still, *moved]) == still and standing([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("found", recorded_spaces(), ids=lambda found: found.row)
def test_recorded_spaces_are_whole(found: Recorded) -> None:
    assert len(found.times) >= 2000 and "measured" in found.cpu.fma_rate.source and found.cpu.title
    with space_of(found) as (task, times):
        assert set(WholeSpace(found.row, RECORDED, found.mapping).template.every()) <= set(times)
        assert 64 <= len(task.programs) < len(times)


@pytest.mark.slow(sentinel=True)
def test_searches_and_the_estimate_do_on_recorded_spaces() -> None:
    found = summarise_spaces([judge(one, seeds=2) for one in recorded_spaces()])
    assert len(found["spaces"]) >= 3 and found["best_of_50"] >= 0.95 and found["pruned_loss"] <= 0.01
    assert all(one["rank"] >= 0.8 for one in found["spaces"])
    assert found["rank"] == pytest.approx(mean(one["rank"] for one in found["spaces"]))
