"""Which verdicts are problems: what makes advice fail is, an alternative that another stands in for is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.session.kernel_answers import problems_of
from engine.documents.model import EntryDoc, KernelDoc, ScenarioDoc
from tests.app.fake_documents import kernel

WITNESS = "S1[i=0] writes y[0], S3[i=0] reads it first"


def infeasible(*path: int) -> EntryDoc:
    text = f"required all @ {path[-1]}: cut S3 | S1  # at {path}"
    return EntryDoc(path, "user", ("S1",), "i", text, "", True, True, "infeasible", "breaks the flow of y", WITNESS)


def told(outcomes: str, *entries: EntryDoc) -> list[str]:
    """Subjects of the problems; one letter for each alternative of advice 0: taken, infeasible or not reached."""
    words = {"t": "taken", "i": "infeasible", "n": "not reached"}
    scenarios = tuple(ScenarioDoc((0, number), "user", "", words[each]) for number, each in enumerate(outcomes))
    doc: KernelDoc = replace(kernel("softmax_0"), entries=entries, scenarios=scenarios)
    return [problem.subject for problem in problems_of(doc)]


@pytest.mark.parametrize(
    ("outcomes", "path", "count"),
    [
        ("it", (0, 0, 0), 0),
        ("iit", (0, 1, 0), 0),
        ("itn", (0, 0, 2, 1), 0),
        ("ii", (0, 0, 0), 1),
        ("it", (0, 1, 0), 1),
        ("it", (1, 0), 1),
        ("", (0, 0), 1),
    ],
    ids=["later holds", "third holds", "nested", "none holds", "in the taken one", "plain", "no alternatives"],
)
def test_only_what_nothing_stands_in_for_is_a_problem(outcomes: str, path: tuple[int, ...], count: int) -> None:
    assert len(told(outcomes, infeasible(*path))) == count


def test_a_problem_says_what_was_asked_and_the_instances_that_prove_it() -> None:
    (problem,) = problems_of(replace(kernel("softmax_0"), entries=(infeasible(0, 0),), scenarios=()))
    assert problem.subject == "required all @ 0: cut S3 | S1"
    assert problem.reason == f"breaks the flow of y {WITNESS}"
