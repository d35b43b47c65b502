"""How many blocks share the keys of a tile of queries: figures worked out by hand, what makes them more or fewer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fusion.attention_sharing import KeyWalk, share_between, share_keys, stages_of
from engine.target.devices import H200

SMS = int(H200.sms.value)
LATENCY = H200.dram_latency.value
DECODE = KeyWalk(
    blocks=32, steps=64, moving=14e-6, arithmetic=1e-7, reached=1.0, warps=1, resident=2, left=130
)  # 4,096 keys and 32 heads of 128 elements
L2 = H200.l2_bandwidth.value / H200.sms.value


def test_one_block_moves_what_its_multiprocessor_can() -> None:
    """32 of 132 move all bytes."""
    assert share_between(DECODE, 1, H200).seconds == pytest.approx(14e-6 * SMS / 32)
    assert share_between(DECODE, 1, H200).meeting == 0


def test_parts_move_more_at_once_and_meet() -> None:
    """128 blocks of 16 tiles; 160 blocks of 13 tiles leave one multiprocessor with two of them."""
    meeting = 2 * LATENCY + 4 * 130 * 4 / L2
    four, five = (share_between(DECODE, parts, H200) for parts in (4, 5))
    assert four.seconds == pytest.approx(14e-6 * SMS / 128 + meeting)
    assert five.seconds == pytest.approx(14e-6 * 2 * 13 * SMS / (32 * 64) + 2 * LATENCY + 5 * 130 * 4 / L2)
    told = f"4 blocks share the keys of each, {meeting * 1e6:.2g} µs to meet (predicted)"
    assert str(four) == f"32 tiles of queries for 132 SMs: {told}"


def test_one_warp_feeds_one_scheduler() -> None:
    """Arithmetic that 4 warps would do at once takes a single one 4 times as long, two blocks of one half of that."""
    busy = replace(DECODE, moving=0.0, arithmetic=10e-6)
    alone, two = share_between(busy, 4, H200), share_between(busy, 8, H200)
    assert alone.seconds - alone.meeting == pytest.approx(4 * 10e-6 * SMS / 128)
    assert two.seconds - two.meeting == pytest.approx(2 * 10e-6 * SMS / 128)


def test_loads_are_waited_for() -> None:
    """64 tiles in three stages, then a quarter of them."""
    idle = replace(DECODE, moving=0.0)
    assert share_between(idle, 1, H200).seconds == pytest.approx(64 * LATENCY / 3)
    few = share_between(idle, 4, H200)
    assert few.seconds - few.meeting == pytest.approx(16 * LATENCY / 3)
    assert [stages_of(n) for n in (1, 2, 7, 8)] == [1, 2, 2, 3]


def test_the_fastest_number_is_chosen() -> None:
    chosen = share_keys(DECODE, H200)
    assert chosen.seconds == min(share_between(DECODE, n, H200).seconds for n in (1, 2, 4, 8, 16))
    assert chosen.parts == 4


@pytest.mark.parametrize("walk", [
    replace(DECODE, blocks=132), replace(DECODE, steps=1), replace(DECODE, steps=2, moving=1e-7),
    replace(DECODE, left=2**26),
])  # fmt: skip
def test_nobody_shares_what_is_busy_short_or_large(walk: KeyWalk) -> None:
    """A block for every multiprocessor, one tile of keys, less to gain than a meeting costs, sums beyond memory."""
    chosen = share_keys(walk, H200)
    assert (chosen.parts, chosen.meeting) == (1, 0)


def test_no_part_is_empty() -> None:
    """Nor has one fewer than four tiles, but for the last; 64 parts of 16 tiles would be 63 and an empty one."""
    short = replace(DECODE, blocks=1, steps=7, moving=1e-3)
    assert [share_keys(replace(short, steps=n), H200).parts for n in (7, 28, 31, 32)] == [1, 7, 7, 8]
    assert share_keys(replace(short, steps=1000), H200).parts == 63
