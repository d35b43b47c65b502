"""Programs in other processes: in a pool, in one whose processes die, and in whatever executor a caller brings."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.execution.nodes import SYNTHETIC, Timing
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import FAILED, INTERRUPTED
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.support.errors import MissingCapability
from engine.tuning.executors import Workers, processes
from engine.tuning.runner import Outcome, Prepared
from tests.tuning.runs import Synthetic, run, search

TRIALS = 5


@dataclass(frozen=True)
class Deadly:
    """The kernel of one time kills the process that runs it: always, or only while a file is not there."""

    time: float
    mark: str
    always: bool
    name: str = "synthetic"
    origin: str = SYNTHETIC
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        return Synthetic().prepare(group, recipe)

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        outcome = Synthetic().finish(group, recipe)
        assert isinstance(outcome, Timing)
        if outcome.microseconds == self.time and (self.always or not Path(self.mark).exists()):
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome


@dataclass(frozen=True)
class Lacking:
    """A runner on a machine that lacks what it needs."""

    name: str = "synthetic"
    origin: str = SYNTHETIC
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        return Synthetic().prepare(group, recipe)

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        raise MissingCapability("measure", "this machine", "there is no CUDA device", "install one")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[object, float | None]:
    """Times of the programs of a random search in this process."""
    path = tmp_path_factory.mktemp("alone") / "r.db"
    return {(a.mapping, a.values): a.microseconds for a in run(path, trials=TRIALS, runner=Synthetic())[1]}


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("always", [False, True])
def test_a_process_that_dies_costs_at_most_its_own_program(
    always: bool, alone: dict[object, float | None], tmp_path: Path
) -> None:
    deadly = list(alone)[2]
    time = alone[deadly]
    assert time is not None and list(alone.values()).count(time) == 1
    runner = Deadly(time, str(tmp_path / "mark"), always)
    one, attempts = run(tmp_path / "r.db", trials=TRIALS, runner=runner, workers=processes(2))
    assert one.spent == TRIALS and one.repeated == 0
    workers = {a.worker for a in attempts if a.failure != "crash"}
    assert workers and all(worker.rpartition(":")[2].isdigit() for worker in workers), "each names its process"
    found = {(a.mapping, a.values): a.microseconds for a in attempts}
    assert found == ({**alone, deadly: None} if always else alone), "who died for another's sake is run again"
    assert {a.failure for a in attempts if a.state == FAILED} == ({"crash"} if always else set())


def test_any_executor_does(alone: dict[object, float | None], tmp_path: Path) -> None:
    def share(value: object) -> object:
        shared.append(value)
        return value

    shared: list[object] = []
    executor: Executor = ThreadPoolExecutor(3)
    _, attempts = run(tmp_path / "r.db", trials=TRIALS, runner=Synthetic(), workers=Workers(executor, 3, share))
    assert {(a.mapping, a.values): a.microseconds for a in attempts} == alone
    assert len(shared) == 1, "a group is brought to the workers once"
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(int)


class Vanishing(ThreadPoolExecutor):
    """Gives back what it was given, from the sixth call on: as a cluster does that lost its scheduler."""

    calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        if self.calls < 6:
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_workers_that_are_gone_end_the_run_which_goes_on_elsewhere(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        one = search(store, TRIALS, runner=Synthetic(), workers=Workers(Vanishing(1)))
        with pytest.raises(MissingCapability, match="are gone"):
            list(one.run())
        kept = one.log.attempts()
        assert 0 < len(kept) < TRIALS and one.log.run().state == INTERRUPTED
    again = run(tmp_path / "r.db", trials=TRIALS, runner=Synthetic(), resume=True)[1]
    assert len(kept) + len(again) == TRIALS + 1, "with the recipe before the search"


def test_what_a_machine_lacks_ends_the_run_and_is_told(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store, pytest.raises(MissingCapability, match="no CUDA device"):
        list(search(store, runner=Lacking()).run())
    with RunReader(tmp_path / "r.db") as reader:
        assert reader.run().state == INTERRUPTED and "no CUDA device" in reader.run().message


def test_a_pool_ends_with_what_is_under_way() -> None:
    """Python, when it ends, would wait for it, however long it takes."""
    workers = processes(1)
    there = workers.executor.submit(os.getpid).result(timeout=60)
    long = workers.executor.submit(time.sleep, 60)
    while not long.running():
        time.sleep(0.01)
    workers.close()
    with pytest.raises(BrokenExecutor):
        long.result(timeout=10)
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(there, 0)
            time.sleep(0.1)
