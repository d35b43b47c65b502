"""Explain why two launches are not fused, and fuse a plan again under other fixed groups."""

from __future__ import annotations

from engine.compilation import fusion_request
from engine.documents.exploration import RegroupDoc, WhyDoc
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionPlan, Launch
from engine.fusion.plan import plan as fuse_plan
from engine.fusion.stitching.nodes import Fixed
from engine.present.model import plan_bytes, plan_microseconds
from engine.support.errors import BadInput
from engine.target.machines import machine as find_machine
from engine.tensor.lower import lower_supported


def why_apart(plan: FusionPlan, producer: str, consumer: str) -> WhyDoc:
    """Why two launches ("GROUP#INSTANCE") are not one kernel, with the cost terms of making them one.

    >>> graph = engine.load("suite:attention/1x16x8192x8192x64")
    >>> apart = engine.fuse(graph, fixed=engine.Fixed(apart=(("Softmax_weights", "MatMul_y"),)))
    >>> engine.why_apart(apart, "softmax_0#0", "matmul_1#0").because
    'you keep Softmax_weights and MatMul_y apart'

    Its times are those of the search's own model, which is quicker than that of `predict` and counts other things.
    Raises BadInput for launches that the plan does not have.
    """
    places = sorted(_place(plan, name) for name in (producer, consumer))
    if producer == consumer:
        raise BadInput("fuse", f"launch {producer}", "is one kernel", "name two launches")
    if plan.choice is None:
        raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
    found = plan.choice.why(*places)
    terms = found.gain.terms if found.gain else ()
    saved = found.gain.microseconds if found.gain else 0.0
    return WhyDoc(producer, consumer, found.legal, found.because, terms, saved)


def regroup(plan: FusionPlan, fixed: Fixed) -> RegroupDoc:
    """What a plan would be with other groups fixed: whether they can be, and what changes.

    >>> graph = engine.load("suite:attention/1x16x8192x8192x64")
    >>> told = engine.regroup(engine.fuse(graph), engine.Fixed(apart=(("Softmax_weights", "MatMul_y"),)))
    >>> told.legal, told.terms[0].because
    (True, '1 become 3')

    Times are what `predict` tells of the kernels of both plans under their advisers' recipes, bytes what they must
    move.  Changes nothing.
    """
    graph = plan.source
    if graph is None:
        raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
    program, unsupported = lower_supported(graph)
    request = fusion_request(program, find_machine(plan.target), plan.policy, fixed, plan.numerics)
    try:
        new = fuse_plan(graph, program, unsupported, request)
    except BadInput as refused:
        return RegroupDoc(False, f"{refused.subject}: {refused.reason}", ())
    before, after = plan_microseconds(plan), plan_microseconds(new)
    return RegroupDoc(True, _change(before - after), (
        _term("kernels", "kernels", len(plan.launches), len(new.launches)),
        _term("memory", "bytes", plan_bytes(plan), plan_bytes(new)),
        _term("time", "µs", before, after, PREDICTED),
    ))  # fmt: skip


def _term(name: str, unit: str, old: float, new: float, *notes: str) -> TermDoc:
    """Old and new figures with their difference; less is better."""
    shown = (f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}" for figure in (old, new))
    return TermDoc(name, new - old, unit, ", ".join((" become ".join(shown), *notes)))


def _change(saved: float) -> str:
    if abs(saved) < 0.005:
        return "no change in predicted time"
    return f"{abs(saved):,.2f} µs {'less' if saved > 0 else 'more'}, predicted"


def _place(plan: FusionPlan, name: str) -> int:
    group, _, instance = name.rpartition("#")
    try:
        return plan.launches.index(Launch(group, int(instance)))
    except ValueError:
        raise BadInput("fuse", f"launch {name}", "the plan has none of that name", "GROUP#INSTANCE") from None
