"""The measured runner without a GPU: kernels run in the emulator, and their times are made up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine.execution import measure
from engine.execution.emulate.emulate import emulate
from engine.execution.measure import MeasureJob, Measurement
from engine.execution.nodes import MEASURED, Compiled, Failure, Timing
from engine.execution.nvrtc import compile_cuda
from engine.records.nodes import CHECKED, TIMED_AGAIN
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.tuning import compiler_pruning as compiled
from engine.tuning.api import find_runner, judge
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.settings import SearchLimits, SearchSettings
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.tuning.runs import begin_search

pytestmark = [needs_compiler, needs_nvrtc]
ROW = "suite:gta/gemm-16x512x128"
TRIALS = 5


def made_up(text: str) -> float:
    return 5.0 + int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 1000


class Gpu:
    """What `measure_kernels` does on a GPU, at times that hold for a kernel's text; some kernels go wrong."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.together = 0

    def kernels(self, trials: Sequence[MeasureJob], **_: Any) -> tuple[Measurement, ...] | Failure:
        self.together += len(trials) > 1
        found = []
        for trial in trials:
            text = trial.source.text
            if text not in self.launched:
                self.launched.append(text)
            number = self.launched.index(text)
            if number == 2:
                return Failure("hang", "no answer")
            read = {b.array: trial.arrays[b.array] for b in trial.source.buffers if b.read}
            outputs = emulate(trial.source, read)[1]
            if number == 3:
                outputs = {name: np.zeros_like(value) for name, value in outputs.items()}
            found.append(Measurement(Timing(MEASURED, made_up(text)), outputs))
        return tuple(found)

    def kernel(self, trial: MeasureJob, **options: Any) -> Measurement | Failure:
        found = self.kernels([trial], **options)
        return found if isinstance(found, Failure) else found[0]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setattr(measure, "require_pycuda", lambda: None)
    monkeypatch.setattr(measure, "measure_kernels", made.kernels)
    monkeypatch.setattr(measure, "measure_kernel", made.kernel)
    return made


def test_every_kernel_is_launched_once_checked_and_the_best_are_timed_again(gpu: Gpu, tmp_path: Path) -> None:
    plan = engine.fuse(engine.load(ROW))
    recipe = engine.default_recipe(plan)
    records = tmp_path / "r.db"
    with RecordStore(records) as store:
        settings = SearchSettings("random", find_runner(MEASURED), SearchLimits(TRIALS), 3, ROW)
        search = begin_search(plan.groups, recipe, store, settings, judge=judge(MEASURED))
        attempts = list(search.run())
        assert attempts[0].mapping == "" and attempts[0].microseconds is not None, "the recipe as it was comes first"
        assert [one.failure for one in attempts].count("hang") == 1
        assert [one.failure for one in attempts].count("wrong result") == 1
        ran = [one for one in attempts if one.failure not in ("compile", "not taken", "pruned")]
        assert len(ran) == len(gpu.launched), "a kernel is launched for one trial"
        assert gpu.together == 1
        kept = list(store.trials(MEASURED))
        assert len(kept) == len({trial.subject.key for trial in kept}) == len(ran)
        (progress,) = search.progress.values()
        best = min(one.microseconds for one in attempts if one.microseconds is not None)
        assert progress.time == best == made_up(next(t for t in gpu.launched if made_up(t) == best))
        found = search.recipe()
    with RunReader(records) as reader:
        kinds = [one.kind for one in reader.rounds(1)]
        assert kinds.count(TIMED_AGAIN) == 1 and CHECKED not in kinds, "each trial was compared with the reference"
        assert reader.run().request.origin == MEASURED
    kernel = engine.compile(plan.groups[0], found)
    assert made_up(kernel.source.text) <= best


def test_a_second_run_launches_nothing_again(gpu: Gpu, tmp_path: Path) -> None:
    plan = engine.fuse(engine.load(ROW))
    recipe = engine.default_recipe(plan)
    for _ in range(2):
        with RecordStore(tmp_path / "r.db") as store:
            settings = SearchSettings("random", find_runner(MEASURED), SearchLimits(2), 3, ROW)
            attempts = list(begin_search(plan.groups, recipe, store, settings).run())
    assert {one.state for one in attempts} <= {"reused", "failed"} and len(gpu.launched) <= 3


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"spill_bytes": 136}, "spilled registers: 136 bytes of a thread"),
        ({"spill_bytes": 128}, ""),  # as many as cost next to nothing
        ({"registers": 300}, "300 registers"),
        ({}, ""),
    ],
)
def test_what_nvrtc_rules_out_is_never_launched(
    figures: dict[str, int], says: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = engine.fuse(engine.load(ROW))
    found = problem(plan.groups[0], engine.default_recipe(plan))
    assert isinstance(found, SearchProblem)

    def told(text: str, architecture: str) -> Compiled:
        return replace(compile_cuda(text, architecture), **figures)  # type: ignore[arg-type]

    monkeypatch.setattr(compiled, "compile_cuda", told)
    prepared = find_runner(MEASURED).prepare(plan.groups[0], found.recipe_of(found.programs[0]))
    if says:
        assert prepared.subject is None and isinstance(prepared.outcome, Failure)
        assert prepared.outcome.kind == "pruned" and says in prepared.outcome.message
    else:
        assert prepared.subject is not None and prepared.outcome is None, "nothing is known before the launch"
        assert prepared.subject.compiler.startswith("NVRTC ") and "seed 0" in prepared.subject.inputs
    assert not gpu.launched
