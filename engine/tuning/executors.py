"""Executors that run programs: this process, a pool of processes, or any executor of the caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from engine.support.errors import BadInput
from engine.support.process_pool import ProcessPool

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


def processes(count: int) -> Workers:
    """A pool of `count` processes.  Raises BadInput for a number out of range."""
    if not 1 <= count <= MOST_JOBS:
        raise BadInput("tune", f"{count} jobs", f"are not between 1 and {MOST_JOBS}", "as many as there are cores")

    def renew() -> Executor:
        return ProcessPool(count)

    def end(executor: Executor) -> None:
        assert isinstance(executor, ProcessPool), "there is no other that `renew` makes"
        executor.end()

    # One program waits in the queue, so that no process idles while the search keeps a result.
    return Workers(renew(), count + 1, renew=renew, end=end)
