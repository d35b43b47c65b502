"""Occupancy against cases worked by hand with the rules of NVIDIA's calculator (compute capability 9.0 and 8.0)."""

from __future__ import annotations

import pytest

from engine.support.errors import Unsupported
from engine.target import target
from engine.target.occupancy import occupancy


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "limiter"),
    [
        # 64 warps / 8 = 8 blocks; 32 registers: 65536 / 1024 = 64 warps = 8 blocks: a tie, the first is named.
        ("h200", 256, 32, 0, 8, "warps"),
        # 128 registers: 4096 a warp, 16 warps, 16 / 8 = 2.
        ("h200", 256, 128, 0, 2, "registers"),
        # 33 registers round up to 1280 a warp: 51 warps, in fours 48, 48 / 8 = 6.
        ("h200", 256, 33, 0, 6, "registers"),
        # 255 registers: 8160 -> 8192 a warp, 8 warps, 8 / 4 = 2.
        ("h200", 128, 255, 0, 2, "registers"),
        # One warp a block: 64 warps would fit, 32 block slots do not.
        ("h200", 32, 32, 0, 32, "block slots"),
        # A 33rd thread takes a whole second warp: 64 / 2 = 32 blocks, as many as there are slots.
        ("h200", 33, 32, 0, 32, "block slots"),
        # 48 KiB and 1 KiB reserved: 228 / 49 = 4.
        ("h200", 128, 32, 48 * 1024, 4, "shared memory"),
        # The same on 164 KiB: 3.
        ("a100", 128, 32, 48 * 1024, 3, "shared memory"),
        # All that a block may have.
        ("h200", 384, 168, 227 * 1024, 1, "shared memory"),
        # 1 byte takes 1024 + 128 bytes: 233472 / 1152 = 202, so that warps limit.
        ("h200", 1024, None, 1, 2, "warps"),
    ],
)
def test_blocks_per_sm(
    device: str, threads: int, registers: int | None, shared: int, blocks: int, limiter: str
) -> None:
    found = occupancy(threads, shared, registers, target(device))
    assert (found.blocks, found.limiter) == (blocks, limiter)
    assert found.warps == blocks * -(-threads // 32)
    assert found.share == found.warps / 64


def test_unknown_registers_are_no_limit() -> None:
    assert "registers" not in dict(occupancy(256, 0, None, target("h200")).limits)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "word"),
    [
        (1025, 32, 0, "threads"),
        (128, 256, 0, "registers"),
        (128, 32, 227 * 1024 + 1, "shared memory"),
        (1024, 128, 0, "registers"),
    ],
)
def test_a_block_that_no_sm_can_hold_is_refused(threads: int, registers: int, shared: int, word: str) -> None:
    with pytest.raises(Unsupported, match=word):
        occupancy(threads, shared, registers, target("h200"))
