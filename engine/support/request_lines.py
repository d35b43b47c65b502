"""A process as a service: requests are lines of a stream, read ahead by a thread; replies go into a wide pipe."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from queue import Queue

PIPE_BYTES = 1 << 20
"""Of the pipe to the window: the most that Linux gives without privileges."""


class Requests:
    """Request lines in order, read ahead by a thread, so that one can be seen to wait before it is taken."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines: Queue[str | None] = Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self._lines.put(line)
        finally:  # also after a read error: without the end mark `serve` would wait for ever
            self._lines.put(None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines.get, None)

    def is_one_waiting(self) -> bool:
        """Whether a request has arrived that was not taken yet; the end of the stream is none."""
        waiting = self._lines.queue
        return bool(waiting) and waiting[0] is not None


def widen(pipe: int) -> None:
    """Make a pipe hold more, where the system can: who writes a large document into a usual one waits for the window's
    event loop at every 64 KiB."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
