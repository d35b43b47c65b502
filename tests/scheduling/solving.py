"""Solving one program under a person's entries, and the outcome in few words."""

from __future__ import annotations

from engine.poly.dependences import dependences
from engine.recipe import Advice, Entry, Scenario
from engine.scheduling.compose import compose
from engine.scheduling.nodes import Scheduled
from engine.scheduling.solve import schedule
from engine.scheduling.tree_text import show
from engine.tensor.nodes import TensorProgram


def solved(program: TensorProgram, *entries: Entry, alternatives: tuple[Scenario, ...] = ()) -> Scheduled:
    advice = (Advice("user", Scenario(entries, alternatives)),)
    return schedule(program, dependences(program), compose(advice, program))


def outline(scheduled: Scheduled, program: TensorProgram) -> str:
    """The tree without the statements' expressions."""
    lines = show(scheduled.tree, program).splitlines()[1:]
    return "\n".join(line.split("[")[0].rstrip() if ": " in line and "[" in line else line for line in lines)


def outcomes(scheduled: Scheduled) -> list[str]:
    return [v.outcome for v in scheduled.verdicts]
