"""A pool of Python processes that end with this one and import nothing from the user's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess

from engine.support.child_processes import end_with_parent


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


class ProcessPool(ProcessPoolExecutor):
    """A pool of `count` processes, each of which starts when it is needed."""

    def __init__(self, count: int) -> None:
        with _safe_path():  # the pool's queues start the resource tracker, a process of its own
            super().__init__(count, mp_context=_Spawn(), initializer=_begin)

    def end(self) -> None:
        """End the processes at once, and with them what is under way: Python, when it ends, would wait for that.

        Futures that are not done fail with BrokenExecutor.
        """
        for process in tuple((self._processes or {}).values()):
            process.terminate()
        self.shutdown(wait=False)


def _begin() -> None:
    """In a process of the pool, before its first work: what libraries print is no part of the parent's output."""
    parent = parent_process()
    assert parent is not None, "only processes of a pool begin here"
    end_with_parent(parent.pid)  # it may have been killed while this process imported the program
    os.dup2(2, 1)
