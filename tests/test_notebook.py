"""What a notebook shows of the library's values: escaped HTML with their figures."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol

import pytest

import engine
from engine.support.html import MOST_ROWS, html_table

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
    run = engine.tune(group, trials=2, strategy="model", check=False)
    assert run.best
    shown: list[tuple[Shown, tuple[str, ...]]] = [
        (plan.source, ("bert_tiny", "LayerNormalization", "float32[1, 32, 64]")),
        (plan, ("attention_0", "launches", plan.groups[0].because)),
        (kernel, ("stitched kernel", "honoured", "domain", "__global__")),
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
