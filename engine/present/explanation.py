"""Explain a kernel as text: fusion, schedule, placement, prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.compilation import predict_kernel
from engine.cost.nodes import Prediction
from engine.cpu.estimate import CpuPrediction
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.kernels.family import GENERAL
from engine.kernels.nodes import Kernel
from engine.present.machine_code import machine_code, mix_sentences
from engine.scheduling.nodes import Band, Verdict
from engine.scheduling.nodes import Sequence as Sequenced
from engine.scheduling.tree_text import show
from engine.support.errors import EngineError
from engine.support.units import several
from engine.tensor.numerics import ARITHMETIC, FAITHFUL, OPMATH, has_halves, is_opmath, with_arithmetic
from engine.tensor.traffic import flop_counts


def explain(
    kernel: AnyKernel, prediction: Prediction | CpuPrediction | None = None, with_machine_code: bool = False
) -> str:
    """Why the group is fused, scheduled, placed and predicted so, as text.

    prediction: by default the estimate.  with_machine_code: tell its instructions by pipe as well, which takes NVRTC
    and nvdisasm a second; without them the text says what is missing.
    """
    lines = list(_lines(kernel, prediction or predict_kernel(kernel)))
    if with_machine_code and not isinstance(kernel, CpuKernel):
        lines += _machine_code(kernel)
    return "\n".join(lines) + "\n"


def _machine_code(kernel: Kernel) -> Iterator[str]:
    yield ""
    yield f"Machine code ({kernel.target.architecture})"
    try:
        yield from (f"  {line}" for line in mix_sentences(kernel, machine_code(kernel)))
    except EngineError as error:
        yield f"  none: {error.reason}"


def _lines(kernel: AnyKernel, prediction: Prediction | CpuPrediction) -> Iterator[str]:
    group, made = kernel.group, kernel.made if isinstance(kernel, CpuKernel) else kernel.tile
    verdicts = sorted(kernel.verdicts, key=lambda v: v.placed.path)
    yield f"{group.name}: {group.title}, {group.kind}"
    yield ""
    yield "Why it is one kernel"
    yield f"  {group.because}"
    for edge in group.edges:
        yield f"  {edge.producer} -> {edge.consumer}: {edge.array} by {edge.scheme}, {edge.because}"
    yield from _rewritten(kernel, [v for v in verdicts if v.placed.entry.field == "rewrite"])
    yield ""
    yield f"Why it is scheduled so ({len(kernel.dependences)} dependences)"
    yield from (f"  {line}" for line in show(kernel.schedule, kernel.program).splitlines())
    yield from (f"  {_outcome(v)}" for v in verdicts if v.placed.entry.field != "rewrite")
    for line in kernel.log:
        yield f"  scheduler: {line}"
    yield ""
    yield f"Which kernel follows it: {kernel.family}"
    if made.misfit:
        yield f"  no faster family fits: {made.misfit}"
    if isinstance(kernel, CpuKernel):
        yield from (f"  {name} {value}" for name, value in kernel.made.config.items())
    else:
        yield from _launches(kernel)
    yield ""
    yield "Storage"
    for statement in kernel.program.statements:
        yield f"  {statement.name} {statement.write.array}: {made.placements.get(statement.name, 'register')}"
    yield from _numerics(kernel)
    yield ""
    yield f"Why it takes {prediction.microseconds:.3g} µs ({prediction.origin}, {prediction.note})"
    for term in prediction.terms:
        yield f"  {term.name:20} {term.value:>10.3g} {term.unit:5} {term.because}"


def _numerics(kernel: AnyKernel) -> Iterator[str]:
    """Where a kernel of 16-bit floats rounds, and what it would take if it rounded elsewhere and was else the same."""
    if isinstance(kernel, CpuKernel) or not has_halves(kernel.program):
        return
    opmath = is_opmath(kernel.recipe.numerics)
    other = FAITHFUL if opmath else OPMATH
    yield ""
    yield f"How it rounds: {OPMATH if opmath else FAITHFUL}"
    if opmath:
        yield "  in float32 between loads and stores; 16-bit floats are rounded where they are stored or multiplied"
        if kernel.program.approximates:
            yield "  functions by special-function units, to some 2^-22 of their results"
    else:
        yield "  to 16 bits behind every operator, as the graph says"
    if kernel.facts.launches:
        return
    flops, special = flop_counts(kernel.program)
    other_flops, other_special = flop_counts(with_arithmetic(kernel.program, {ARITHMETIC: other}))
    facts = kernel.facts
    changed = replace(facts, flops=facts.flops + other_flops - flops, special=facts.special + other_special - special)
    time = predict_kernel(replace(kernel, facts=changed))
    yield f"  {other} would take {time.microseconds:.3g} µs ({time.origin})"


def _launches(kernel: Kernel) -> Iterator[str]:
    """Why one block runs it, that its blocks meet, or what its several launches are."""
    waiting = _loop_in_order(kernel)
    if waiting:
        yield f"  one block runs it: iterations of its outermost loop {waiting} follow each other, and the blocks of a"
        yield "  launch do not wait for one another; with a parallel loop outermost, or cut there, it has several"
    if kernel.facts.meetings:
        first, meetings = kernel.launches[0], several(kernel.facts.meetings, "time")
        yield f"  its {first.blocks:,} blocks all meet, {meetings}: a step needs all of what the one before made;"
        yield f"  they run at once, {first.resident} on an SM: on fewer than {first.least_sms} SMs it would never end"
    if len(kernel.launches) > 1:
        yield f"  {len(kernel.launches)} launches in order, as parts of the cut share no grid that is as fast:"
        for tile, launch in zip(kernel.tile.launches, kernel.launches, strict=True):
            runs = " ".join(tile.statements)
            yield f"  {launch.entry}: {runs} on {launch.blocks:,} blocks of {math.prod(launch.block):,} threads"


def _loop_in_order(kernel: Kernel) -> str:
    """The outermost loop of a general kernel of one block that runs in order; "" for any other kernel."""
    root = kernel.schedule.root
    around = root.children if isinstance(root, Sequenced) else (root,)
    outermost = [node for node in around if isinstance(node, Band)]
    if kernel.family != GENERAL or kernel.facts.blocks > 1:
        return ""
    return next((b.members[0].name for b in outermost if not b.members[0].parallel and b.members[0].extent > 1), "")


def _rewritten(kernel: AnyKernel, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The requested rewrites and the statements they produced."""
    if not verdicts:
        return
    yield ""
    yield "What is computed otherwise than it was fused"
    yield from (f"  {_outcome(v)}" for v in verdicts)
    before = {s.name: s for s in kernel.group.program.statements}
    yield from (f"  {s}" for s in kernel.program.statements if s != before[s.name])


def _outcome(verdict: Verdict) -> str:
    entry = verdict.placed.entry
    reason = f": {verdict.because}" if verdict.because else ""
    wish = f" (because {entry.because})" if entry.because else ""
    return f"{verdict.placed.author}: {entry}{wish}: {verdict.outcome}{reason}"
