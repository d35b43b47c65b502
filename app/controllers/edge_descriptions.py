"""Texts about edges, fusion requests and refusals: for the card under the graph and the note beside the pointer."""

from __future__ import annotations

from collections.abc import Sequence

from engine.documents.exploration import JOIN, TAKE_OUT, AttemptDoc, FusionEdit, WhyDoc
from engine.documents.model import EdgeDoc, LinkDoc, ProblemDoc, TermDoc
from views.format import amount, duration, figure, plural
from views.fusion.card import CardContent
from views.graph.handles import Handle

PREFIX = "cannot be one kernel: "
"""How the engine begins a refusal; left out where a title says so already."""

BY_FUSION = "predicted by FusionStitching's model"
"""Not by the estimate that the groups' times come from."""
TERMS = {"memory": "Memory", "calls": "Launches", "penalty": "Penalty"}


def link_told(links: Sequence[LinkDoc]) -> CardContent:
    """An edge inside a launch."""
    first = links[0]
    title = f"{short(first.producer)} → {short(first.consumer)}"
    saved = sum(link.bytes for link in links)
    chips = (first.scheme, *((f"{amount(saved)} saved",) if saved else ()))
    rows = tuple((link.tensor, amount(link.bytes), "not through global memory") for link in links if link.bytes)
    sentence = f"Passed via {first.scheme}: {first.because}." if saved else f"{first.because.capitalize()}."
    return CardContent(title, chips, sentence, rows if len(rows) > 1 else (), choices=(("Split here", "split"),))


def boundary_told(
    edge: EdgeDoc, tensors: Sequence[EdgeDoc], names: Sequence[str], why: object, merged: object = None
) -> CardContent:
    """An edge between two launches: why they are two, with the cost terms of making them one.

    merged: of an edge that the user keeps apart, what making one kernel of its two ends would come to.
    """
    title = f"{names[0]} → {names[1]}"
    crossing = f"{amount(max(each.bytes for each in tensors))} through global memory"
    chips = (crossing, *(("fixed by you",) if edge.fixed else ()))
    release = (("Unpin", "release"),) if any(each.fixed for each in tensors) else ()
    if not isinstance(why, WhyDoc):
        sentence = why.reason if isinstance(why, ProblemDoc) else edge.because or "Looking why these are two kernels …"
        return CardContent(title, chips, f"{sentence[:1].upper()}{sentence[1:]}", choices=release)
    reason = f"{why.because[:1].upper()}{why.because[1:]}"
    if edge.fixed and isinstance(merged, AttemptDoc) and merged.legal:
        choices = (("Merge these two", "merge"), *release)
        return CardContent(title, chips, f"{reason}.", (("One kernel", *_change_parts(merged)),), choices=choices)
    if not why.legal:
        return CardContent(title, chips, f"They stay two kernels: {why.because}.", choices=release)
    rows = tuple((TERMS.get(term.name, term.name), _signed_term(term), term.because) for term in why.terms)
    total = ("One kernel", _saved_time(why.microseconds), f"{BY_FUSION}, uncalibrated")
    merge = (("Merge these two", "merge"),)
    return CardContent(title, chips, f"{reason}.", (*rows, total) if rows else (), choices=(*merge, *release))


def refused_told(wish: FusionEdit | None, problem: ProblemDoc) -> CardContent:
    """A request that could not be carried out: with the operators and figures in the way, and what to do instead."""
    names = wish.operators if wish else ()
    title = "These cannot be one kernel" if wish and wish.kind == JOIN else "This cannot be done"
    reason = problem.reason.removeprefix(PREFIX)
    reason = f"{reason[:1].upper()}{reason[1:]}."
    hint = f" Instead: {problem.hint}." if problem.hint else ""
    return CardContent(title, ("refused", "nothing changed"), reason + hint, (), True, names=names)


def trial_note(source: Handle, target: str, wish: FusionEdit | None, known: object) -> tuple[str, str, str]:
    """(title, sentence, verdict) of dropping something."""
    what = short(source.operator) if source.operator else "this kernel"
    if wish is None:
        inside = "" if source.operator else " An operator can also be dropped outside."
        return f"Move {what}", f"Drop it on another kernel.{inside}", "not reached"
    title = f"{what} apart from its group" if wish.kind == TAKE_OUT else f"Merge {what} into {target}"
    if isinstance(known, ProblemDoc):
        return title, known.reason, "infeasible"
    if not isinstance(known, AttemptDoc):
        return title, "Looking whether that is legal …", "not reached"
    if not known.legal:
        return title, f"Not legal: {known.because.removeprefix(PREFIX)}", "infeasible"
    return title, f"Legal. {change_text(known)}", "honoured"


def change_text(found: AttemptDoc) -> str:
    """The predicted change of a request."""
    terms = {term.name: term.value for term in found.terms}
    places = f", in {plural(found.places, 'equal place')}" if found.places > 1 else ""
    if not terms:
        return f"What it changes is known once the rest is explored{places}"
    time, rest = _change_parts(found)
    return f"{time} {rest}"


def _change_parts(found: AttemptDoc) -> tuple[str, str]:
    """("▼ 237 µs", "predicted by ..., 96 kernels fewer, ...") of a request whose change is known."""
    terms = {term.name: term.value for term in found.terms}
    if not terms:
        return "", "known once the rest is explored"
    time, moved, kernels = terms["time"], round(terms["memory"]), round(terms["kernels"])
    parts = [BY_FUSION]
    if kernels:
        parts.append(f"{plural(abs(kernels), 'kernel')} {'fewer' if kernels < 0 else 'more'}")
    if moved:
        parts.append(f"{amount(abs(moved))} {'less' if moved < 0 else 'more'} through global memory")
    if found.places > 1:
        parts.append(f"in {plural(found.places, 'equal place')}")
    return f"{'▼' if time < 0 else '▲'} {duration(abs(time))}", ", ".join(parts)


def short(operator: str) -> str:
    """The last part of an operator's name."""
    return operator.rstrip("/").rpartition("/")[2]


def _signed_term(term: TermDoc) -> str:
    return f"{'+' if term.value >= 0 else '−'}{figure(abs(term.value))} {term.unit}"


def _saved_time(microseconds: float) -> str:
    return f"{'▼' if microseconds >= 0 else '▲'} {figure(abs(microseconds))} µs"
