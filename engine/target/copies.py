"""How tiles come to shared memory: asynchronous copies, and registers for elements smaller than any of them."""

from __future__ import annotations

COPY_BYTES = (16, 8, 4)
"""Sizes of one cp.async."""
SMALLEST_COPY = min(COPY_BYTES)
MOST_HELD = 16
"""Elements of a tile that a thread has in registers where there is no cp.async: more would crowd out its sums."""
COPIED_IN_TURN = 8
"""Elements that a thread copies at a time where it has more than MOST_HELD: loads and stores then take turns."""
HELD_STAGES = 2
"""Stages of a pipeline whose tiles go through registers: those hold one tile, while the one before it is used."""
