"""The history as a tree, without a window."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest

from app.session.edit_summaries import title_of
from app.session.history import NO_STEP, Checked, History, HistoryRecord, HistoryStep, without_figures
from engine.documents.model import Check, SiteCount, Time
from tests.app.fake_documents import ADVICE


def predicted(microseconds: float) -> Time:
    return Time(microseconds, "predicted")


def saved(history: History, number: int, reference: int, origin: str = "") -> float:
    gain = history.gain(number, reference, origin)
    assert gain is not None and gain.sure
    return gain.part


def grown(count: int) -> History:
    """A history of `count` steps in a row after the first."""
    history = History.start("0", "As advised")
    for number in range(1, count + 1):
        history.add(str(number), f"step {number}")
    return history


def test_undo_goes_to_the_parent_and_redo_to_the_child_visited_last() -> None:
    history = grown(3)
    history.undo()
    history.undo()
    branch = history.add("other", "other")
    assert history.steps[branch].parent == 1 and len(history.steps) == 5, "nothing is overwritten"
    history.undo()
    assert history.children(1) == (2, branch)
    history.redo()
    assert history.current == branch
    history.go(3)
    history.undo()
    history.undo()
    history.redo()
    assert history.current == 2, "the way to step 3 was visited last"


def test_ends_of_the_tree_hold() -> None:
    history = grown(1)
    assert history.can_undo and not history.can_redo
    history.redo()
    assert history.current == 1
    history.undo()
    history.undo()
    assert history.current == 0 and history.can_redo and not history.can_undo


def test_the_same_edit_again_is_the_same_step() -> None:
    history = grown(1)
    history.undo()
    assert history.add("1", "again") == 1 and len(history.steps) == 2


def test_ten_thousand_steps_there_and_back() -> None:
    history = grown(10_000)
    for _ in range(10_000):
        history.undo()
    assert history.current == 0
    for _ in range(10_000):
        history.redo()
    assert history.text == "10000"
    assert History.of(history.trail()).trail() == history.trail()


def test_random_walks_match_a_list_of_texts() -> None:
    """The reference keeps for every node its parent and the child visited last, as nested dictionaries."""
    random_walk = random.Random(7)
    history = History.start("", "As advised")
    root: dict[str, object] = {"text": "", "parent": None, "last": None, "children": {}}
    node = root
    for _ in range(2000):
        match random_walk.choice(("add", "add", "undo", "redo")):
            case "add":
                text = f"{node['text']}{random_walk.choice('ab')}"[-12:]
                if text == node["text"]:
                    continue
                history.add(text, text)
                children = node["children"]
                assert isinstance(children, dict)
                child = children.setdefault(text, {"text": text, "parent": node, "last": None, "children": {}})
                node["last"], node = child, child
            case "undo":
                history.undo()
                node = node["parent"] or node  # type: ignore[assignment]
            case "redo":
                history.redo()
                node = node["last"] or node  # type: ignore[assignment]
        assert history.text == node["text"]


def test_a_draft_is_beside_the_tree() -> None:
    history = grown(1)
    history.refuse("nonsense")
    assert history.text == "nonsense" and history.step.text == "1"
    history.undo()
    assert history.text == "1" and history.can_redo
    assert history.redo() == "nonsense", "it is asked for again, not taken as a step"
    history.undo()
    assert history.text == "0" and history.redo() == ""
    assert len(history.steps) == 2


def test_origins_are_never_mixed() -> None:
    history = grown(2)
    for number, microseconds in enumerate((40.0, 20.0, 10.0)):
        history.learn(str(number), predicted=predicted(microseconds))
    assert saved(history, 2, 1) == pytest.approx(0.5) and saved(history, 2, 0) == pytest.approx(0.75)
    assert history.gain(0, 0) is None and history.gain(0, NO_STEP) is None
    history.learn("2", measured=Time(18.0, "measured"))
    assert history.gain(2, 1) is None, "18 measured is not compared with 20 predicted"
    history.learn("1", measured=Time(24.0, "measured"))
    assert saved(history, 2, 1) == pytest.approx(0.25)
    assert saved(history, 1, 2) == pytest.approx(-1 / 3)
    assert saved(history, 2, 0, "predicted") == pytest.approx(0.75), "the two stand side by side"
    history.learn("2", measured=Time(18.0, "measured", device="another GPU"))
    assert history.gain(2, 1) is None


def test_a_measured_gain_within_the_noise_is_none() -> None:
    history = grown(2)
    noise = random.Random(3)
    for number, middle in enumerate((20.0, 20.05, 18.0)):
        samples = tuple(middle * noise.uniform(0.99, 1.01) for _ in range(50))
        history.learn(str(number), measured=Time(median(samples), "measured", samples=samples, rounds=10))
    first, second = history.gain(1, 0), history.gain(2, 0)
    assert first is not None and not first.sure
    assert second is not None and second.sure and second.part == pytest.approx(0.1, abs=0.01)
    assert "95 %" in second.because.replace("95%", "95 %")


def test_figures_reach_every_step_with_the_advice() -> None:
    history = grown(1)
    history.undo()
    history.add("x", "x")
    history.add("1", "1 again")
    counts = (SiteCount(3, "global load", 16, 8, 64, 0), SiteCount(5, "global store", 16, 8, 40, 0))
    check = Check("g", "pass", 0.0, 1e-6, "", 8, 16, 100, ("late", "early"), (), "", counts)
    assert history.learn("1", checked=Checked.of(check)) == (1, 3)
    assert history.steps[3].checked == Checked("pass", 8, 16, 2, 104, 16)
    assert history.learn("1", checked=Checked.of(check)) == (), "no news"
    for outcomes, words in (
        ({}, "source, late and early"),
        ({"source": "pass", "ptx": "not run"}, "source, late and early"),
        ({"source": "pass", "ptx": "pass"}, "source and ptx, late and early"),
        ({"source": "pass", "ptx": "unsupported: foo"}, "source, late and early"),
    ):
        assert Checked.of(replace(check, levels=outcomes)).extent == words
    on_cpu = replace(check, levels={"native": "pass"}, orders=())
    assert Checked.of(on_cpu).extent == "native", "kernels for a CPU have no orders"


def test_another_machine_knows_no_figures_of_this_one() -> None:
    history, untouched = grown(1), History.start("0", "As advised")
    history.learn("1", predicted=predicted(3.0))
    trails = without_figures({"a": history.trail(), "b": untouched.trail()})
    assert list(trails) == ["a"] and [step.predicted for step in trails["a"].steps] == [None, None]


@pytest.mark.parametrize(
    "trail",
    [
        HistoryRecord((HistoryStep("a", "a", 0),)),
        HistoryRecord((HistoryStep("a", "a", NO_STEP), HistoryStep("b", "b", 1))),
        HistoryRecord((HistoryStep("a", "a", NO_STEP), HistoryStep("b", "b", NO_STEP))),
        HistoryRecord((HistoryStep("a", "a", NO_STEP),), current=1),
        HistoryRecord((HistoryStep("a", "a", NO_STEP),), baseline=-1),
        HistoryRecord((HistoryStep("a", "a", NO_STEP), HistoryStep("b", "b", 0)), visited=((1, 1),)),
    ],
)
def test_a_trail_that_contradicts_itself_is_refused(trail: HistoryRecord) -> None:
    with pytest.raises(ValueError, match="step"):
        History.of(trail)


@pytest.mark.parametrize(
    ("after", "title"),
    [
        (ADVICE.replace("stages 2", "stages 3"), "Stages 2 → 3 on S0"),
        (ADVICE + "advice user\n  S5 @ innermost: mark vector 4\n", "Vector 4 on S5"),
        (ADVICE.replace("all @ innermost: mark", "off all @ innermost: mark"), "Disable lane 32 at innermost"),
        (ADVICE.replace("all @ outermost: pin", "required all @ outermost: pin"), "Require pin i at outermost"),
        (ADVICE.replace("  S0 @ k: mark stages 2", "#"), "Without stages 2 on S0"),
        (ADVICE.replace("block 8", "block 4").replace("vector 8", "vector 4"), "Block 8 → 4 at i and 1 more"),
        (ADVICE + "# a remark\n", "Order or remarks"),
        (ADVICE + "advice user\n  rewrite recompute S1 in S3  # because it is cheap\n", "Recompute S1 in S3"),
        (ADVICE + "advice user\n  required rewrite associative S2\n", "Associative S2"),
        ("this is no advice", "Edited advice"),
    ],
)
def test_titles_say_what_changed(after: str, title: str) -> None:
    assert title_of(ADVICE, after) == title


def test_titles_of_a_rewrite_that_changes_or_goes() -> None:
    lines = "advice user\n  all @ innermost: cut S2 | S1\n  rewrite recompute S1 in S2\n"
    assert title_of(ADVICE, ADVICE + lines) == "Recompute S1 in S2 and 1 more"
    before = "advice user\n  rewrite recompute S1 in S3\n"
    assert title_of(before, before.replace("rewrite", "off rewrite")) == "Disable recompute S1 in S3"
    assert title_of(before, before.replace("rewrite", "required rewrite")) == "Require recompute S1 in S3"
    assert title_of(before, before.replace("S3", "S2")) == "Recompute S1 in S3 → S1 in S2"
    assert title_of(before, "advice user\n") == "Without recompute S1 in S3"
