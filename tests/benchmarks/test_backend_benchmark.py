"""The count of node tests: every test is counted once, under how it ended."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.benchmarks import backend
from tests.benchmarks.backend import count_reasons, reason_of, run_case, summary
from tests.semantics.node_tests import Outcome, cases, every_case, left_open
from tests.support.needs import needs_compiler


@needs_compiler
def test_tests_that_pass_fail_and_are_refused() -> None:
    names = ("test_add", "test_cast_FLOAT16_to_DOUBLE", "test_slice_start_out_of_bounds", "test_identity_sequence")
    found = [run_case(every_case()[name]) for name in names]
    assert [outcome.stage for outcome in found] == ["pass", "lower", "pass", "load"]
    assert summary(found)["all"] == {"tests": 4, "pass": 2, "fail": 0, "refused": 2}
    assert summary(found)["usable"]["tests"] == 1
    assert sum(map(len, count_reasons(found).values())) == 2


@needs_compiler
def test_wrong_published_values_do_not_pass() -> None:
    case = every_case()["test_add"]
    wrong = replace(case, results={name: value + 0.01 for name, value in case.results.items()})
    assert run_case(wrong).stage == "compare"


def test_one_that_takes_too_long_and_one_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = every_case()["test_add"]
    monkeypatch.setattr(backend, "run", lambda case: time.sleep(30))
    assert run_case(case, seconds=1).stage == "time"
    monkeypatch.setattr(backend, "run", lambda case: {}["gone"])
    assert run_case(case).stage == "crash"


def test_reasons_are_those_of_many_tests() -> None:
    reasons = ["Zeropoint__1 holds uint8; kernels are generated for float32", "holds uint8 elements (input x)"]
    assert {reason_of(Outcome("", False, "lower", reason)) for reason in reasons} == {"holds uint8"}


def test_every_usable_test_is_a_test() -> None:
    assert len(every_case()) > len(cases()) > 1300 and set(left_open()) < set(every_case())
