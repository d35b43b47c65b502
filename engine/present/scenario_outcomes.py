"""Outcome of each alternative in a group's advice: taken, infeasible or not reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.documents.model import ScenarioDoc
from engine.recipe import Advice, Scenario
from engine.scheduling.nodes import HONOURED, INFEASIBLE, RELAXED, Verdict

TAKEN, FAILED, NOT_REACHED = "taken", "infeasible", "not reached"
OPEN = ""
"""Of an alternative without an enabled entry: its neighbours decide."""

Path = tuple[int, ...]


def scenario_docs(advice: Sequence[Advice], verdicts: Sequence[Verdict]) -> tuple[ScenarioDoc, ...]:
    """Every alternative in the order of the text form, each before those nested in it."""
    outcomes = {verdict.placed.path: verdict.outcome for verdict in verdicts}
    return tuple(
        doc
        for number, one in enumerate(advice)
        for doc in _alternatives(one.scenario, one.author, (number,), outcomes, True)
    )


def _alternatives(
    scenario: Scenario, author: str, path: Path, outcomes: Mapping[Path, str], reached: bool
) -> list[ScenarioDoc]:
    """The alternatives below a scenario; the first one that did not fail is taken where the scenario is."""
    found: list[ScenarioDoc] = []
    for number, alternative in enumerate(scenario.alternatives):
        place = (*path, number)
        outcome = _outcome(alternative, place, outcomes)
        if outcome == OPEN:
            outcome = TAKEN if reached else NOT_REACHED
        own = ScenarioDoc(place, author, alternative.label, outcome)
        found += [own, *_alternatives(alternative, author, place, outcomes, outcome == TAKEN)]
        reached = reached and outcome == FAILED
    return found


def _outcome(scenario: Scenario, path: Path, outcomes: Mapping[Path, str]) -> str:
    """Outcome of an alternative from the verdicts of its entries and its nested alternatives."""
    own = {outcomes.get((*path, k), "") for k, entry in enumerate(scenario.entries) if entry.enabled}
    inner = {_outcome(each, (*path, k), outcomes) for k, each in enumerate(scenario.alternatives)}
    if INFEASIBLE in own or inner == {FAILED}:
        return FAILED
    if own & {HONOURED, RELAXED} or TAKEN in inner:
        return TAKEN
    return NOT_REACHED if own or inner - {OPEN} else OPEN
