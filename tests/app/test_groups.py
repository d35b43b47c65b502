"""Which groups of two plans are the same, who is heir to a group that is gone, and what is fixed as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.session.fusion_constraints import (
    FREE,
    FUSION,
    DormantHistory,
    fixed_arguments,
    fixed_of,
    fixed_text,
    heir,
    rename_histories,
    same_groups,
)
from app.session.history import History
from engine.documents.model import GroupDoc, ModelDoc, NodeDoc
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import BadInput

NORM, PRODUCT, SUM = ("S0: y = norm x",), ("S0: y = a b",), ("S0: y = a + b",)


def plan(*groups: tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]) -> ModelDoc:
    """A model of groups, each a name, its statements and the operators of its launches."""
    nodes = tuple(
        NodeDoc(f"{name}#{place}", name, place, name, "", operators, "")
        for name, _, launches in groups
        for place, operators in enumerate(launches)
    )
    docs = tuple(
        GroupDoc(name, name, "", "", "", len(launches), statements, "", (), 0, 0, "", 0.0, None, 0.0)
        for name, statements, launches in groups
    )
    return ModelDoc("m", "m.onnx", "h200", (), nodes, (), docs, (), None, ())


BEFORE = plan(("norm_0", NORM, (("n0", "n1"),)), ("sum_0", SUM, (("n2",), ("n4",))), ("matmul_0", PRODUCT, (("n3",),)))
AFTER = plan(("sum_0", SUM, (("n1",), ("n9",))), ("sum_1", SUM, (("n4",),)), ("matmul_0", PRODUCT, (("n2", "n3"),)))
"""The norm is gone; the sums of n2 and n4 became n4 alone, under another name; n2 went to the product."""


def test_groups_are_the_same_by_what_they_compute_and_where() -> None:
    assert same_groups(BEFORE, BEFORE) == {"norm_0": "norm_0", "sum_0": "sum_0", "matmul_0": "matmul_0"}
    assert same_groups(BEFORE, AFTER) == {"sum_0": "sum_1"}, "neither an equal name nor equal statements are enough"


def test_the_heir_has_most_of_the_group() -> None:
    assert heir("sum_0", BEFORE, AFTER) == "sum_1"
    assert heir("norm_0", BEFORE, AFTER) == "sum_0" and heir("matmul_0", BEFORE, AFTER) == "matmul_0"
    assert heir("norm_0", BEFORE, plan(("sum_0", SUM, (("n9",),)))) == "" and heir("", BEFORE, AFTER) == ""


def test_histories_follow_their_groups_sleep_and_wake() -> None:
    histories = {name: History.start(f"advice of {name}", "first") for name in ("norm_0", "sum_0", FUSION)}
    histories["norm_0"].note(0, "a remark")
    kept, asleep = rename_histories(histories, [], BEFORE, AFTER)
    assert kept == {"sum_1": histories["sum_0"], FUSION: histories[FUSION]}
    assert asleep == [DormantHistory(("n0", "n1"), NORM, histories["norm_0"].trail())]
    back, none = rename_histories(kept, asleep, AFTER, BEFORE)
    assert {name: history.text for name, history in back.items()} == {n: h.text for n, h in histories.items()}
    assert none == []


def test_what_opening_again_would_give_does_not_sleep() -> None:
    assert rename_histories({"norm_0": History.start("", "first")}, [], BEFORE, AFTER) == ({}, [])


def test_a_history_of_a_stranger_stays() -> None:
    histories = {"gone_7": History.start("", "first")}
    assert rename_histories(histories, [], BEFORE, AFTER) == (histories, [])


def test_what_is_fixed_survives_as_text() -> None:
    fixed = Fixed((("a", "b"), ("ü",)), (("a", "c"),))
    assert fixed_of(fixed_text(fixed.groups, fixed.apart)) == fixed
    assert fixed_text((), ()) == FREE and fixed_arguments(FREE) == {}
    assert fixed_arguments(fixed_text(fixed.groups, ())) == {"groups": [["a", "b"], ["ü"]], "apart": []}
    with pytest.raises(BadInput, match="takes pairs"):
        fixed_of('{"apart": "[[\\"a\\"]]"}')


def test_equal_launches_of_other_statements_are_other_groups() -> None:
    changed = replace(BEFORE, groups=tuple(replace(group, statements=PRODUCT) for group in BEFORE.groups))
    assert same_groups(BEFORE, changed) == {"matmul_0": "matmul_0"}
