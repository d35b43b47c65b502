"""Where programs run: in this process, in processes of this machine, or in whatever executor a caller brings."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from engine.support.errors import BadInput

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MOST_JOBS = 256
ABSENT = 60.0


class Inline(Executor):
    """Runs what is submitted at once, in the caller's thread."""

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """A future that is done; what was raised is raised here, for an interrupt must reach who waits."""
        future: Future[Result] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _as_it_is(value: Any) -> Any:
    return value


def _let_go(executor: Executor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Workers:
    """An executor, and how much it is given at once."""

    executor: Executor
    slots: int = 1
    """Programs under way at once."""
    share: Callable[[Any], Any] = _as_it_is
    """Brings a value that many calls need to the workers once; what it returns is passed in its place."""
    renew: Callable[[], Executor] | None = None
    """Makes another executor after a worker died and took this one with it; None where an executor survives that."""
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)
    """What a future raises whose worker died."""
    end: Callable[[Executor], None] = _let_go
    is_staffed: Callable[[], bool] | None = None
    """Whether any worker is there, where all may go while the executor stays; None where that cannot be.

    Raises MissingCapability where nobody answers any more.
    """
    patience: float = ABSENT
    """Seconds that a run waits for a worker while there is none."""

    def close(self) -> None:
        """Let the workers go; what is under way is not waited for."""
        self.end(self.executor)


def here() -> Workers:
    """This process alone."""
    return Workers(Inline())


def processes(count: int) -> Workers:
    """So many processes of this machine.  Raises BadInput for a number that makes no sense."""
    if not 1 <= count <= MOST_JOBS:
        raise BadInput("tune", f"{count} jobs", f"are not between 1 and {MOST_JOBS}", "as many as there are cores")

    def renew() -> Executor:
        return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))

    # One more than run at once waits for its turn, so that no process idles while a result is written down.
    return Workers(renew(), count + 1, renew=renew)
