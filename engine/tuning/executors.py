"""Executors that run programs: this process, a pool of processes, or any executor of the caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, ParamSpec, TypeVar

from engine.support.child_processes import end_with_parent
from engine.support.errors import BadInput

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MOST_JOBS = 256
ABSENT = 60.0
"""Seconds that a run waits for a worker while there is none."""


class Inline(Executor):
    """Runs what is submitted at once, in the caller's thread."""

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """A finished future.  Exceptions are raised here, not stored in it: an interrupt must reach the caller."""
        future: Future[Result] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _as_it_is(value: Any) -> Any:
    return value


def _let_go(executor: Executor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Workers:
    """An executor, with what a search has to know about it."""

    executor: Executor
    slots: int = 1
    """Programs under way at once."""
    share: Callable[[Any], Any] = _as_it_is
    """Sends a value that many calls need to the workers once; calls are passed what it returns in its place."""
    renew: Callable[[], Executor] | None = None
    """Makes another executor where a dead worker breaks this one (a process pool); None where one survives that."""
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)
    """Exceptions of a future whose worker died."""
    end: Callable[[Executor], None] = _let_go
    is_staffed: Callable[[], bool] | None = None
    """Whether there is any worker, for executors that outlive their workers; None for others.

    Raises MissingCapability where nobody answers any more.
    """
    patience: float = ABSENT

    def close(self) -> None:
        """Shut the workers down without waiting for what is under way."""
        self.end(self.executor)


def here() -> Workers:
    """This process alone."""
    return Workers(Inline())


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are started in the block do not import from the working directory.

    `multiprocessing` starts Python without -P, so the environment variable of that option is set.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


class _SafePathProcess(SpawnProcess):
    """A spawned process that does not import from the working directory before it gets its parent's path."""

    def start(self) -> None:
        with _safe_path():
            super().start()


class _Spawn(SpawnContext):
    Process = _SafePathProcess


def processes(count: int) -> Workers:
    """A pool of `count` processes.  Raises BadInput for a number out of range."""
    if not 1 <= count <= MOST_JOBS:
        raise BadInput("tune", f"{count} jobs", f"are not between 1 and {MOST_JOBS}", "as many as there are cores")

    def renew() -> Executor:
        with _safe_path():  # the pool's queues start the resource tracker, a process of its own
            return ProcessPoolExecutor(count, mp_context=_Spawn(), initializer=end_with_parent)

    # One program waits in the queue, so that no process idles while the search keeps a result.
    return Workers(renew(), count + 1, renew=renew)
