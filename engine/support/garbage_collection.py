"""Python's search for reference cycles, left out where millions of small values are made and no cycle among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cycles_left_alone() -> Iterator[None]:
    """No search for reference cycles inside; each would look at every value that is alive."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()
