"""Published fused operators with buffers that are written in part or in place: right, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine

SHARED = Path(__file__).parents[2] / ".." / "shared" / "akg"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the published operators are not beside this checkout")


def found(prefix: str) -> Path:
    (path,) = SHARED.glob(f"{prefix}*.json")
    return path


@pytest.mark.parametrize("prefix", ["passthrough__concat", "bert_ner__", "resnet101__Fused_ReduceSum_Inplace"])
def test_every_kernel_and_the_whole_are_right(prefix: str) -> None:
    graph = engine.load(found(prefix))
    plan = engine.fuse(graph)
    for group in plan.groups:
        report = engine.check(engine.compile(group))
        assert report.status == "pass", report.message
    assert engine.check_model(graph, plan).status == "pass"


@pytest.mark.slow(sentinel=True)
def test_a_read_behind_an_update_sees_the_new_value_in_the_whole_run() -> None:
    graph = engine.load(found("stitch_adapt__"))
    checks = engine.check_model(graph, engine.fuse(graph)).checks
    assert {check.group: check.status for check in checks} == dict.fromkeys(
        ("clear_op", "input_32", "input_25", "input_17"), "pass"
    )


def test_complex_numbers_are_refused_by_tensor() -> None:
    with pytest.raises(engine.Unsupported, match=r"complex__complex_add.*input_0.*complex64"):
        engine.load(found("complex__"))
