"""Replaying many launches as one: a CUDA graph, which PyCUDA has no calls for, through the driver's own library.

Launches of a few microseconds cannot be queued as fast as they run; the nodes of a graph can.
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
            # An open capture would refuse everything that follows on the stream.
            self._call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(self._ready), graph, 0)
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
