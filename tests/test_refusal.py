"""A required entry that the order allows holds in the kernel, or there is no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.scheduling.conflict import repair_advice
from engine.scheduling.nodes import HONOURED, INFEASIBLE, RELAXED, REPLACE
from engine.scheduling.text import from_text
from engine.scheduling.untaken_entries import NotTaken
from engine.support.errors import Illegal

MODELS = Path(__file__).parent.parent / "resources" / "models"


def compiled(text: str) -> engine.Kernel:
    group = engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).group("softmax_0")
    return engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("all @ j: mark thread 4096", "threads of a reduction"),
        ("all @ i: mark scope shuffle", "find what they use again in registers"),
        ("S1 @ i: mark stages 4", "nothing to copy ahead"),
        ("S0 @ innermost: mark lane 4096", "lane 1024: this kernel takes a power of two up to 1024"),
    ],
)
def test_a_required_entry_that_no_kernel_takes_is_refused_and_a_soft_one_is_relaxed(entry: str, reason: str) -> None:
    soft = compiled(f"advice user\n  {entry}\n")
    assert [v.outcome for v in soft.verdicts if v.placed.author == "user"] == [RELAXED]
    with pytest.raises(NotTaken, match=reason) as caught:
        compiled(f"advice user\n  required {entry}\n")
    assert [v.outcome for v in caught.value.verdicts if v.placed.author == "user"] == [INFEASIBLE]
    assert [p.author for p in caught.value.conflicting] == ["user"]


def test_every_repair_of_a_refusal_compiles_or_names_what_is_left() -> None:
    text = "advice user\n  required S0 @ innermost: mark lane 4096\n"
    with pytest.raises(NotTaken) as caught:
        compiled(text)
    assert caught.value.repairs[0].kind == REPLACE
    assert str(caught.value.repairs[0].entry) == "required S0 @ innermost: mark lane 1024"
    group = engine.fuse(engine.load(MODELS / "softmax_96x512.onnx")).group("softmax_0")
    with pytest.raises(NotTaken) as alone:
        engine.compile(group, engine.Recipe("h200").with_group(group.name, from_text(text)))
    for repair in alone.value.repairs:
        assert not repair.leaves
        engine.compile(group, engine.Recipe("h200").with_group(group.name, repair_advice(from_text(text), repair)))

    with pytest.raises(NotTaken) as both:
        compiled(text + "  required S1 @ i: mark stages 4\n")
    left = [[str(placed.entry) for placed in repair.leaves] for repair in both.value.repairs]
    assert all(leaves == ["required S1 @ i: mark stages 4"] for leaves in left)


def test_what_is_required_goes_before_the_wishes_of_earlier_authors() -> None:
    text = "advice {}\n  {}S0 @ innermost: mark vector 2\nadvice {}\n  {}S0 @ innermost: mark vector 1\n"
    for first, second, width in (("", "required ", 1), ("required ", "", 2), ("", "", 2)):
        kernel = compiled(text.format("user", first, "tune", second))
        taken = [v.placed.entry.value for v in kernel.verdicts if v.outcome == HONOURED]
        assert ("vector", width) in taken and ("vector", 3 - width) not in taken
    with pytest.raises(Illegal):
        compiled(text.format("user", "required ", "tune", "required "))


@pytest.mark.parametrize("entry", ["S0 @ i: mark warp 2", "all @ outermost: mark warp 8"])
def test_a_mark_that_the_kernel_is_said_to_have_no_use_for_changes_nothing(entry: str) -> None:
    """`warp` asks for threads that share a walked loop; on a loop that is shared out it must not turn the kernel."""
    kernel = compiled(f"advice user\n  {entry}\n")
    assert [v.outcome for v in kernel.verdicts if v.placed.author == "user"] == [RELAXED]
    assert kernel.source.text == compiled("advice user\n").source.text
    turned = compiled("advice user\n  S0 @ innermost: mark warp 4\n")
    assert turned.source.block[0] == 4 * 32 and turned.source.text != kernel.source.text


@pytest.mark.parametrize("depth", [1, 2])
def test_a_contraction_takes_tiles_of_a_single_depth(depth: int) -> None:
    """Fragments of one element are filled like wider ones."""
    (group,) = engine.fuse(engine.load(MODELS / "matmul_bias_gelu_128x256x512.onnx")).groups
    text = f"advice user\n  required S0 @ k: mark tile {depth}\n"
    check = engine.check(engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, text)))
    assert check.status == "pass", check.message
