"""Runs work that would block the window on a thread, and delivers its outcome on the window's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from engine.documents.model import ProblemDoc
from engine.support.errors import EngineError

Result = TypeVar("Result")


class Background(QObject):
    """One thing at a time, in order."""

    _finished = Signal(object, object, object)

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="files")
        self._count = 0
        self._finished.connect(self._deliver)

    @property
    def is_idle(self) -> bool:
        """Whether everything was done and delivered."""
        return self._count == 0

    def run(
        self, work: Callable[[], Result], on_result: Callable[[Result], None], on_error: Callable[[ProblemDoc], None]
    ) -> None:
        """Does `work` on the thread; its value, or why there is none, comes back on the window's thread."""
        self._count += 1
        future = self._threads.submit(work)
        future.add_done_callback(lambda done: self._finished.emit(done, on_result, on_error))

    def close(self) -> None:
        """Waits for what is under way; nothing is delivered any more."""
        self._finished.disconnect(self._deliver)
        self._threads.shutdown(wait=True)

    def _deliver(self, future: Future[Any], on_result: Callable[[Any], None], on_error: Any) -> None:
        self._count -= 1
        try:
            value = future.result()
        except EngineError as error:
            on_error(problem_of(error))
        else:
            on_result(value)


def problem_of(error: EngineError) -> ProblemDoc:
    """An error as a row of the Problems panel."""
    return ProblemDoc(error.stage, error.subject, error.reason, error.hint)
