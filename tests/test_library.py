"""The library as its docstring shows it, and what an engineer does with it: edit, read the verdict, undo."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine

MODELS = Path(__file__).parents[1] / "resources" / "models"


def test_the_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    graph = engine.load(MODELS / "bert_tiny.onnx", dims={})
    plan = engine.fuse(graph, target="h200")
    group = plan.group("matmul_1")
    recipe = engine.default_recipe(group, target="h200")
    recipe = recipe.advise("user", engine.entry("S7", pin="j", at="innermost", because="rows are contiguous"))
    kernel = engine.compile(group, recipe, observe=print)
    print(kernel.schedule, kernel.verdicts, kernel.source.text)
    report = engine.check(kernel)
    predicted = engine.predict(kernel)
    assert {v.outcome for v in kernel.verdicts} == {"honoured"}
    assert report.status == "pass" and report.elements_compared == 2 * 2048
    assert predicted.origin == "predicted" and predicted.microseconds > 0
    shown = capsys.readouterr().out
    for stage in ("dependences", "constraint tree", "schedule", "legality", "tile program", "cuda"):
        assert stage in shown


def test_measure_says_what_is_missing_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.execution import measure

    monkeypatch.setattr(measure, "gpu_name", lambda: None)
    kernel = engine.compile(engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).groups[0])
    try:
        timing = engine.measure(kernel)
    except engine.MissingCapability as error:
        assert error.exit_code == 3 and error.hint
    else:
        assert isinstance(timing, engine.Timing) and timing.origin == "measured"


def softmax() -> engine.FusionGroup:
    return engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).groups[0]


def test_a_required_edit_that_breaks_a_softmax_is_refused_with_two_instances() -> None:
    group = softmax()
    backwards = engine.entry(cut=(("S3",), ("S0", "S1", "S2")), at="innermost", required=True)
    with pytest.raises(engine.Illegal) as caught:
        engine.compile(group, engine.default_recipe(group).advise("user", backwards))
    assert "cut" in str(caught.value)
    assert "S3[i=0, j=0] reads it first" in str(caught.value)


def test_the_same_edit_as_a_wish_is_reported_and_the_rest_goes_on() -> None:
    group = softmax()
    backwards = engine.entry(cut=(("S3",), ("S0", "S1", "S2")), at="innermost")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", backwards))
    (verdict,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert verdict.outcome == "infeasible"
    assert verdict.witness is not None and verdict.witness.text
    assert engine.check(kernel).status == "pass"


def test_another_stage_count_changes_the_kernel_and_nothing_else() -> None:
    group = engine.fuse(engine.load(MODELS / "bert_tiny.onnx")).group("matmul_2")
    base = engine.default_recipe(group)
    kernels = {
        n: engine.compile(group, base.advise("user", engine.entry("S0", mark=("stages", n), at="k"))) for n in (1, 2, 3)
    }
    for stages, kernel in kernels.items():
        assert kernel.tile.stages == stages
        assert f"  STAGES = {stages}," in kernel.source.text
        assert "async_copy<16>" in kernel.source.text
        assert engine.check(kernel).status == "pass"
    assert kernels[3].source.shared_bytes == 3 * kernels[1].source.shared_bytes


def test_a_recipe_written_and_read_gives_the_same_text(tmp_path: Path) -> None:
    group = softmax()
    recipe = engine.default_recipe(group).advise("user", engine.entry("S0", mark=("lane", 16), at="innermost"))
    engine.write_recipe(recipe, tmp_path / "r.json")
    again = engine.read_recipe(tmp_path / "r.json")
    assert again == recipe
    assert engine.compile(group, again).source == engine.compile(group, recipe).source


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("advice user\n  S9 @ i: parallel true\n", "S9"),
        ("advice nobody\n  S0 @ i: parallel true\n", "nobody"),
        ("advice user\n  S0 @ i mark lane 32\n", "line 2"),
    ],
)
def test_text_that_cannot_be_used_is_refused_by_name(text: str, part: str) -> None:
    group = softmax()
    with pytest.raises(engine.BadInput) as caught:
        engine.replace_advice(engine.default_recipe(group), group, text)
    assert part in str(caught.value)


def test_a_cut_at_the_outermost_dimension_has_a_general_kernel_and_names_its_parts() -> None:
    group = softmax()
    apart = engine.entry(cut=(("S0",), ("S1", "S2", "S3")), at="outermost", required=True)
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", apart))
    assert kernel.family == "general" and "S0 | S1 S2 S3" in kernel.tile.misfit


def test_a_parallel_sum_that_the_kernel_still_walks_in_turn_is_called_relaxed() -> None:
    group = engine.fuse(engine.load(MODELS / "bert_tiny.onnx")).group("matmul_2")
    wish = engine.entry("S0", parallel=True, at="k")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", wish))
    (mine,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert mine.outcome == "relaxed" and "walks k in turn" in mine.because
    rows = engine.entry("S0", parallel=True, at="i")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", rows))
    (mine,) = [v for v in kernel.verdicts if v.placed.author == "user"]
    assert mine.outcome == "honoured"
