"""The predicted time of a launch: what `engine.cost.time_model` says, with the figures of the user's machine.

It ranks schedules and explains them, and does not replace a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.cost.calibration import calibrated_target, calibration_of
from engine.cost.nodes import COMPUTE, LATENCY, MEMORY, UNCALIBRATED, Prediction, Work
from engine.cost.terms import prediction_terms
from engine.cost.time_model import ModelTimes, model_times
from engine.documents.model import TermDoc
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.teams import meeting_seconds


def estimate(work: Work, machine: Target) -> Prediction:
    """The predicted time of one launch, with every term explained; Unsupported when a block does not fit an SM.

    With the user's calibration of the machine where there is one.  Raises BadInput where its file is broken.
    """
    found = calibration_of(machine.name)
    return model_prediction(work, calibrated_target(machine), UNCALIBRATED if found is None else found.note)


def estimate_microseconds(work: Work, machine: Target) -> float:
    """`estimate(work, machine).microseconds`, without its texts: searches ask it for every program."""
    return model_microseconds(work, calibrated_target(machine))


def model_prediction(work: Work, machine: Target, note: str = UNCALIBRATED) -> Prediction:
    """`estimate` with exactly the figures of `machine`.  note: where they come from."""
    if work.launches:
        parts = [model_prediction(one, machine, note) for one in _launches(work)]
        return _one_after_the_other(parts, _meetings_in_place_of_launches(work, machine))
    numbers = model_times(work, machine)
    return Prediction(
        microseconds=numbers.total,
        bound=_limiting_kind(numbers),
        terms=prediction_terms(work, machine, numbers),
        occupancy=numbers.resident,
        waves=-(-work.blocks // numbers.places),
        note=note,
    )


def model_microseconds(work: Work, machine: Target) -> float:
    """`estimate_microseconds` with exactly the figures of `machine`."""
    if work.launches:
        saved = sum(term.value for term in _meetings_in_place_of_launches(work, machine))
        return sum(model_times(one, machine).total for one in _launches(work)) + saved
    return model_times(work, machine).total


def least_microseconds(moved: int, flops: int, special: int, machine: Target) -> float:
    """What the model says at least of any launch on CUDA cores that moves so many bytes and does so many operations.

    Every SM is busy, every byte is requested once, and the loads of the main loop are waited for once.
    """
    busiest = max(
        moved / machine.dram_bandwidth.value,
        flops / machine.fp32_rate.value,
        special / machine.special_rate.value,
        machine.dram_latency.value,
    )
    return (machine.empty_kernel + busiest) * MICROSECONDS


def _launches(work: Work) -> Iterator[Work]:
    """Several launches; the registers of the kernel are those of the one that needs most."""
    return (replace(one, registers=work.registers) for one in work.launches)


def _meetings_in_place_of_launches(work: Work, machine: Target) -> tuple[TermDoc, ...]:
    """What phases of one launch take beside what as many launches take: a meeting in place of each further one."""
    if not work.meetings:
        return ()
    spared = -work.meetings * machine.empty_kernel
    meeting = work.meetings * meeting_seconds(work.blocks, machine)
    return (
        TermDoc("launches spared", spared * MICROSECONDS, "µs", f"{work.meetings} phases begin without one (assumed)"),
        TermDoc("meetings", meeting * MICROSECONDS, "µs",
                f"{work.meetings} times, {work.blocks:,} blocks come to one counter in L2 and wait for all (assumed: 2 "
                "latencies and a clock for each block)"),
    )  # fmt: skip


def _one_after_the_other(launches: Sequence[Prediction], further: Sequence[TermDoc]) -> Prediction:
    """The prediction of launches in order: times add up, whatever else it says is of the longest one.

    further: terms of all of them together.
    """
    longest = max(launches, key=lambda one: one.microseconds)
    terms = []
    for term in dict.fromkeys(term.name for one in launches for term in one.terms):
        found = {n: t for n, one in enumerate(launches, 1) for t in one.terms if t.name == term}
        if next(iter(found.values())).unit != "µs":
            terms += [t for t in longest.terms if t.name == term]
            continue
        because = "; ".join(f"launch {n}: {t.because}" for n, t in found.items())
        terms.append(TermDoc(term, sum(t.value for t in found.values()), "µs", because))
    time = sum(one.microseconds for one in launches) + sum(term.value for term in further)
    return replace(longest, microseconds=time, terms=(*terms, *further))


def _limiting_kind(numbers: ModelTimes) -> str:
    """What to improve first: latency where the launch or waiting for loads outweighs all moving and computing."""
    moving = max(numbers.dram, numbers.l2, numbers.shared)
    computing = max(numbers.fp32, numbers.tensor, numbers.special, numbers.issue)
    slowest = max(moving, numbers.pipes)
    if numbers.launch + numbers.ramp > slowest or numbers.loop > 2 * slowest:
        return LATENCY
    return MEMORY if moving >= computing else COMPUTE
