"""Phases of one launch: their times, a meeting in place of each further launch, and terms that add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.cost.estimate import estimate, model_microseconds, model_prediction
from engine.cost.nodes import Work, phased_work, total_work
from engine.support.units import MICROSECONDS
from engine.target import target
from engine.target.teams import meeting_seconds
from tests.support.recurrences import GRU, LSTM, kernel_of

TARGETS = pytest.mark.parametrize("gpu", ["a100", "h100", "h200"])
PHASE = Work(
    blocks=128, threads=128, flops=1 << 20, special=0, dram_bytes_read=1 << 16, dram_bytes_written=1 << 12,
    l2_bytes=1 << 18,
)  # fmt: skip
PHASES = [replace(PHASE, flops=n << 20, l2_bytes=n << 18) for n in (1, 2, 3, 3)]


@TARGETS
def test_a_meeting_stands_for_each_further_launch(gpu: str) -> None:
    machine = target(gpu)
    alone = [model_microseconds(one, machine) for one in PHASES]
    spared = (machine.launch_overhead.value + machine.ramp.value) * MICROSECONDS
    meeting = meeting_seconds(128, machine) * MICROSECONDS
    assert 0 < meeting < spared
    assert model_microseconds(phased_work(PHASES), machine) == pytest.approx(sum(alone) + 3 * (meeting - spared))


@TARGETS
def test_terms_in_microseconds_add_up(gpu: str) -> None:
    """What phases take and what is spared: to the time, in both forms of the estimate."""
    machine = target(gpu)
    for work in (phased_work(PHASES), kernel_of(GRU).facts, kernel_of(LSTM).facts):
        found = model_prediction(work, machine)
        assert found.microseconds == model_microseconds(work, machine)
        terms = {t.name: t for t in found.terms}
        spared, meetings = terms["launches spared"], terms["meetings"]
        assert spared.value < 0 < meetings.value < -spared.value and spared.unit == meetings.unit == "µs"
        assert f"{work.meetings} times, {work.blocks:,} blocks" in meetings.because
        phases = [model_prediction(replace(one, registers=work.registers), machine) for one in work.launches]
        assert found.microseconds == pytest.approx(
            sum(one.microseconds for one in phases) + spared.value + meetings.value
        )
        for term in phases[0].terms:
            if term.unit == "µs":
                assert terms[term.name].value == pytest.approx(
                    sum(t.value for one in phases for t in one.terms if t.name == term.name)
                )


def test_more_blocks_meet_later() -> None:
    machine = target("h100")
    fewer, more = (meeting_seconds(blocks, machine) for blocks in (132, 1056))
    assert more - fewer == pytest.approx((1056 - 132) / machine.clock.value)


@TARGETS
def test_several_launches_are_as_before(gpu: str) -> None:
    """Without meetings their times are added, and no term speaks of any."""
    machine = target(gpu)
    several = total_work(PHASES)
    assert several.meetings == 0
    found = model_prediction(several, machine)
    assert found.microseconds == pytest.approx(sum(model_microseconds(one, machine) for one in PHASES))
    assert model_microseconds(several, machine) == pytest.approx(found.microseconds)
    assert not {t.name for t in found.terms} & {"launches spared", "meetings"}


def test_counts_of_phases_are_sums_and_blocks_those_of_each() -> None:
    phased, several = phased_work(PHASES), total_work(PHASES)
    assert (phased.blocks, several.blocks, phased.meetings) == (128, 512, 3)
    assert replace(phased, blocks=512, meetings=0) == several
    assert phased.flops == sum(one.flops for one in PHASES)


def test_the_estimate_of_a_kernel_is_that_of_its_work() -> None:
    kernel = kernel_of(GRU)
    found = estimate(kernel.facts, kernel.target)
    assert {"launches spared", "meetings"} <= {t.name for t in found.terms}
    assert found.microseconds > 0
