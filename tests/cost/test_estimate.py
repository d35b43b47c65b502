"""The cost model: floors, monotony, and terms that add up to the time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost.estimate import estimate, estimate_microseconds, model_microseconds, model_prediction
from engine.cost.nodes import Work
from engine.cost.time_model import OVERLAP, OVERLAP_OF_WARP, PRODUCT_OVERLAP
from engine.target import DEVICES, Target, target

H200 = target("h200")
COPY = Work(
    blocks=65536, threads=256, flops=0, special=0, dram_bytes_read=1 << 30, dram_bytes_written=1 << 30, l2_bytes=1 << 31
)
PRODUCT = Work(
    blocks=2048, threads=256, flops=2 * 4096**3, special=0, dram_bytes_read=128 << 20, dram_bytes_written=64 << 20,
    l2_bytes=4 << 30, shared_bytes=32768, shared_bytes_moved=32 << 30, registers=128, stages=3, serial_steps=256,
    copies_tiles=True,
)  # fmt: skip
PASSED = replace(PRODUCT, shared_bytes_loaded=30 << 30, shared_passes=100 << 20)
"""The same, with its loads as passes over the banks of shared memory: 128 bytes each."""


def term(kernel: Work, name: str) -> float:
    return next(t.value for t in model_prediction(kernel, H200).terms if t.name == name)


def test_a_large_copy_takes_its_bytes_over_the_bandwidth() -> None:
    found = model_prediction(COPY, H200)
    assert found.bound == "memory"
    # The launch floor is the only other part: 2 us of about 500.
    assert found.microseconds == pytest.approx((2 << 30) / 4.3e12 * 1e6, rel=0.01)


def test_a_large_product_runs_at_the_arithmetic_rate() -> None:
    alone = model_prediction(replace(PRODUCT, shared_bytes_moved=0), H200)
    floor = 2 * 4096**3 / H200.fp32_rate.value * 1e6
    assert alone.bound == "compute"
    # 2048 blocks are 15.5 rounds of 132 SMs: 16 are paid.
    assert floor * 16 / 15.52 * 0.999 < alone.microseconds < floor * 1.1
    # Shared memory hinders FP32.
    together = model_prediction(PRODUCT, H200).microseconds
    assert together == pytest.approx(term(PRODUCT, "pipes together"), rel=0.01) and together > 1.05 * alone.microseconds


def overlapped(kernel: Work, *names: str) -> float:
    return sum(term(kernel, name) ** OVERLAP for name in names) ** (1 / OVERLAP)


def test_pipes_hinder_each_other() -> None:
    together = overlapped(PRODUCT, "FP32 arithmetic", "shared memory")
    longest = max(term(PRODUCT, name) for name in ("FP32 arithmetic", "shared memory"))
    assert longest * 1.05 < together < term(PRODUCT, "FP32 arithmetic") + term(PRODUCT, "shared memory")
    assert term(PRODUCT, "pipes together") == pytest.approx(max(together, term(PRODUCT, "instruction issue")))
    # Fragments of tensor cores are read ahead: shared memory runs beside the other pipes.
    halves = replace(PRODUCT, flops=10**10, special=10**9, tensor_flops=2 * 4096**3, tensor_type="float16")
    beside = overlapped(halves, "FP32 arithmetic", "tensor cores", "special functions")
    assert term(halves, "pipes together") == pytest.approx(max(beside, term(halves, "shared memory")))


def test_memory_and_tensor_cores_hinder_each_other_until_waves_are_out_of_step() -> None:
    def added(waves: int, tensor_flops: int) -> float:
        """Microseconds that a launch needs beyond its slowest part: half as long in DRAM as at work."""
        blocks = waves * int(H200.sms.value)
        product = replace(
            PRODUCT, blocks=blocks, flops=0, tensor_flops=tensor_flops, tensor_type="float16", registers=255,
            shared_bytes=120_000, shared_bytes_moved=1, l2_bytes=1, dram_bytes_written=0, dram_bytes_read=1,
        )  # fmt: skip
        work = max(term(product, "main loop"), term(product, "pipes together"))
        read = int(work / 2e6 * H200.dram_bandwidth.value)
        product = replace(product, dram_bytes_read=read)
        launch = term(product, "launch") + term(product, "ramp")
        return (model_microseconds(product, H200) - launch) / max(work, term(product, "DRAM traffic")) - 1

    one, sixteen = added(1, 2 * 4096**3), added(16, 2 * 4096**3)
    assert one == pytest.approx((1 + 0.5**2) ** 0.5 - 1, rel=0.01)  # p = 1.5 + 1 / 2
    assert 0 < sixteen < 0.01  # p = 1.5 + 16 / 2
    assert added(1, 0) == pytest.approx(0, abs=1e-6)  # without tensor cores, what is longest hides the rest


@pytest.mark.parametrize(("rows", "lost"), [(64, 0.0), (6000, 0.0), (30_000, 1.0)])
def test_l2_loses_what_all_blocks_together_read_before_they_read_it_again(rows: int, lost: float) -> None:
    passes = replace(COPY, l2_bytes=2 << 30, again_bytes=1 << 30, again_set=rows)
    # 8 blocks of 256 threads on each of 132 SMs: 6,000 bytes of each are 6 MB, 30,000 are 32 MB.
    capacity = replace(H200, l2_bytes=replace(H200.l2_bytes, value=10e6))
    found = model_prediction(passes, capacity)
    once = model_prediction(replace(passes, again_bytes=0), capacity)
    dram = next(t.value for t in found.terms if t.name == "DRAM traffic")
    assert dram == pytest.approx(next(t.value for t in once.terms if t.name == "DRAM traffic") * (1 + lost / 2))
    assert ("of L2 lost" in str(found)) == (lost > 0)


def test_tensor_cores_take_their_own_rate_and_tf32_twice_as_long() -> None:
    operations = 2 * 8192**3
    halves = replace(PRODUCT, flops=0, tensor_flops=operations, tensor_type="float16", shared_bytes_moved=0, l2_bytes=0)
    floor = operations / H200.tensor_rate.value * 1e6
    found = model_prediction(halves, H200)
    assert found.bound == "compute"
    assert floor * 16 / 15.52 * 0.999 < found.microseconds < floor * 1.1
    rounded = replace(halves, tensor_type="float32")
    assert term(rounded, "tensor cores") == pytest.approx(2 * term(halves, "tensor cores"), rel=0.01)
    assert "tensor cores" not in [t.name for t in model_prediction(PRODUCT, H200).terms]


def test_a_tiny_kernel_costs_its_launch_and_one_load() -> None:
    tiny = replace(COPY, blocks=1, dram_bytes_read=1024, dram_bytes_written=1024, l2_bytes=2048)
    found = model_prediction(tiny, H200)
    assert found.bound == "latency"
    waited = H200.launch_overhead.value + H200.ramp.value + H200.dram_latency.value
    assert found.microseconds == pytest.approx(waited * 1e6, rel=0.01)


def test_one_stage_waits_at_every_step_and_more_stages_overlap() -> None:
    small = replace(PRODUCT, blocks=132, flops=2 * 1024**3, shared_bytes_moved=0, l2_bytes=0, serial_steps=32)
    times = [model_prediction(replace(small, stages=stages), H200).microseconds for stages in (1, 2, 3)]
    assert times[0] > times[1] >= times[2]
    work = term(small, "pipes together")
    assert term(replace(small, stages=1), "main loop") == pytest.approx(32 * 0.6 + work)
    # Two stages: a load of 0.6 us ends behind the step before it, which takes longer.
    assert work / 32 > 0.6
    alone = 0.6 + work + 32 * term(small, "meeting")
    assert term(replace(small, stages=2), "main loop") == pytest.approx(alone)


def test_threads_that_share_tiles_meet_where_no_other_block_of_the_sm_works_meanwhile() -> None:
    """Twice 30 clocks in each step; blocks of other kernels have no tiles to wait for."""
    clocks = 60 / H200.clock.value * 1e6
    assert term(PRODUCT, "meeting") == pytest.approx(clocks)
    alone = replace(PRODUCT, blocks=132, flops=2 * 1024**3, shared_bytes_moved=0, l2_bytes=0, serial_steps=32)
    two = replace(alone, blocks=264, flops=2 * alone.flops)
    work = term(alone, "pipes together")
    assert term(alone, "main loop") == pytest.approx(0.6 + work + alone.serial_steps * clocks)
    assert term(two, "main loop") == pytest.approx(0.6 + max(2 * work, work + alone.serial_steps * clocks))
    said = {name: t.because for name, one in (("alone", alone), ("two", two)) for t in model_prediction(one, H200).terms
            if t.name == "meeting"}  # fmt: skip
    assert "has its SM to itself waits" in said["alone"] and "other blocks of the SM hide" in said["two"]
    other = replace(alone, copies_tiles=False)
    assert "meeting" not in [t.name for t in model_prediction(other, H200).terms]
    assert term(other, "main loop") == pytest.approx(0.6 + term(other, "pipes together"))


def test_a_full_machine_hides_latency_that_a_single_block_does_not() -> None:
    one = Work(
        blocks=132, threads=128, flops=132 * 10**5, special=0, dram_bytes_read=132 * 1024, dram_bytes_written=0,
        l2_bytes=132 * 1024, serial_steps=64,
    )  # fmt: skip
    eight = replace(one, blocks=8 * 132, flops=8 * one.flops)
    assert model_prediction(eight, H200).microseconds < 2 * model_prediction(one, H200).microseconds


def test_loads_of_products_count_by_passes() -> None:
    assert PASSED.shared_traffic == (2 << 30) + (100 << 27)
    assert term(PASSED, "shared memory") == pytest.approx(term(PRODUCT, "shared memory") * 14.5 / 32)
    assert replace(PASSED, shared_passes=0, shared_bytes_loaded=0).shared_traffic == PRODUCT.shared_traffic
    times = [model_microseconds(replace(PASSED, shared_passes=n * PASSED.shared_passes), H200) for n in (1, 2, 4, 8)]
    assert times == sorted(set(times))


def test_what_l2_brings_hinders_products_and_warps_hide_it() -> None:
    found = model_prediction(PASSED, H200)
    warps = found.occupancy.blocks * 8 / 4
    p = PRODUCT_OVERLAP + OVERLAP_OF_WARP * warps
    port = 16 / (2048 / 132) * term(PASSED, "L2 traffic")  # the busiest SM has 16 blocks of 2048
    times = (term(PASSED, "FP32 arithmetic"), term(PASSED, "shared memory"), port)
    assert term(PASSED, "pipes together") == pytest.approx(sum(one**p for one in times) ** (1 / p))
    (because,) = (t.because for t in found.terms if t.name == "pipes together")
    assert f"{port:.3g} µs of the busiest SM's port" in because
    few = replace(PASSED, shared_bytes=int(H200.shared_per_sm.value) // 2)
    assert model_prediction(few, H200).occupancy.blocks < found.occupancy.blocks
    assert term(few, "pipes together") > term(PASSED, "pipes together")


GROWING = ("flops", "special", "dram_bytes_read", "dram_bytes_written", "l2_bytes", "shared_bytes_moved")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(GROWING),
    st.sampled_from([COPY, PRODUCT, PASSED, replace(PRODUCT, stages=1), replace(PASSED, blocks=7)]),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
)
def test_more_work_never_takes_less_time(field: str, base: Work, amount: int, more: int) -> None:
    amount += getattr(base, field)
    less = model_prediction(replace(base, **{field: amount}), H200)
    greater = model_prediction(replace(base, **{field: amount + more}), H200)
    assert greater.microseconds >= less.microseconds * (1 - 1e-12)


WORK = st.builds(
    Work,
    blocks=st.integers(1, 10**6),
    threads=st.integers(1, 1024),
    flops=st.integers(0, 10**12),
    special=st.integers(0, 10**9),
    dram_bytes_read=st.integers(0, 10**12),
    dram_bytes_written=st.integers(0, 10**12),
    l2_bytes=st.integers(0, 10**12),
    shared_bytes=st.integers(0, 48 << 10),
    shared_bytes_moved=st.integers(0, 10**12),
    shared_passes=st.just(0) | st.integers(1, 10**9),
    registers=st.none() | st.integers(1, 64),
    tensor_flops=st.integers(0, 10**12),
    tensor_type=st.sampled_from(["float16", "float32"]),
    stages=st.integers(1, 5),
    serial_steps=st.integers(1, 1000),
    team=st.integers(1, 4),
    team_bytes=st.integers(0, 10**6),
    copies_tiles=st.booleans(),
    again_bytes=st.integers(0, 10**12),
    again_set=st.integers(0, 10**9),
)


@settings(max_examples=200, deadline=None)
@given(WORK, st.sampled_from(list(DEVICES.values())))
def test_the_fast_form_is_the_explained_one_to_the_last_bit(work: Work, machine: Target) -> None:
    assert estimate_microseconds(work, machine) == estimate(work, machine).microseconds
    assert model_microseconds(work, machine) == model_prediction(work, machine).microseconds


def test_a_search_of_100_000_programs_waits_for_the_estimate_for_seconds_only() -> None:
    works = [replace(PRODUCT, blocks=blocks) for blocks in range(1, 2001)]
    start = time.process_time()
    for work in works:
        estimate_microseconds(work, H200)
    # 4 to 10 us each on one core of the machine that this was written on.
    assert (time.process_time() - start) / len(works) < 50e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 1024), st.integers(0, 10**12), st.integers(0, 10**12))
def test_no_time_is_under_a_floor(blocks: int, threads: int, flops: int, moved: int) -> None:
    kernel = Work(
        blocks=blocks,
        threads=threads,
        flops=flops,
        special=0,
        dram_bytes_read=moved,
        dram_bytes_written=0,
        l2_bytes=moved,
    )
    seconds = model_prediction(kernel, H200).microseconds / 1e6
    floor = max(flops / H200.fp32_rate.value, moved / H200.dram_bandwidth.value) + H200.launch_overhead.value
    assert seconds >= floor * (1 - 1e-9)


def test_the_answer_explains_itself() -> None:
    found = model_prediction(PRODUCT, H200)
    assert (found.origin, found.note) == ("predicted", "uncalibrated")
    assert all(t.because and t.unit for t in found.terms)
    beginning = [t.value for t in found.terms if t.name in ("launch", "ramp")]
    slowest = max(t.value for t in found.terms if t.unit == "µs" and t.name not in ("launch", "ramp"))
    assert found.microseconds == pytest.approx(slowest + sum(beginning))
    assert found.time().microseconds == found.microseconds
    assert "limited by registers" in str(found)


@pytest.mark.parametrize(("older", "newer"), [("h100", "h200"), ("a100", "h100")])
def test_older_gpus_are_slower_at_memory_bound_work(older: str, newer: str) -> None:
    assert model_prediction(COPY, target(older)).microseconds > model_prediction(COPY, target(newer)).microseconds
