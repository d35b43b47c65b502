"""What default kernels take, as fusion asks for it of the groups that it weighs."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from importlib import import_module

from engine.compilation import compile_for_advice, predict_kernel, stamp_of
from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work
from engine.cpu.compile import compile_cpu
from engine.fusion.group_programs import structure_of
from engine.fusion.nodes import FusionGroup
from engine.fusion.partition import FusionRequest
from engine.fusion.stitching.nodes import Fixed
from engine.kernels import families
from engine.kernels.family import Setting
from engine.scheduling.nodes import Options
from engine.support.errors import EngineError, Unsupported
from engine.support.process_pool import process_pool
from engine.target import Target
from engine.target import target as find_target
from engine.target.cpu import CpuTarget
from engine.target.machines import is_cpu
from engine.tensor.nodes import TensorProgram
from engine.tensor.numerics import default_numerics
from engine.tensorize.numerics import check_numerics

Key = tuple[Hashable, ...]
"""(structure, target, its calibration, numerics)."""
MOST_WORKS = 4096
"""Structures whose work is cached: more than the largest models have."""
NO_PROCESS = BrokenExecutor, OSError
"""What an executor raises whose process has died, or cannot be started."""
LARGE = 10_000
"""Operators of a graph whose plan takes longer than another process takes to start."""
_works: dict[Key, Work | None] = {}


def default_work(group: FusionGroup) -> Work | None:
    """What one launch of a group's kernel does under its advisers' recipe; None where they advise none that there is.

    Cached by the structure of the group's program: what fusion compiled to judge a group is not compiled again to
    predict the plan, nor when the graph is fused again.
    """
    key = _key(group)
    if key not in _works:
        try:
            setting = Setting(find_target(group.target), group.numerics)
            kernel = families.advise(group, setting, compile_for_advice)[1]
        except Unsupported:  # its family has no kernel of it
            kernel = None
        _keep(key, None if kernel is None else kernel.facts)
    return _works[key]


def _key(group: FusionGroup) -> Key:
    return structure_of(group.program, group.kind), *stamp_of(group.target, group.numerics)


def _keep(key: Key, work: Work | None) -> None:
    while len(_works) >= MOST_WORKS:
        del _works[next(iter(_works))]  # a dict is ordered by insertion: the oldest goes
    _works[key] = work


def default_microseconds(group: FusionGroup) -> float:
    """What one launch of a group's kernel is predicted to take under its advisers' recipe; infinite without a kernel.

    By the figures of its target's description: what is fused never depends on a user's calibration.
    """
    if is_cpu(group.target):
        try:
            return predict_kernel(compile_cpu(group, options=Options(repairing=0.0))).microseconds
        except EngineError:
            return math.inf
    work = default_work(group)
    # One candidate that cannot be had is no reason to fuse nothing.
    return math.inf if work is None else model_microseconds(work, find_target(group.target))


class WorksAhead:
    """Works of groups for GPUs that fusion will probably ask for, made by an executor while fusion goes on.

    They are what `default_work` makes here: which process makes one changes when it is there and nothing else.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._expected: dict[Key, tuple[FusionGroup, Future[Work | None]]] = {}

    def expect(self, group: FusionGroup) -> None:
        """A group that will probably be asked for, behind those that were expected before."""
        key = _key(group)
        if key not in _works and key not in self._expected:
            with suppress(*NO_PROCESS):  # that is no loss: this one makes it
                self._expected[key] = group, self._executor.submit(default_work, group)

    def microseconds(self, group: FusionGroup) -> float:
        """As `default_microseconds`; while another process makes the group's work, this one makes others."""
        key = _key(group)
        _, future = self._expected.pop(key, (group, None))
        if future is not None and not future.cancel():
            while not future.done() and self._make_another():
                pass
            with suppress(*NO_PROCESS):
                _keep(key, future.result())
        return default_microseconds(group)

    def _make_another(self) -> bool:
        """Make the work of the next group that no process has begun with; False where there is none."""
        for key, (group, future) in self._expected.items():
            if future.cancel():
                del self._expected[key]
                with suppress(EngineError):  # fusion may never ask for it; where it does, it is told
                    default_work(group)
                return True
        return False


@contextmanager
def another_core(operators: int) -> Iterator[Executor | None]:
    """A process that makes works ahead for the plan of a graph; None where that is not worth its start."""
    if operators < LARGE or len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    pool = process_pool(1)
    with suppress(*NO_PROCESS):
        pool.submit(import_module, __name__)  # it is ready when it is needed
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def fusion_request(
    program: TensorProgram, machine: Target | CpuTarget, policy: str, fixed: Fixed | None,
    numerics: Mapping[str, str] | None, executor: Executor | None = None,
) -> FusionRequest:  # fmt: skip
    """What kernels a lowered graph is to be partitioned into, judged by what their default ones take.

    executor: of processes that may make works ahead.  Raises BadInput for numerics that no stage follows.
    """
    is_gpu = isinstance(machine, Target)
    described = machine if isinstance(machine, Target) else machine.for_fusion()
    if numerics is None:
        numerics = default_numerics(program) if is_gpu else {}
    check_numerics(numerics, "numerics")
    ahead = WorksAhead(executor) if executor is not None and is_gpu else None
    return FusionRequest(
        policy, described, ahead.microseconds if ahead else default_microseconds, fixed or Fixed(), numerics,
        packing=is_gpu, expect=ahead.expect if ahead else None,
    )  # fmt: skip
