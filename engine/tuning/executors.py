"""Where programs run: in this process, in processes of this machine, or in whatever executor a caller brings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
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


@contextmanager
def _safe_path() -> Iterator[None]:
    """Python processes that are started meanwhile import nothing from the folder that the user is in."""
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
    """A process that loads modules before it has its parent's path: from a safe one."""

    def start(self) -> None:
        with _safe_path():
            super().start()


class _Spawn(SpawnContext):
    Process = _SafePathProcess


def processes(count: int) -> Workers:
    """So many processes of this machine.  Raises BadInput for a number that makes no sense."""
    if not 1 <= count <= MOST_JOBS:
        raise BadInput("tune", f"{count} jobs", f"are not between 1 and {MOST_JOBS}", "as many as there are cores")

    def renew() -> Executor:
        with _safe_path():  # its queues start a process of their own
            return ProcessPoolExecutor(count, mp_context=_Spawn())

    # One more than run at once waits for its turn, so that no process idles while a result is written down.
    return Workers(renew(), count + 1, renew=renew)
