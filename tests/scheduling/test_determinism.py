"""The same input gives the same tree, verdicts and log, byte for byte, whatever the hash seed of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.poly.dependences import dependences
from engine.recipe import AUTHORS, Advice, Entry, Scenario, entry
from engine.scheduling.compose import compose
from engine.scheduling.nodes import Conflict
from engine.scheduling.solve import schedule
from engine.scheduling.tree_text import report
from tests.support.random_programs import random_program

ROOT = Path(__file__).parents[2]

NAMES = st.sampled_from([f"S{k}" for k in range(6)])
ITERATORS = st.sampled_from("ijkl")
PLACES = st.one_of(st.sampled_from(["outermost", "innermost"]), ITERATORS, ITERATORS.map(lambda name: f"after {name}"))


@st.composite
def wishes(draw: st.DrawFn) -> Entry:
    """An entry with names that a random program may have."""
    statement, at, required = draw(NAMES), draw(PLACES), draw(st.integers(0, 3)) == 0
    iterators = tuple(draw(st.lists(ITERATORS, min_size=1, max_size=2, unique=True)))
    pair = tuple(draw(st.lists(NAMES, min_size=2, max_size=2, unique=True)))
    kind = draw(st.sampled_from(["pin", "parallel", "cut", "equal", "terms", "objective", "mark"]))
    match kind:
        case "pin":
            return entry(statement, pin=iterators, at=at, required=required)
        case "parallel":
            return entry(statement, parallel=True, at=at, required=required)
        case "cut":
            return entry(cut=pair, at=at, required=required)
        case "equal":
            return entry(equal=pair, at=at, required=required)
        case "terms":
            value = draw(st.sampled_from(["skew", "shift", *((name, n) for name in iterators for n in (-1, 0, 2))]))
            return entry(statement, terms=value, at=at, required=required)
        case "objective":
            return entry(objective=iterators[0], at=at, required=required)
        case _:
            return entry(statement, mark=("vector", 4), at=at, required=required)


SCENARIOS = st.recursive(
    st.builds(Scenario, st.lists(wishes(), max_size=3).map(tuple)),
    lambda inner: st.builds(
        Scenario, st.lists(wishes(), max_size=2).map(tuple), st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=3,
)
ADVICE = st.lists(st.builds(Advice, st.sampled_from(AUTHORS[:2]), SCENARIOS), max_size=2).map(tuple)


def everything(seed: int, advice: tuple[Advice, ...]) -> str:
    """All that a solve says, conflicts and repairs included."""
    program = random_program(seed)
    try:
        return report(schedule(program, dependences(program), compose(advice, program)), program)
    except Conflict as conflict:
        verdicts = "\n".join(f"{v.outcome} {v.placed} {v.because}" for v in conflict.verdicts)
        repairs = "\n".join(f"{r.kind} {r.text}" for r in conflict.repairs)
        return f"{conflict}\n{verdicts}\n{conflict.conflicting}\n{repairs}"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), ADVICE)
def test_a_second_solve_says_the_same(seed: int, advice: tuple[Advice, ...]) -> None:
    assert everything(seed, advice) == everything(seed, advice)


PINS = Scenario(
    (
        entry("S1", "S2", "S3", pin=("i", "j"), at="outermost"),
        entry(cut=(("S0", "S1"), ("S2", "S3", "S4")), at="innermost"),
        entry(equal=("S1", "S3", "S5"), at="innermost"),
        entry(objective="k", at="outermost"),
    ),
    (Scenario((entry("S4", terms="shift", at="outermost"), entry("S5", pin="l", at="innermost", required=True))),) * 2,
)


def print_fixed_cases() -> None:
    """Everything about a few solves, for another process to compare."""
    for seed in range(12):
        print(everything(seed, (Advice("user", PINS),)))


@pytest.mark.slow(sentinel=True)
def test_another_process_with_another_hash_seed_says_the_same() -> None:
    command = [sys.executable, "-c", f"from {__name__} import print_fixed_cases as p; p()"]
    said = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(said) == 1
    (text,) = said
    assert {b"honoured", b"infeasible", b"cut:"} <= {
        word for word in (b"honoured", b"infeasible", b"cut:") if word in text
    }
