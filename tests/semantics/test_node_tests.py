"""The list of operator tests that do not pass is what a run of them says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.semantics.node_tests import cases, left_open, run, run_all

SHARED = Path(__file__).parents[3] / "shared" / "research" / "node_tests.json"
SAMPLE = 22
"""Every so many tests by name: about 60 of them, so that compiling their kernels takes half a minute."""


@pytest.mark.slow(sentinel=True)
def test_the_tests_are_those_that_were_counted() -> None:
    if not SHARED.is_file():
        pytest.skip(f"{SHARED} is absent: the count is not shipped")
    counted = json.loads(SHARED.read_text())
    single = {name for names in counted["usable"].values() for name in names}
    assert {name for name, case in cases().items() if case.is_counted} == single | set(counted["expanded_usable"])


def test_enough_pass_and_what_does_not_has_a_reason() -> None:
    open_ = left_open()
    assert set(open_) <= set(cases())
    assert all(len(reason) > len("compare: ") for reason in open_.values())
    passing = [case for name, case in cases().items() if name not in open_]
    assert sum(not case.expanded for case in passing) >= 900
    assert sum(case.expanded for case in passing) >= 340


@pytest.mark.slow(sentinel=True)
def test_a_sample_is_as_the_list_says() -> None:
    """Through the whole path: the kernels of every 22nd test are emulated."""
    open_ = left_open()
    for outcome in run_all(sorted(cases())[::SAMPLE]):
        assert (outcome.stage != "pass") == (outcome.name in open_), f"{outcome.name}: {outcome.reason}"


def test_open_ones_before_emulation_fail_as_listed() -> None:
    """Those that never reach a kernel are run again: one that has come to work must leave the list."""
    for name, reason in left_open().items():
        if reason.startswith(("load", "lower")):
            outcome = run(cases()[name])
            assert f"{outcome.stage}: {outcome.reason}" == reason, name


@pytest.mark.slow
def test_all_are_as_the_list_says() -> None:
    outcomes = list(run_all(cases()))
    assert {o.name: f"{o.stage}: {o.reason}" for o in outcomes if o.stage != "pass"} == left_open()
