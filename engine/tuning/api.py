"""The verbs of tuning: build a search, its runner and judge from their names; ablate a result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engine.api import check, group_values, measure, nvrtc
from engine.compilation import compile_group
from engine.execution.nodes import MEASURED, PREDICTED, Failure, Timing
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from engine.tuning.executors import Workers
from engine.tuning.final_validation import Judge
from engine.tuning.runner import VALUES, MeasuredRunner, PredictedRunner, ReplayedRunner, Runner
from engine.tuning.search import Search
from engine.tuning.settings import SearchSettings, SearchTools
from engine.tuning.setup import Observer, begin

REPLAYED = "replayed"
RUNNERS = (PREDICTED, MEASURED, REPLAYED)


def tune(
    plan: FusionPlan,
    recipe: Recipe,
    records: RecordStore,
    settings: SearchSettings | None = None,
    workers: Workers | None = None,
    judge: Judge | None = None,
    observe: Observer | None = None,
) -> Search:
    """A search for faster recipes of a plan's groups; iterate over its `run`, then take its `recipe`.

    records: keeps trials and the run, and gives the results of trials that were run before.  settings: by default
    predicted times and the learned strategy.  workers: by default this process.  judge: checks the best program against
    the reference, by default not at all.  observe: called with (group, groups done, groups) while search spaces are
    built.  Raises what `engine.tuning.setup.begin` does.
    """
    tools = SearchTools()
    tools = SearchTools(workers or tools.workers, judge or tools.judge)
    return begin(plan, recipe, records, settings or SearchSettings(), tools, observe)


def runner(name: str, origin: str = MEASURED, is_here: bool = True) -> Runner:
    """The runner of a name.  origin: of the trials that "replayed" takes.  is_here: whether this machine measures.

    Raises BadInput for another name, MissingCapability where this machine is to measure and cannot.
    """
    from engine.execution.measure import require_pycuda

    if name == PREDICTED:
        return PredictedRunner()
    if name == REPLAYED:
        return ReplayedRunner(origin)
    if name != MEASURED:
        raise BadInput("tune", f"runner {name}", "is not known", f"one of {', '.join(RUNNERS)}")
    if is_here:
        require_pycuda()
    return MeasuredRunner(_measure_on_seed)


def judge(name: str) -> Judge:
    """The judge of a runner: measured trials were checked when they ran and are timed again, others are checked."""
    return Judge(time_together=time_together) if name == MEASURED else Judge(check=partial(check, seed=0))


def time_together(group: FusionGroup, recipes: Sequence[Recipe]) -> tuple[Timing, ...] | Failure:
    """Times of the kernels of a group under several recipes, in interleaved rounds on this machine's GPU.

    Raises MissingCapability where there is none.
    """
    from engine.execution.measure import MeasureJob, measure_kernels
    expected, before = group_values(group, VALUES)
    kernels = [compile_group(group, recipe) for recipe in recipes]
    compiled = [nvrtc(kernel, kernel.target.architecture) for kernel in kernels]
    trials = [MeasureJob(kernel.source, c, {**expected, **before}) for kernel, c in zip(kernels, compiled, strict=True)]
    found = measure_kernels(trials, timeout=60.0 + 10.0 * len(trials))
    return found if isinstance(found, Failure) else tuple(one.timing for one in found)


def _measure_on_seed(kernel: Kernel) -> Timing | Failure:
    return measure(kernel, seed=VALUES)
