"""The verbs of tuning: build a search, its runner and judge from their names; ablate a result."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from engine.api import check as check_kernel
from engine.api import measure, nvrtc
from engine.compilation import compile_for, default_recipe
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.native.run import measure_native
from engine.execution.nodes import MEASURED, PREDICTED, Failure, Timing
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.recipe import Recipe
from engine.recipe_files import complete_recipe, with_proposals
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from engine.target.machines import is_cpu
from engine.tuning.cluster import cluster as cluster_workers
from engine.tuning.executors import Workers, here, processes
from engine.tuning.final_validation import Judge
from engine.tuning.known_starts import no_starts, read_starts
from engine.tuning.runner import VALUES, MeasuredRunner, PredictedRunner, ReplayedRunner, Runner
from engine.tuning.searched_groups import Observer
from engine.tuning.settings import (
    DEFAULT_PATIENCE,
    DEFAULT_STRATEGY,
    DEFAULT_TRIALS,
    LEAST_GAIN,
    SearchLimits,
    SearchSettings,
    SearchTools,
)
from engine.tuning.setup import begin
from engine.tuning.strategies import BLIND
from engine.tuning.tuning_run import TuningRun
from engine.verify.values import group_values

REPLAYED = "replayed"
RUNNERS = (PREDICTED, MEASURED, REPLAYED)


def tune(
    subject: FusionPlan | FusionGroup,
    recipe: Recipe | None = None,
    *,
    trials: int = DEFAULT_TRIALS,
    minutes: float | None = None,
    records: str | Path | None = None,
    runner: str = PREDICTED,
    strategy: str = DEFAULT_STRATEGY,
    jobs: int = 1,
    resume: bool = False,
    start: str | Path | None = None,
    cluster: str | None = None,
    patience: int = DEFAULT_PATIENCE,
    check: bool = True,
    seed: int = 0,
    source: str | None = None,
    observe: Observer | None = None,
) -> TuningRun:
    """Search for faster recipes of a plan's groups, or of one group: mappings, tiles and pipelines.

    >>> plan = engine.fuse(engine.load("suite:alcop/MM_RN50_FC"), target="a100")
    >>> run = engine.tune(plan, trials=4, strategy="model")
    >>> for attempt in run:
    ...     assert attempt.group == "matmul_0"
    >>> kernel = engine.compile(plan.group("matmul_0"), run.best)
    >>> print(run.report().origin, run.report().trials)
    predicted 4

    recipe: what the search starts from, by default the advisers', as for groups that it does not speak of; a user's
    entries stay fixed.
    trials: for each group on average.  minutes: after which it ends; None for no limit.  patience: rounds without gain
    after which a group gets no more; but for the last two strategies a search also ends once all that is untried is
    promised to save less than a thousandth of the model's time.
    records: file of trials, made where it is absent; what it holds is not run again.  None keeps nothing.  The
    recipe is kept by `engine.write_recipe(run.best, path)`.
    runner: "predicted" (the model's times), "measured" (this machine's GPU or CPU, or the GPUs of a cluster) or
    "replayed" (times
    that the records hold).  strategy: "learned", "model", "evolution", "random" or "exhaustive".
    jobs: processes of this machine; with more than one a script needs `if __name__ == "__main__":`.
    cluster: address of a Dask scheduler in their place, "tls://host:8786".
    resume: go on with the last run of the records.
    start: a file whose programs are tried first: a recipe, or records of other runs, of which the best programs of
    groups with the same arrays in the nearest sizes are taken.  A run that is resumed without one takes its own again;
    where that cannot be read any more it goes on without, and tells so (`TuningRun.on_notice`).
    check: compare the best program of each group with the reference at the end.  seed: of all that is drawn.
    source: the file's name for who reads the records, by default the graph's.
    observe: called with (group, groups before it, groups) when the search space of a group is about to be built: the
    first by this call, the others when their first rounds are due.
    Raises BadInput for options that cannot be meant, Unsupported where nothing can be searched, with the reasons,
    MissingCapability where the runner lacks what it needs.
    """
    _check_limits(minutes, patience)
    _check_workers(jobs, cluster, runner)
    _check_records(records, resume, runner)
    target = recipe.target if recipe else subject.target
    running = find_runner(runner, needs_gpu=cluster is None and not is_cpu(target))
    least_gain = 0.0 if strategy in BLIND else LEAST_GAIN
    limits = SearchLimits(trials, math.inf if minutes is None else minutes, patience=patience, least_gain=least_gain)
    groups = subject.groups if isinstance(subject, FusionPlan) else (subject,)
    graph = subject.source if isinstance(subject, FusionPlan) else subject.graph
    if source is None:
        source = str(graph.source.resolve()) if graph is not None and graph.source else ""
    starts = no_starts if start is None else read_starts(start)
    known = "" if start is None else str(start)
    settings = SearchSettings(strategy, running, limits, seed, source, resume, known, starts)
    recipe = _whole_recipe(subject, recipe)
    with ExitStack() as opened:
        store = opened.enter_context(RecordStore(":memory:" if records is None else records))
        workers = _find_workers(jobs, cluster, recipe.target, runner)
        opened.callback(workers.close)
        tools = SearchTools(workers, judge(runner) if check else Judge())
        search = begin(groups, recipe, store, settings, tools, observe)
        opened.pop_all()  # the run closes them
    return TuningRun(search, store)


def _whole_recipe(subject: FusionPlan | FusionGroup, recipe: Recipe | None) -> Recipe:
    """What a search starts from: the recipe, and of groups that it does not speak of what their advisers say."""
    if recipe is None:
        return default_recipe(subject)
    if isinstance(subject, FusionPlan):
        return complete_recipe(recipe, subject)
    return with_proposals(recipe, subject)


def _check_limits(minutes: float | None, patience: int) -> None:
    """Raise BadInput for limits that no search can have."""
    if minutes is not None and not 0 < minutes < math.inf:
        raise BadInput("tune", f"{minutes:g} minutes", "is no time", "say a number above 0")
    if patience < 1:
        raise BadInput("tune", f"patience {patience}", "is no number of rounds", "say 1 or more")


def _check_workers(jobs: int, cluster: str | None, runner: str) -> None:
    """Raise BadInput for an address that is none, and for processes that would be in each other's way."""
    if cluster is not None and not re.fullmatch(r"(\w+://)?.+:\d+", cluster):
        hint = "for example tcp://host:8786"
        raise BadInput("tune", f"cluster {cluster}", "is no address of a host with a port", hint)
    if jobs != 1 and cluster is not None:
        raise BadInput("tune", f"{jobs} jobs", "are for this machine alone", "a cluster has the workers that it has")
    if jobs != 1 and runner == MEASURED:
        raise BadInput("tune", f"{jobs} jobs", "would time kernels beside each other on one GPU", "leave it at 1")


def _check_records(records: str | Path | None, resume: bool, runner: str) -> None:
    """Raise BadInput where the records cannot be what is asked of them."""
    path = None if records is None else Path(records)
    if path is not None and os.path.exists(path) and not os.path.isfile(path):
        raise BadInput("tune", f"records {path}", "is not a file", "name one for the records of the search")
    if resume and (path is None or not os.path.isfile(path)):
        raise BadInput("tune", f"records {path}", "is not there to go on with", "do not resume")
    if runner == REPLAYED and (path is None or not os.path.isfile(path)):
        raise BadInput("tune", f"records {path}", "is not there to be replayed", "name a file of measured trials")


def _find_workers(jobs: int, address: str | None, target: str, runner: str) -> Workers:
    """Where programs run."""
    if address is not None:
        return cluster_workers(address, target, one_at_a_time=runner == MEASURED)
    return here() if jobs == 1 else processes(jobs)


def find_runner(name: str, origin: str = MEASURED, needs_gpu: bool = True) -> Runner:
    """The runner of a name.  origin: of the trials that "replayed" takes.  needs_gpu: whether this machine's measures.

    Raises BadInput for another name, MissingCapability where this machine is to measure and cannot.
    """
    from engine.execution.measure import require_pycuda

    if name == PREDICTED:
        return PredictedRunner()
    if name == REPLAYED:
        return ReplayedRunner(origin)
    if name != MEASURED:
        raise BadInput("tune", f"runner {name}", "is not known", f"one of {', '.join(RUNNERS)}")
    if needs_gpu:
        require_pycuda()
    return MeasuredRunner(_measure_on_seed)


def judge(name: str) -> Judge:
    """The judge of a runner: measured trials were checked when they ran and are timed again, others are checked."""
    return Judge(time_together=time_together) if name == MEASURED else Judge(check=partial(check_kernel, seed=0))


def time_together(group: FusionGroup, recipes: Sequence[Recipe]) -> tuple[Timing, ...] | Failure:
    """Times of the kernels of a group under several recipes, in interleaved rounds on this machine's GPU, or its CPU.

    Raises MissingCapability where there is none.
    """
    from engine.execution.measure import MeasureJob, measure_kernels
    expected, before = group_values(group, VALUES)
    made = [compile_for(group, recipe) for recipe in recipes]
    native = [(kernel, {**expected, **before}) for kernel in made if isinstance(kernel, CpuKernel)]
    if native:
        timed = measure_native(native)
        return timed if isinstance(timed, Failure) else tuple(one.timing for one in timed)
    kernels = [kernel for kernel in made if not isinstance(kernel, CpuKernel)]
    compiled = [nvrtc(kernel, kernel.target.architecture) for kernel in kernels]
    trials = [MeasureJob(kernel.source, c, {**expected, **before}) for kernel, c in zip(kernels, compiled, strict=True)]
    found = measure_kernels(trials, timeout=60.0 + 10.0 * len(trials))
    return found if isinstance(found, Failure) else tuple(one.timing for one in found)


def _measure_on_seed(kernel: AnyKernel) -> Timing | Failure:
    return measure(kernel, seed=VALUES)
