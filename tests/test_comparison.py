"""Two kernels side by side: what the comparison says can be rebuilt into what was compared."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.documents.exploration import DiffLine
from engine.fusion.nodes import FusionGroup
from engine.present.comparison import CONTEXT, line_diff
from engine.scheduling.text import to_text
from engine.support.errors import BadInput
from tests.support.commands import SOFTMAX, document, loomscope, refused


@pytest.fixture(scope="module")
def group() -> FusionGroup:
    return engine.fuse(engine.load(SOFTMAX)).group("softmax_0")


def kernels(group: FusionGroup, before: str, after: str) -> tuple[engine.Kernel, engine.Kernel]:
    """The default kernel, and one whose advice has `after` in place of `before`."""
    recipe = engine.default_recipe(group)
    text = to_text(recipe.groups[group.name])
    assert before in text
    return engine.compile(group), engine.compile(
        group, engine.replace_advice(recipe, group, text.replace(before, after))
    )


def rebuilt(old: str, lines: tuple[DiffLine, ...]) -> str:
    """The second text, from the first and the changed lines alone."""
    kept = {line.a for line in lines if line.mark == "-"}
    added = {line.b: line.text for line in lines if line.mark == "+"}
    rest = iter(text for number, text in enumerate(old.splitlines(), 1) if number not in kept)
    result: list[str] = []
    for text in rest:
        while len(result) + 1 in added:
            result.append(added[len(result) + 1])
        result.append(text)
    while len(result) + 1 in added:
        result.append(added[len(result) + 1])
    return "\n".join(result)


def test_changed_lines_rebuild_the_second_text() -> None:
    dice = random.Random(3)
    for _ in range(200):
        old = [dice.choice("abcde") for _ in range(dice.randrange(40))]
        new = [line for line in old if dice.random() > 0.2]
        for _ in range(dice.randrange(4)):
            new.insert(dice.randrange(len(new) + 1), dice.choice("xyz"))
        lines = line_diff("\n".join(old), "\n".join(new))
        assert rebuilt("\n".join(old), lines) == "\n".join(new)
        for line in lines:
            assert not line.a or old[line.a - 1] == line.text
            assert not line.b or new[line.b - 1] == line.text


def test_context_is_short_and_equal_texts_differ_nowhere() -> None:
    old = [str(number) for number in range(100)]
    new = [*old[:50], "new", *old[50:]]
    lines = line_diff("\n".join(old), "\n".join(new))
    assert [line.mark for line in lines] == [" "] * CONTEXT + ["+"] + [" "] * CONTEXT
    assert line_diff("a\nb", "a\nb") == ()


def test_a_comparison_says_entries_schedule_code_and_time(group: FusionGroup) -> None:
    a, b = kernels(group, "block 1", "block 2")
    found = engine.compare(a, b)
    assert [line.partition(" (because")[0] for line in found.entries] == [
        "- map: S0, S1, S2, S3 @ outermost: mark block 1",
        "+ map: S0, S1, S2, S3 @ outermost: mark block 2",
    ]
    assert [line.text.strip() for line in found.schedule if line.mark != " "] == [
        "band i = 0 … 95  parallel  [block 1]",
        "band i = 0 … 95  parallel  [block 2]",
    ]
    assert rebuilt(a.source.text, found.cuda) == b.source.text.rstrip("\n")
    time = next(figure for figure in found.figures if figure.name == "time")
    assert (time.a, time.b) == (engine.predict(a).microseconds, engine.predict(b).microseconds)
    assert time.origin == "predicted" and time.smaller_is_better
    blocks = next(figure for figure in found.figures if figure.name == "blocks")
    assert (blocks.a, blocks.b, blocks.origin) == (96, 48, "compiled")


def test_a_kernel_differs_from_itself_in_nothing(group: FusionGroup) -> None:
    kernel = engine.compile(group)
    found = engine.compare(kernel, kernel)
    assert found.entries == () and found.schedule == () and found.cuda == ()
    assert all(figure.a == figure.b for figure in found.figures)


def test_two_groups_are_not_compared(group: FusionGroup) -> None:
    kernel = engine.compile(group)
    other = replace(kernel, group=replace(group, name="softmax_1"))
    with pytest.raises(BadInput, match="softmax_1"):
        engine.compare(kernel, other)


@pytest.fixture
def recipes(tmp_path: Path, group: FusionGroup) -> tuple[str, str]:
    """A recipe of the softmax with eight rows in a block as a file, and the default one, which is predicted faster."""
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    assert loomscope("recipe", SOFTMAX, "-o", str(b)).returncode == 0
    data = json.loads(b.read_text())
    (rows,) = (e for e in data["groups"]["softmax_0"][1]["scenario"]["entries"] if e["value"] == ["block", 1])
    rows["value"] = ["block", 8]
    a.write_text(json.dumps(data))
    return str(a), str(b)


def test_recipes_are_compared_without_a_model(recipes: tuple[str, str]) -> None:
    a, b = recipes
    done = loomscope("compare", a, b)
    assert done.returncode == 0 and "mark block 1" in done.stdout
    found = document("compare", a, b)
    assert len(found["differences"]) == 2 and found["rows"] == []
    assert document("compare", a, a)["differences"] == []
    assert loomscope("compare", a, a).stdout == "no difference\n"


def test_with_a_model_kernels_and_figures_are_compared(recipes: tuple[str, str]) -> None:
    a, b = recipes
    found = document("compare", a, b, "--model", SOFTMAX)
    (row,) = found["rows"]
    assert row["group"] == "softmax_0" and row["slowdown"] < 0
    time = row["figures"][0]
    assert time["name"] == "time" and time["origin"] == "predicted" and time["b"] < time["a"]
    assert any(line["mark"] == "+" and "BLOCKS" in line["text"] for line in row["cuda"])
    shown = loomscope("compare", a, b, "--model", SOFTMAX).stdout
    assert "  BLOCKS = " in shown and "predicted" in shown


def test_a_slowdown_past_the_limit_is_exit_code_1(recipes: tuple[str, str]) -> None:
    a, b = recipes
    assert loomscope("compare", a, b, "--model", SOFTMAX, "--max-slowdown", "0").returncode == 0
    assert loomscope("compare", b, a, "--model", SOFTMAX, "--max-slowdown", "50").returncode == 0
    done = loomscope("compare", b, a, "--model", SOFTMAX, "--max-slowdown", "1")
    assert done.returncode == 1 and "softmax_0" in done.stderr


def test_what_cannot_be_compared_is_said(recipes: tuple[str, str], tmp_path: Path) -> None:
    a, b = recipes
    broken = tmp_path / "broken.json"
    broken.write_text(Path(a).read_text()[:200])
    assert "broken.json" in refused("compare", a, str(broken))
    assert "bert_tiny" in refused("compare", a, str(Path(SOFTMAX).with_name("bert_tiny.onnx")))
    assert "--model" in refused("compare", a, b, "--max-slowdown", "5")
    assert "softmax_7" in refused("compare", a, b, "--model", SOFTMAX, "--group", "softmax_7")
    assert "matmul_9" in refused("compare", a, b, "--group", "matmul_9")
