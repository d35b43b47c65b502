"""Explain why two launches are not fused, and fuse a plan again under other fixed groups."""

from __future__ import annotations

from engine.compilation import default_microseconds
from engine.documents.exploration import RegroupDoc, WhyDoc
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionPlan, Launch
from engine.fusion.partition import FusionRequest
from engine.fusion.plan import build_partition, fold_program
from engine.fusion.stitching.nodes import Fixed, PlanFigures
from engine.support.errors import BadInput
from engine.target import target as find_target
from engine.tensor.lower import lower_supported


def why_apart(plan: FusionPlan, producer: str, consumer: str) -> WhyDoc:
    """Why two launches ("GROUP#INSTANCE") are not one kernel, with the cost terms of making them one.

    Raises BadInput for launches that the plan does not have.
    """
    places = [_place(plan, name) for name in (producer, consumer)]
    if plan.choice is None:
        raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
    found = plan.choice.why(*places)
    terms = found.gain.terms if found.gain else ()
    saved = found.gain.microseconds if found.gain else 0.0
    return WhyDoc(producer, consumer, found.legal, found.because, terms, saved)


def regroup(plan: FusionPlan, fixed: Fixed) -> RegroupDoc:
    """What a plan would be with other groups fixed: whether they can be, and what changes by the search's models.

    Changes nothing.
    """
    graph, before = plan.source, plan.choice
    if graph is None or before is None:
        raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
    lowered, unsupported = lower_supported(graph)
    program = fold_program(lowered, graph).program
    left_out = [op for op in graph.operators if op.name in unsupported]
    old = before.figures()
    request = FusionRequest(plan.policy, find_target(plan.target), default_microseconds, fixed, plan.numerics)
    try:
        new = build_partition(program, left_out, request).figures()
    except BadInput as refused:
        return RegroupDoc(False, f"{refused.subject}: {refused.reason}", ())
    return RegroupDoc(True, _change(old, new), _terms(old, new))


def _terms(old: PlanFigures, new: PlanFigures) -> tuple[TermDoc, ...]:
    """Old and new figures with their difference; less is better."""
    return (
        TermDoc("kernels", new.kernels - old.kernels, "kernels", f"{old.kernels:,} become {new.kernels:,}"),
        TermDoc("memory", new.bytes - old.bytes, "bytes", f"{old.bytes:,} become {new.bytes:,}"),
        TermDoc("time", new.microseconds - old.microseconds, "µs",
             f"{old.microseconds:.4g} become {new.microseconds:.4g}, "
             f"{PREDICTED} by FusionStitching's model, uncalibrated"),
    )  # fmt: skip


def _change(old: PlanFigures, new: PlanFigures) -> str:
    saved = old.microseconds - new.microseconds
    if abs(saved) < 0.005:
        return "no change in predicted time"
    return f"{abs(saved):.3g} µs {'less' if saved > 0 else 'more'}, predicted"


def _place(plan: FusionPlan, name: str) -> int:
    group, _, instance = name.rpartition("#")
    try:
        return plan.launches.index(Launch(group, int(instance)))
    except ValueError:
        raise BadInput("fuse", f"launch {name}", "the plan has none of that name", "GROUP#INSTANCE") from None
