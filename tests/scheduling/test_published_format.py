"""The published format itself: rows as digits, what is refused and how, entries written as rows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.published.digits import digits_of
from engine.scheduling.published.export import export
from engine.scheduling.published.parse import parse
from engine.scheduling.published.translate import translate
from tests.scheduling.published_files import adding, file_for

SHAPE = (6, 8, 16)
FLAT = ["[1, ?1] (/64)", "[1, ?1] (%64, /4)", "[1, ?1] (%4)"]
WHOLE: dict[str, list[int]] = {"blocks": [0], "threads": [1], "swizzle": [2]}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionGroup:
    return adding(tmp_path_factory.mktemp("add"), SHAPE)


@pytest.fixture(scope="module")
def rows_and_bias(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionGroup:
    return adding(tmp_path_factory.mktemp("bias"), SHAPE, bias=True)


def kernel_of(group: engine.FusionGroup, advice: tuple[Advice, ...]) -> engine.Kernel:
    return engine.compile(group, engine.default_recipe(group).with_group(group.name, advice))


def user(*entries: Entry) -> tuple[Advice, ...]:
    return (Advice("user", Scenario(entries, label="made")),)


def plain(advice: tuple[Advice, ...]) -> list[str]:
    return [str(e) for one in advice for e in one.scenario.entries]


def applied(value: int, operations: tuple[tuple[str, int], ...]) -> int:
    for sign, number in operations:
        value = value // number if sign == "/" else value % number
    return value


def test_random_rows_are_accepted_only_when_they_count_every_point_once() -> None:
    """500 sets of rows over a 2-D domain; the reference enumerates all points."""
    source, accepted = random.Random(7), 0
    for _ in range(500):
        shape = (source.choice([2, 6, 7]), source.choice([4, 12, 16]))
        rows = []
        for axis in (0, 1):
            unit = "[1, 0, ?]" if axis == 0 else "[0, 1, ?]"
            cut = source.choice([2, 3, 4, 8])
            rows += source.choice(
                [[unit], [f"{unit} (/{cut})", f"{unit} (%{cut})"], [f"{unit} (/{cut})", f"{unit} (%{cut + 1})"],
                 [f"{unit} (/{2 * cut})", f"{unit} (%{2 * cut}, /{cut})", f"{unit} (%{cut})"],
                 [f"{unit} (/{cut}, %2)", f"{unit} (%{cut})", f"{unit} (/{2 * cut})"]]
            )  # fmt: skip
        published = parse(json.dumps(file_for(shape, rows)), "made")
        operations = [(0 if row.coefficients[0] == 1 else 1, row.operations) for row in published.wishes[0].rows]
        points = list(itertools.product(*map(range, shape)))
        counted = [tuple(applied(p[axis], ops) for axis, ops in operations) for p in points]
        try:
            digits = digits_of(published)
        except engine.EngineError:
            continue
        accepted += 1
        assert len(set(counted)) == len(points), rows
        assert counted == [tuple(p[d.axis] // d.low % d.size for d in digits) for p in points], rows
    assert 150 < accepted < 450


@pytest.mark.parametrize(
    "rows",
    [
        ["[?, ?, ?]", "[0, 1, ?2] (/4)", "[0, 1, ?2] (%4)"],
        ["[?, ?, ?]", "[?, ?, ?] (/4)", "[?, ?, ?] (%4)"],
        ["[1, ?2, ?2]", "[0, ?1, ?3] (/4)", "[0, ?1, ?3] (%4)"],
        ["[ 1 , 0,? ]", "[0, 1, 0](/4)", " [0, 1, ?12] ( %8 , %4 ) "],
    ],
    ids=["one row open", "all open", "linked", "spaces"],
)
def test_open_and_linked_coefficients_take_the_axes_that_are_left(rows: list[str]) -> None:
    fixed = digits_of(parse(json.dumps(file_for((8, 16), ["[1, 0, 0]", "[0, 1, 0] (/4)", "[0, 1, 0] (%4)"])), "made"))
    assert digits_of(parse(json.dumps(file_for((8, 16), rows)), "made")) == fixed


@pytest.mark.parametrize(
    ("gpu", "launch"),
    [
        ({"blocks": [0], "threads": [1], "swizzle": [2]}, (4, 48)),
        ({"blocks": [], "threads": [0, 1], "swizzle": [2]}, (1, 192)),
    ],
)
def test_a_vector_whose_axis_goes_on_outside_the_threads_is_a_strip(
    rows_and_bias: engine.FusionGroup, gpu: dict[str, list[int]], launch: tuple[int, int]
) -> None:
    """How AKG's generator writes partial vectors: "/4" outwards, "%4" innermost, other loops between."""
    rows = ["[0, 1, ?1] (/4)", "[1, 0, ?]", "[0, 1, ?1] (%4)"]
    made = translate(parse(json.dumps(file_for((48, 16), rows, **gpu)), "made"), rows_and_bias)
    assert [line for line in plain(made) if "block" not in line and "thread" not in line] == [
        "S0 @ depth 0: terms ((i, 0), (j, 0), (k, 1))", "S0 @ depth 1: terms ((i, 1), (j, 0), (k, 0))",
        "S0 @ depth 2: terms ((i, 0), (j, 1), (k, 0))", "all @ k: split 4", "all @ k: mark vector 4",
    ]  # fmt: skip
    kernel = kernel_of(rows_and_bias, made)
    assert {v.outcome for v in kernel.verdicts} == {"honoured"}
    assert (kernel.source.grid[0], kernel.source.block[0]) == launch
    assert "x.load<4>(" in kernel.source.text
    assert engine.check(kernel).status == "pass"
    again = translate(parse(export(made, rows_and_bias), "copy"), rows_and_bias)
    assert plain(again) == plain(made)


def test_a_split_without_its_vector_is_not_written(rows_and_bias: engine.FusionGroup) -> None:
    for wishes in (
        [entry(split=4, at="k")],
        [entry(split=4, at="i"), entry(mark=("vector", 2), at="i")],
        [entry(split=4, at="k"), entry(mark=("vector", 4), at="k")],
    ):
        with pytest.raises(engine.Unsupported, match="splits what a vector moves"):
            export(user(*wishes), rows_and_bias)


@pytest.mark.parametrize(
    ("rows", "gpu", "launch"),
    [
        (FLAT, WHOLE, (12, 16)),
        (["[1, ?] (/64)", "[1, ?] (%64)"], {"blocks": [0], "threads": [1]}, (12, 64)),
        (["[1, ?] (/96)", "[1, ?] (%96, /24)", "[1, ?] (%24, /4)", "[1, ?] (%4)"],
         {"blocks": [0], "threads": [2], "swizzle": [3]}, (8, 6)),
        (["[1, ?] (/1000)", "[1, ?] (%1000, /4)", "[1, ?] (%4)"], WHOLE, (1, 192)),
    ],
    ids=["whole", "no vector", "loop in a thread", "one block"],
)  # fmt: skip
def test_rows_become_the_launch_they_describe(
    group: engine.FusionGroup, rows: list[str], gpu: dict[str, list[int]], launch: tuple[int, int]
) -> None:
    kernel = kernel_of(group, translate(parse(json.dumps(file_for((768,), rows, **gpu)), "made"), group))
    assert [v.outcome for v in kernel.verdicts] == ["honoured"] * (len(SHAPE) + len(gpu))
    assert (kernel.source.grid[0], kernel.source.block[0]) == launch
    assert engine.check(kernel).status == "pass"


def test_what_no_kernel_can_take_is_relaxed_and_not_claimed(group: engine.FusionGroup) -> None:
    rows = ["[1, ?] (/8)", "[1, ?] (%8)"]
    kernel = kernel_of(group, translate(parse(json.dumps(file_for((768,), rows, swizzle=[1])), "made"), group))
    marks = [v for v in kernel.verdicts if v.placed.entry.field == "mark"]
    assert [(v.outcome, "vector 4" in v.because) for v in marks] == [("relaxed", True)]


@pytest.mark.parametrize(
    ("block", "thread", "vector", "outcomes"),
    [
        (entry(mark=("block", 1), at="i"), 32, 4, ["honoured"] * 3),
        (entry(mark=("block", 3), at="j"), 1024, 4, ["honoured"] * 3),
        (entry(mark=("block", 100), at="k"), 7, 1, ["honoured"] * 3),
        (entry(mark=("block", 5), at="k"), 32, 4, ["relaxed", "honoured", "honoured"]),
        (entry(mark=("block", 2000), at="k"), 32, 4, ["relaxed", "honoured", "honoured"]),
        (entry(mark=("block", 1), at="i"), 2000, 8, ["honoured", "relaxed", "relaxed"]),
    ],
    ids=str,
)
def test_an_elementwise_block_has_the_elements_its_mark_says(
    group: engine.FusionGroup, block: Entry, thread: int, vector: int, outcomes: list[str]
) -> None:
    marks = (block, entry(mark=("thread", thread), at="innermost"), entry(mark=("vector", vector), at="innermost"))
    kernel = kernel_of(group, user(*marks))
    assert [v.outcome for v in kernel.verdicts] == outcomes
    if outcomes[0] == "honoured":
        inside = {"i": 128, "j": 16, "k": 1}[block.dimension]
        assert isinstance(block.value, tuple) and isinstance(block.value[1], int)
        assert kernel.source.grid[0] == -(-768 // (block.value[1] * inside))
    assert engine.check(kernel).status == "pass"


Change = Callable[[dict[str, Any]], Any]


def at_rows(*rows: object) -> Change:
    return lambda data: data["soft constraints"][0].update(coefficients=list(rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("domain"), "neither pattern nor domain"),
        (lambda d: d.pop("soft constraints"), "no soft constraints"),
        (lambda d: d.update(colour=1), "colour is unknown"),
        (lambda d: d["gpu"].update(automap=1), "gpu.automap is unknown"),
        (lambda d: d.update(name=7), "name is 7, not text"),
        (lambda d: d.update(name="a\nb"), "not one line"),
        (lambda d: d.update(domain=[1]), "domain is a list"),
        (lambda d: d.update(domain="{ S_0[x] : x >= 0 }"), "condition 'x >= 0'"),
        (lambda d: d.update(domain="{ S_0[x] }"), "does not bound x"),
        (lambda d: d.update(domain="{ S_0[x] : 0 <= x <= 99999999999999999999 }"), "condition"),
        (lambda d: d.update(domain="{ S_0[x] : 0 <= x <= 9999999999 }"), "10000000000 values"),
        (lambda d: d.update(domain="{" * 200_000), "200000 characters"),
        (lambda d: d.update(pattern="{ domain: " * 200), "nested deeper"),
        (lambda d: d.update(pattern='{ domain: "{ S_0[x] : 0 <= x <= 7 }" }'), "its domain is S_0"),
        (lambda d: d.update(pattern='{ child: { schedule: "[{}]" } }'), "no domain"),
        (lambda d: d.update(gpu=[]), "gpu is a list, not an object"),
        (lambda d: d["gpu"].update(blocks="0"), "gpu.blocks is '0', not a list"),
        (lambda d: d["gpu"].update(blocks=[0.5]), "gpu.blocks is 0.5"),
        (lambda d: d["gpu"].update(blocks=[True]), "gpu.blocks is True"),
        (lambda d: d["gpu"].update(blocks=[7]), "maps dimension 7, its statements have 0 to 2"),
        (lambda d: d["gpu"].update(blocks=[-1]), "maps dimension -1"),
        (lambda d: d["gpu"].update(threads=[1, 1]), "maps dimension 1 twice"),
        (lambda d: d["gpu"].update(swizzle=[1]), "dimension 1 is mapped to the threads"),
        (lambda d: d["gpu"].update({"compiler flags": ["rm -rf"]}), "is no compiler flag"),
        (lambda d: d.update({"check schedule": "yes"}), "not true or false"),
        (lambda d: d["soft constraints"].append(d["soft constraints"][0]), "S_0 twice"),
        (lambda d: d["soft constraints"][0].update(statement="S_9"), "speak of S_9, its pattern is for S_0"),
        (lambda d: d["soft constraints"][0].update(meta=[1]), "not [iterators, parameters]"),
        (lambda d: d["soft constraints"][0].update(meta=[10**400, 0]), "not a whole number"),
        (lambda d: d["soft constraints"][0].update(meta=[1, 1]), "declares 1 parameter"),
        (at_rows(*FLAT * 4_000), "12000 elements"),
        (at_rows("[" + "1, " * 10_000 + "1]"), "is no row"),
        (at_rows(*[7] * 3), "is 7, not text"),
        (at_rows("[1, 0, ?]", "[1, ?]", "[1, ?]"), "3 coefficients, but 1 iterator and a constant need 2"),
        (at_rows("[99999999999, ?]", "[1, ?]", "[1, ?]"), "is no coefficient"),
        (at_rows("[x, ?]", "[1, ?]", "[1, ?]"), "'x' is no coefficient"),
        (at_rows("[1, ?] (/0)", "[1, ?]", "[1, ?]"), "'/0' is no division"),
        (at_rows("[1, ?] (/64)", "[1, ?] (%32)", "[0, ?]"), "no coefficient of [0, ?] can be 1"),
        (at_rows("[1, ?] (/64)", "[1, ?] (%32, /4)", "[1, ?] (%4)"), "is skipped"),
        (at_rows("[1, ?] (/32)", "[1, ?] (%64, /4)", "[1, ?] (%4)"), "is counted twice"),
        (at_rows("[1, ?] (/64, %2)", "[1, ?] (%64, /4)", "[1, ?] (%4)"), "up to 128, its pattern has 768"),
    ],
)
def test_a_broken_file_is_refused_in_words(group: engine.FusionGroup, change: Change, words: str) -> None:
    data = file_for((768,), FLAT, **{key: list(value) for key, value in WHOLE.items()})
    assert translate(parse(json.dumps(data), "made"), group)
    change(data)
    with pytest.raises(engine.BadInput) as caught:
        translate(parse(json.dumps(data), "made"), group)
    assert words in str(caught.value)
    assert caught.value.subject == "advice made" and len(str(caught.value)) < 500


def test_a_file_cut_short_anywhere_is_refused() -> None:
    text = json.dumps(file_for((768,), FLAT, **WHOLE), indent=1)
    for end in range(0, len(text), 7):
        with pytest.raises(engine.BadInput, match=r"not JSON"):
            parse(text[:end], "made")


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 10_000, "[]", "null", '{"name": NaN}', "\x00"])
def test_text_that_is_no_advice_at_all_is_refused(text: str) -> None:
    with pytest.raises(engine.BadInput):
        parse(text, "made")


@pytest.mark.parametrize(
    ("shape", "rows", "gpu"),
    [
        ((768,), ["[1, 5] (/64)", "[1, ?] (%64, /4)", "[1, ?] (%4)"], WHOLE),
        ((768,), FLAT, {"blocks": [2], "threads": [0]}),
        ((48, 16), ["[1, 1, ?]", "[0, 1, ?]"], {}),
        ((48, 16), ["[1, 0, ?]", "[0, 1, ?] (/5)", "[0, 1, ?] (%5)"], {"blocks": [0, 1]}),
        ((48, 16), ["[1, 0, ?] (/5)", "[1, 0, ?] (%5)", "[0, 1, ?]"], {"blocks": [0, 1]}),
    ],
    ids=["shifted", "out of turn", "skewed", "no whole rows", "no whole blocks"],
)
def test_advice_that_counts_no_elements_in_turn_keeps_its_rows(
    group: engine.FusionGroup, shape: tuple[int, ...], rows: list[str], gpu: dict[str, list[int]]
) -> None:
    """Its rows are followed exactly; what it maps is taken as far as a kernel can."""
    kernel = kernel_of(group, translate(parse(json.dumps(file_for(shape, rows, **gpu)), "made"), group))
    terms = [v.outcome for v in kernel.verdicts if v.placed.entry.field == "terms"]
    assert terms and set(terms) == {"honoured"}
    assert engine.check(kernel).status == "pass"


def test_parts_of_different_rows_are_refused(group: engine.FusionGroup) -> None:
    rows = ["[2, ?] (/64)", "[1, ?] (%64, /4)", "[1, ?] (%4)"]
    with pytest.raises(engine.BadInput, match="contradicts itself: S_0"):
        translate(parse(json.dumps(file_for((768,), rows, **WHOLE)), "made"), group)


def test_statements_advised_differently_are_unsupported(group: engine.FusionGroup) -> None:
    data = file_for((768,), FLAT, statements=2)
    data["soft constraints"][1]["coefficients"] = [FLAT[0].replace("64", "32"), "[1, ?] (%32, /4)", FLAT[2]]
    with pytest.raises(engine.Unsupported, match="S_0 and S_1 ask for different dimensions"):
        digits_of(parse(json.dumps(data), "made"))


@pytest.mark.parametrize(
    "entries",
    [
        (entry(mark=("vector", 4), at="innermost"),),
        (entry(mark=("thread", 32), at="innermost"),),
        (entry(mark=("block", 2), at="j"), entry(mark=("thread", 1), at="innermost")),
        (entry(mark=("block", 1), at="i"), entry(mark=("thread", 8), at="innermost")),
        (entry(pin="k", at="outermost"), entry(pin="i", at="after k"), entry(mark=("block", 1), at="i")),
        (entry(mark=("block", 6), at="j"), entry(mark=("thread", 6), at="innermost"),
         entry(mark=("vector", 4), at="innermost")),
    ],
    ids=str,
)  # fmt: skip
def test_entries_come_back_from_the_file_they_are_written_to(
    group: engine.FusionGroup, entries: tuple[Entry, ...]
) -> None:
    advice = user(*entries)
    again = translate(parse(export(advice, group), "copy"), group)
    marks = [line for line in plain(advice) if "pin" not in line]
    assert [line for line in plain(again) if "terms" not in line] == marks
    assert any("terms" in line for line in plain(again)) == any("pin" in line for line in plain(advice))
    assert again[0].scenario.label == "made"
    assert translate(parse(export(again, group), "copy"), group) == again, "reasons included, the second time"
    assert launch_of(group, again) == launch_of(group, advice)


def launch_of(group: engine.FusionGroup, advice: tuple[Advice, ...]) -> tuple[int, int]:
    kernel = kernel_of(group, advice)
    return kernel.source.grid[0], kernel.source.block[0]


def test_axes_that_a_broadcast_tells_apart_stay_apart(tmp_path: Path) -> None:
    advice = user(entry(mark=("vector", 4), at="innermost"))
    patterns = [json.loads(export(advice, adding(tmp_path, SHAPE, bias)))["pattern"] for bias in (False, True)]
    assert ["0 <= ax0 <= 767" in p for p in patterns] == [True, False]
    assert "0 <= ax0 <= 47 and 0 <= ax1 <= 15" in patterns[1]


@pytest.mark.parametrize(
    ("advice", "words"),
    [
        (user(entry("S0", split=4, at="j")), "split 4"),
        (user(entry(mark=("tile", 32), at="innermost")), "mark tile 32"),
        (user(entry(parallel=True, at="i", required=True)), "required"),
        (user(entry(pin=("i", "j"), at="outermost")), "pin i, j"),
        (user(entry(pin="k", at="innermost")), "innermost"),
        (user(entry(mark=("thread", 32), at="i")), "along k"),
        (user(entry(mark=("thread", 32), at="k"), entry(mark=("thread", 64), at="k")), "says otherwise"),
        (user(entry(mark=("block", 3), at="k"), entry(mark=("thread", 2), at="k")), "whole number of passes"),
        ((Advice("user", Scenario((), (Scenario(), Scenario()))),), "alternatives"),
    ],
)
def test_what_the_format_cannot_say_is_refused_by_name(
    group: engine.FusionGroup, advice: tuple[Advice, ...], words: str
) -> None:
    with pytest.raises(engine.Unsupported) as caught:
        export(advice, group)
    assert words in str(caught.value)


def test_an_entry_that_is_switched_off_is_not_written(group: engine.FusionGroup) -> None:
    off = entry("S0", split=4, at="j", enabled=False)
    on = entry(mark=("vector", 4), at="innermost")
    assert export(user(off, on), group) == export(user(on), group)
