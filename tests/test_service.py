"""The worker's protocol: one answer a request, in order, problems as documents, replies alone on their stream."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.documents.exploration import ConflictDoc, DecisionsDoc, MovesDoc, OrderDoc, SpaceDoc, WarpDoc
from engine.documents.model import Check, KernelDoc, ModelDoc, ProblemDoc
from engine.documents.parts import read_part
from engine.execution.measure import gpu_name
from engine.execution.nvrtc import nvrtc_version
from engine.fusion.nodes import FusionGroup
from engine.scheduling.nodes import Options
from engine.scheduling.text import to_text
from engine.service import serve
from engine.support.serialization import from_json

ROOT = Path(__file__).parents[1]
SOFTMAX = str(ROOT / "resources" / "models" / "softmax_96x512.onnx")
OPEN = ("open", {"path": SOFTMAX, "target": "h200", "dimensions": {}})
ADVICE = "advice user\n  all @ i: mark block 4  # tried by hand\n"


def ask(*requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Every reply to these requests, numbered from 1."""
    lines = [json.dumps({"id": n, "verb": verb, "arguments": a}) for n, (verb, a) in enumerate(requests, 1)]
    replies = io.StringIO()
    serve(lines, replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def last(*requests: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The answer to the last request."""
    answer = ask(*requests)[-1]
    assert answer["id"] == len(requests)
    return answer


def test_long_lists_of_a_result_come_ahead_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(ROOT / "resources" / "models" / "bert_tiny.onnx")
    at_once = from_json(ModelDoc, last(("open", {"path": path}))["value"])
    monkeypatch.setattr("engine.documents.parts.PART", 1)
    *ahead, rest = [reply for reply in ask(("open", {"path": path})) if reply["event"] in ("part", "result")]
    parts = [read_part(ModelDoc, each["value"]) for each in ahead]
    document = from_json(ModelDoc, rest["value"])
    for key in {key for key, _ in parts}:
        items = tuple(item for name, found in parts if name == key for item in found)
        more: dict[str, Any] = {key: (*items, *getattr(document, key))}
        document = replace(document, **more)
    assert replace(document, seconds=at_once.seconds) == at_once
    assert len(document.operators) == 80 and len(document.nodes) == 12
    assert all(len(items) == 1 for _, items in parts)


def test_a_large_graph_comes_before_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.service.PREVIEWED", 1)
    events = [(reply["event"], reply["value"]) for reply in ask(OPEN) if reply["event"] != "progress"]
    assert [event for event, _ in events] == ["preview", "result"]
    graph, model = from_json(ModelDoc, events[0][1]["document"]), from_json(ModelDoc, events[1][1])
    assert events[0][1]["kept"] == ["operators"] and graph.operators == model.operators
    assert not graph.is_planned and not graph.groups and model.is_planned and model.groups and not model.uncompiled
    (only,) = graph.uncompiled
    assert only.is_unplanned and [(edge.source, edge.target) for edge in graph.edges] == [("", only.id), (only.id, "")]


def test_every_request_gets_one_answer_after_its_progress() -> None:
    replies = ask(OPEN, ("kernel", {"group": "softmax_0", "recipe": None}), ("machine", {}))
    answers = [(r["id"], r["event"]) for r in replies if r["event"] in ("result", "error")]
    assert answers == [(1, "result"), (2, "result"), (3, "result")]
    assert [r["id"] for r in replies] == sorted(r["id"] for r in replies)
    steps = [r["value"] for r in replies if r["id"] == 1 and r["event"] == "progress"]
    assert [s["done"] for s in steps] == [0, 1, 2]
    assert all(s["text"] and s["total"] == 3 for s in steps)


def test_open_answers_a_model_with_its_times() -> None:
    model = from_json(ModelDoc, last(OPEN)["value"])
    assert [group.name for group in model.groups] == ["softmax_0"]
    assert [stage for stage, _ in model.seconds] == ["load", "fuse", "predict"]
    assert model.total is not None
    assert model.total.origin == "predicted"


def test_a_kernel_with_edited_advice_differs_from_the_default() -> None:
    default = last(OPEN, ("kernel", {"group": "softmax_0", "recipe": None}))
    edited = last(OPEN, ("kernel", {"group": "softmax_0", "recipe": ADVICE}))
    one, other = (from_json(KernelDoc, answer["value"]) for answer in (default, edited))
    assert one.recipe != other.recipe
    assert one.launches[0].blocks != other.launches[0].blocks
    (entry,) = other.entries
    assert (entry.author, entry.outcome) == ("user", "honoured")


def test_kernels_are_kept_up_to_a_number_and_made_again_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.service.KEPT", 2)
    compiled: list[str] = []
    original = engine.compile

    def recording(group: FusionGroup, recipe: engine.Recipe, options: Options) -> engine.Kernel:
        compiled.append(to_text(recipe.groups[group.name]))
        return original(group, recipe)

    monkeypatch.setattr("engine.service.compile_for", recording)
    texts = [f"advice user\n  all @ i: mark block {size}\n" for size in (2, 4, 8)]
    asked = [("kernel", {"group": "softmax_0", "recipe": texts[number]}) for number in (0, 1, 0, 2, 0, 1)]
    results = [reply["value"] for reply in ask(OPEN, *asked) if reply["event"] == "result"][1:]
    kernels = [from_json(KernelDoc, value).cuda for value in results]
    # The third request makes the first kernel the last to go, so that the fourth drops the second.
    sizes = [next(size for size in (2, 4, 8) if f"block {size}" in text) for text in compiled]
    assert sizes == [2, 4, 8, 4]
    assert kernels[0] == kernels[2] == kernels[4] and kernels[1] == kernels[5] and len(set(kernels)) == 3


def test_the_default_advice_written_back_gives_the_same_text() -> None:
    default = from_json(KernelDoc, last(OPEN, ("kernel", {"group": "softmax_0", "recipe": None}))["value"])
    again = from_json(KernelDoc, last(OPEN, ("kernel", {"group": "softmax_0", "recipe": default.recipe}))["value"])
    assert again.cuda == default.cuda


BACKWARDS = "advice user\n  # written by hand\n  required all @ innermost: cut S3 | S0 S1 S2  # because of a slip\n"
CLASH = """\
advice map
  all @ i: mark block 8
  either
    required all @ outermost: pin j
    required S0 @ outermost: pin i
"""


@pytest.mark.parametrize(("advice", "other"), [(BACKWARDS, "cut"), (CLASH, "replace")])
def test_a_conflict_brings_repairs_that_change_one_entry_each(advice: str, other: str) -> None:
    refused, first = conflict_of(advice), kernel_of(advice)
    assert not first.legal and not first.complete and not first.repairs
    assert [(e.path, e.outcome) for e in first.entries] == [(e.path, e.outcome) for e in refused.entries]
    assert set(refused.conflicting) <= {entry.path for entry in refused.entries}
    assert {repair.kind for repair in refused.repairs} == {other, "relax", "switch off"}
    assert {repair.path for repair in refused.repairs} == set(refused.conflicting)
    for repair in refused.repairs:
        assert repair.complete
        (gone,) = set(refused.recipe.splitlines()) - set(repair.recipe.splitlines())
        assert "required" in gone
        assert len(repair.recipe.splitlines()) == len(refused.recipe.splitlines())


def test_the_offered_advice_is_legal_as_it_stands_and_keeps_reasons() -> None:
    for repair in conflict_of(BACKWARDS).repairs:
        repaired = kernel_of(repair.recipe)
        assert repaired.complete
        assert repaired.legal and not repaired.conflicting and not repaired.repairs
        assert repaired.recipe == repair.recipe
        assert "# because of a slip" in repaired.recipe


def kernel_of(advice: str) -> KernelDoc:
    """The kernel of the softmax under this advice."""
    return from_json(KernelDoc, last(OPEN, ("kernel", {"group": "softmax_0", "recipe": advice}))["value"])


def conflict_of(advice: str) -> ConflictDoc:
    """What is found out of this advice after the first answer."""
    found = from_json(ConflictDoc, last(OPEN, ("conflict", {"group": "softmax_0", "recipe": advice}))["value"])
    assert found.complete and found.recipe == kernel_of(advice).recipe
    return found


def test_the_smallest_conflict_gives_way_to_the_next_edit() -> None:
    conflict = ("conflict", {"group": "softmax_0", "recipe": CLASH})
    replies = ask(OPEN, conflict, ("kernel", {"group": "softmax_0", "recipe": ADVICE}), conflict)
    answers = {r["id"]: r["value"] for r in replies if r["event"] == "result"}
    assert not answers[2]["complete"] and not answers[2]["entries"]
    assert answers[4]["complete"] and answers[4]["repairs"]


def test_check_and_compile_answer_their_documents() -> None:
    check = from_json(Check, last(OPEN, ("check", {"group": "softmax_0", "recipe": None}))["value"])
    assert check.status == "pass" and check.levels["source"] == "pass"
    assert check.levels["ptx"] == ("pass" if nvrtc_version() else "not run")
    compiled = last(OPEN, ("compile", {"group": "softmax_0", "recipe": None}))["value"]
    assert compiled["group"] == "softmax_0"
    assert [c["architecture"] for c in compiled["compiled"]] == ["sm_80", "sm_90a"]


@pytest.mark.parametrize(
    ("verb", "more", "kind"),
    [
        ("moves", {}, MovesDoc),
        ("decisions", {}, DecisionsDoc),
        ("space", {"axes": ["i", "j"]}, SpaceDoc),
        ("space", {"order": ["j", "i"]}, SpaceDoc),
        ("order", {"order": ["j", "i"], "tiles": {"i": 4}}, OrderDoc),
        ("addresses", {}, WarpDoc),
    ],
)
def test_what_could_be_otherwise_is_answered_as_its_document(verb: str, more: dict[str, Any], kind: type) -> None:
    for recipe in (None, ADVICE):
        answer = last(OPEN, (verb, {"group": "softmax_0", "recipe": recipe, **more}))
        assert answer["event"] == "result"
        document = from_json(kind, answer["value"])
        assert verb == "order" or document.group == "softmax_0"
        assert recipe is None or "mark block 4" in document.recipe


def test_moves_give_way_to_a_request_that_waits_and_go_on_when_asked_again() -> None:
    moves = ("moves", {"group": "softmax_0", "recipe": None})
    replies = ask(OPEN, moves, ("kernel", {"group": "softmax_0", "recipe": None}), moves)
    answers = {r["id"]: r["value"] for r in replies if r["event"] == "result"}
    assert [r["id"] for r in replies] == sorted(r["id"] for r in replies)
    assert not answers[2]["complete"]
    assert answers[4]["complete"], "the end of the requests is no request"


@pytest.mark.parametrize("recipe", [BACKWARDS, CLASH])
def test_a_refused_recipe_can_still_be_drawn(recipe: str) -> None:
    answer = last(OPEN, ("space", {"group": "softmax_0", "recipe": recipe}))
    space = from_json(SpaceDoc, answer["value"])
    assert space.requested and space.repairs
    assert last(OPEN, ("moves", {"group": "softmax_0", "recipe": recipe}))["event"] == "error"


@pytest.mark.parametrize(
    ("verb", "arguments", "word"),
    [
        ("open", {"path": 7}, "path"),
        ("open", {"path": SOFTMAX, "target": 7}, "target"),
        ("open", {"path": SOFTMAX, "dimensions": {"batch": "8"}}, "dimensions"),
        ("open", {"path": SOFTMAX, "dimensions": [8]}, "dimensions"),
        ("kernel", {"group": ["softmax_0"]}, "group"),
        ("kernel", {"group": "softmax_0", "recipe": 7}, "recipe"),
        ("diff", {"group": "softmax_0", "a": "", "b": {}}, "b"),
        ("space", {"group": "softmax_0", "axes": "i"}, "axes"),
        ("space", {"group": "softmax_0", "axes": [1]}, "axes"),
        ("order", {"group": "softmax_0", "tiles": {"i": True}}, "tiles"),
        ("kernel", "softmax_0", "arguments"),
        (7, {}, "verb 7"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(verb: Any, arguments: Any, word: str) -> None:
    answer = last(OPEN, (verb, arguments))
    assert answer["event"] == "error"
    assert word in answer["value"]["subject"]


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ([("kernel", {"group": "softmax_0"})], "open"),
        ([("weave", {})], "weave"),
        ([("open", {})], "path"),
        ([("open", {"path": "absent.onnx"})], "absent.onnx"),
        ([OPEN, ("kernel", {"group": "softmax_7"})], "softmax_7"),
        ([OPEN, ("space", {"group": "softmax_0", "axes": ["z"]})], "z"),
        ([OPEN, ("order", {"group": "softmax_0", "order": ["z"]})], "z"),
        ([OPEN, ("kernel", {"group": "softmax_0", "recipe": "advice user\n  all @ i\n"})], "line 2"),
        ([OPEN, ("kernel", {"group": "softmax_0", "recipe": "advice user\n  S9 @ i: parallel true\n"})], "S9"),
    ],
)
def test_what_cannot_be_answered_is_a_problem_in_words(requests: list[tuple[str, dict[str, Any]]], words: str) -> None:
    answer = last(*requests)
    assert answer["event"] == "error"
    problem = from_json(ProblemDoc, answer["value"])
    assert words in f"{problem.subject}: {problem.reason} {problem.hint}"


def test_a_bad_request_line_is_no_answer_and_no_end() -> None:
    replies = io.StringIO()
    serve(["not json", "[]", '{"verb": "machine"}', '{"id": 4, "verb": "machine"}'], replies)
    (only,) = map(json.loads, replies.getvalue().splitlines())
    assert (only["id"], only["event"]) == (4, "result")


def test_measuring_without_a_gpu_names_the_stage() -> None:
    if gpu_name() is not None:
        pytest.skip("this machine has a GPU; tests/gpu measures with it")
    answer = last(OPEN, ("measure", {"group": "softmax_0", "recipe": None}))
    assert (answer["event"], answer["value"]["stage"]) == ("error", "measure")


@pytest.mark.slow(sentinel=True)
def test_the_process_speaks_json_lines_only() -> None:
    request = json.dumps({"id": 1, "verb": OPEN[0], "arguments": OPEN[1]})
    done = subprocess.run(
        [sys.executable, "-m", "engine.service"], input=request + "\n", cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=True,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1] * 4


def test_an_unexpected_error_is_an_answer_with_a_report_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("engine.service.machine", broken)
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    asked = [{"id": 1, "verb": "machine"}, {"id": 2, "verb": "dimensions", "arguments": {"path": SOFTMAX}}]
    replies = io.StringIO()
    serve((json.dumps(one) + "\n" for one in asked), replies)
    failed, answered = (json.loads(line) for line in replies.getvalue().splitlines())
    (report,) = (tmp_path / "faults").iterdir()
    assert failed["event"] == "error" and str(report) in failed["value"]["hint"]
    assert "in broken" in report.read_text() and "request machine" in report.read_text()
    assert answered["id"] == 2 and answered["event"] == "result"
