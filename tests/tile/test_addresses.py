"""What a request of a warp costs: sectors of global memory, whatever array begins where."""

from __future__ import annotations

import numpy as np
import pytest

from engine.tile.addresses import sectors_of

EVERYWHERE = np.ones(32, bool)


@pytest.mark.parametrize("start", [0, 4096, -4096, -512], ids=["at the start", "inside", "before", "across the start"])
@pytest.mark.parametrize(("step", "sectors"), [(0, 1), (4, 4), (16, 16), (32, 32), (512, 32)])
def test_sectors_of_lanes_a_step_apart(step: int, sectors: int, start: int) -> None:
    """A load under a mask may lie before its array in the block that stands for all."""
    assert sectors_of(start + step * np.arange(32), EVERYWHERE) == sectors


def test_lanes_that_take_no_part_touch_nothing() -> None:
    addresses = -1024 + 32 * np.arange(32)
    assert sectors_of(addresses, np.arange(32) < 5) == 5
    assert sectors_of(addresses, ~EVERYWHERE) == 0
