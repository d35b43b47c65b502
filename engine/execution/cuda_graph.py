"""CUDA graphs through ctypes: replay many launches with one call.  PyCUDA has no calls for graphs.

The host needs about as long to queue a launch as a short kernel runs; a graph's launches are queued by the GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_THREAD_LOCAL = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads' calls do not end the capture."""
_SIGNATURES = {
    "cuStreamBeginCapture_v2": (ctypes.c_void_p, ctypes.c_int),
    "cuStreamEndCapture": (ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)),
    "cuGraphInstantiateWithFlags": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_ulonglong),
    "cuGraphLaunch": (ctypes.c_void_p, ctypes.c_void_p),
    "cuGraphDestroy": (ctypes.c_void_p,),
    "cuGraphExecDestroy": (ctypes.c_void_p,),
}


class GraphError(Exception):
    """The driver refused to record or replay a graph."""


def library() -> Any:
    """The driver's library with the calls that graphs need; GraphError where it has none."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
        for name, arguments in _SIGNATURES.items():
            call = getattr(found, name)
            call.argtypes, call.restype = arguments, ctypes.c_int
    except (OSError, AttributeError) as error:
        raise GraphError(str(error)) from error
    return found


class Graph:
    """What `enqueue` puts on a stream, recorded once, to be launched as a whole."""

    def __init__(self, driver: Any, stream: int, enqueue: Callable[[], None]) -> None:
        self._driver, self._stream = driver, stream
        graph, self._ready = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamBeginCapture_v2", stream, _THREAD_LOCAL)
        try:
            enqueue()
        finally:
            # While a stream captures, every other use of it fails: the capture is ended also after an exception.
            self._call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(self._ready), graph, 0)
        # The executable graph is independent of the graph that it was instantiated from.
        self._call("cuGraphDestroy", graph)

    def launch(self, stream: int | None = None) -> None:
        """Queue all of it, by default on the stream that it was recorded on."""
        self._call("cuGraphLaunch", self._ready, self._stream if stream is None else stream)

    def close(self) -> None:
        """Give the graph back."""
        self._call("cuGraphExecDestroy", self._ready)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status != 0:
            raise GraphError(f"{name} answers with status {status}")
