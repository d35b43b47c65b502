"""What a notebook shows of the library's values, escaped HTML with their figures, and what `print` says of them."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol

import pytest

import engine
from engine.support.html import MOST_ROWS, html_table
from engine.support.text_table import TitledTable

MODELS = Path(__file__).parents[1] / "resources/models"


class Shown(Protocol):
    def _repr_html_(self) -> str: ...


class Balance(HTMLParser):
    """Notes tags and text; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


@pytest.fixture(scope="module")
def plan() -> engine.FusionPlan:
    return engine.fuse(engine.load(MODELS / "bert_tiny.onnx"))


def test_values_are_shown(plan: engine.FusionPlan) -> None:
    assert plan.source is not None
    group = plan.group("layernorm_0")
    kernel = engine.compile(group)
    on_cpu = engine.compile(group, engine.default_recipe(group, "cpu"))
    assert isinstance(on_cpu, engine.CpuKernel)
    run = engine.tune(group, trials=2, strategy="model", check=False)
    assert run.best
    shown: list[tuple[Shown, tuple[str, ...]]] = [
        (plan.source, ("bert_tiny", "LayerNormalization", "float32[1, 32, 64]")),
        (plan, ("attention_0", "launches", plan.groups[0].because)),
        (kernel, ("stitched kernel", "honoured", "domain", "__global__")),
        (on_cpu, ("general kernel, for cpu", "domain", "extern \"C\"")),
        (engine.schedule(group), ("Legal schedule", "honoured")),
        (run, ("layernorm_0", "predicted", "run 1 in")), (run.report(), ("layernorm_0",)),
    ]  # fmt: skip
    for value, words in shown:
        found = Balance(value._repr_html_())
        for word in words:
            assert word in found.words, (type(value), word, found.words[:500])


def test_names_from_files_are_no_markup(plan: engine.FusionPlan) -> None:
    assert plan.source is not None
    evil = "<script>alert(1)</script>&"
    found = Balance(replace(plan.source, name=evil)._repr_html_())
    assert evil in found.words and "script" not in found.seen


def test_long_tables_are_cut() -> None:
    found = Balance(html_table("many", ("a", "b>"), ((n, n) for n in range(1000)), 1000))
    assert found.seen.count("tr") == MOST_ROWS + 1 and "and 940 more" in found.words
    lines = str(TitledTable("many", ("a", "b>"), ((n, n) for n in range(1000)), 1000)).splitlines()
    assert len(lines) == MOST_ROWS + 3 and (lines[0], lines[-1]) == ("many", "and 940 more")


def test_what_is_printed_of_a_value_is_for_people(plan: engine.FusionPlan) -> None:
    """It was the fields of all that they hold, 68 kB of this plan, with machine code as bytes."""
    assert plan.source is not None
    group = plan.group("attention_0")
    kernel = engine.compile(group)
    recipe = engine.default_recipe(group).advise("user", engine.entry("S0", pin="q", at="i"))
    run = engine.tune(group, trials=1, strategy="model", check=False)
    shown = {
        "bert_tiny: 80 operators, 0 unsupported": plan.source,
        "bert_tiny for h200: 12 kernels of 7 groups": plan,
        "attention_0: attention + mul + add, attention, at 2 places, for h200: scores and their softmax never ": group,
        "recipe for h200: 1 group": recipe,
        "attention_0: attention kernel, for h200": kernel,
        "Legal schedule": engine.schedule(group, recipe),
        "group        trials  before, µs (predicted)": run,
        "layernorm_0: general kernel, for cpu": engine.compile(
            plan.group("layernorm_0"), engine.default_recipe(plan.group("layernorm_0"), "cpu")
        ),
        "a: fail\n  block 0 hangs": engine.Check("a", "fail", message="block 0 hangs"),
        "a: pass, error 1.0e-07 of 3.0e-06, 64 values compared, 1 of 2 blocks": engine.Check(
            "a", "pass", 1e-7, 3e-6, blocks_run=1, blocks_total=2, elements_compared=64
        ),
        "5.25 µs measured, 5.1 to 5.5 in 3 samples": engine.Timing("measured", 5.251, (5.1, 5.251, 5.5), 5.1, 5.5),
    }
    for words, value in shown.items():
        assert str(value).startswith(words) and len(str(value)) < 10_000, str(value)[:200]
    assert "user: S0 @ i: pin q" in str(recipe) and "user       S0 @ i: pin q" in str(engine.schedule(group, recipe))
    assert "cubin" not in repr(engine.Compiled("sm_80", 32, 0, 0, b"cubin", "log"))
