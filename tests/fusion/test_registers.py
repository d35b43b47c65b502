"""Groups that crowd the registers of a thread: vectors narrow and loops stay loops until one element has no room."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.documents.exploration import JOIN, FusionEdit
from engine.explore.fusion_attempts import Attempts
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import BadInput
from engine.target.registers import VALUE_REGISTERS
from engine.tensor.live_values import most_alive
from engine.tensor.lower import lower
from tests.fusion.test_plan import groups_of, model
from tests.semantics.single import Node
from tests.support.needs import needs_compiler, needs_nvrtc

FLOAT = "float32"


def held_to_the_end(values: int, softmax: bool = False) -> list[Node]:
    """Exponentials that are all needed for their sum t (or its softmax), and again for max(t e_0, t e_1, ...)."""
    nodes: list[Node] = [("Exp", [f"x{k}"], [f"e{k}"], {}) for k in range(values)]
    nodes += [("Add", [f"s{k - 1}" if k > 1 else "e0", f"e{k}"], [f"s{k}"], {}) for k in range(1, values)]
    nodes += [("Softmax", [f"s{values - 1}"], ["t"], {"axis": 1})] if softmax else []
    total = "t" if softmax else f"s{values - 1}"
    for k in range(values):
        nodes.append(("Mul", [total, f"e{k}"], [f"m{k}"], {}))
        if k:
            nodes.append(("Max", [f"q{k - 1}" if k > 1 else "m0", f"m{k}"], [f"q{k}"], {}))
    return nodes


def added_up(values: int) -> list[Node]:
    """Exponentials, each needed once: as data flows two are alive, in the order of the text all of them."""
    nodes: list[Node] = [("Exp", [f"x{k}"], [f"e{k}"], {}) for k in range(values)]
    return [*nodes, *(("Add", [f"s{k - 1}" if k > 1 else "e0", f"e{k}"], [f"s{k}"], {}) for k in range(1, values))]


def loaded(folder: Path, nodes: list[Node], shape: tuple[int, ...]) -> engine.OperatorGraph:
    inputs = {name: (FLOAT, shape) for _, names, _, _ in nodes for name in names if name.startswith("x")}
    return engine.load(model(folder, nodes, inputs, nodes[-1][2][0]))


def whole(graph: engine.OperatorGraph) -> Fixed:
    return Fixed(groups=(tuple(op.name for op in graph.operators),))


def spilled(kernel: engine.Kernel) -> int:
    return engine.nvrtc(kernel, "sm_90a").spill_bytes


def test_values_are_alive_from_their_maker_to_their_last_reader(tmp_path: Path) -> None:
    held = lower(loaded(tmp_path, held_to_the_end(4), (4, 8))).statements
    assert most_alive(held).values == 6, "four exponentials and two sums when the last sum is made"
    assert most_alive(held, {"e0", "e1", "e2", "e3"}).values == 4, "what is in memory takes no register"
    assert most_alive(lower(loaded(tmp_path, added_up(9), (4, 8))).statements).values == 10, "in the order of the text"


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
def test_a_group_with_room_for_one_element_is_a_kernel_without_spills(tmp_path: Path) -> None:
    graph = loaded(tmp_path, held_to_the_end(VALUE_REGISTERS - 4), (4, 8))
    plan = engine.fuse(graph, fixed=whole(graph))
    assert len(plan.launches) == 1
    kernel = engine.compile(plan.groups[0])
    assert spilled(kernel) == 0 and engine.check(kernel).status == "pass"


@pytest.mark.slow(sentinel=True)
def test_a_group_without_is_refused_with_the_operator_and_the_figures(tmp_path: Path) -> None:
    graph = loaded(tmp_path, held_to_the_end(VALUE_REGISTERS), (4, 8))
    told = r"242 values are alive at once when n\d+ is computed, by an estimate .* h200 may have 255 registers"
    with pytest.raises(BadInput, match=told):
        engine.fuse(graph, fixed=whole(graph))
    tried = Attempts(engine.fuse(graph)).attempt(FusionEdit(JOIN, whole(graph).groups[0]))
    assert not tried.legal and "242 values are alive at once" in tried.because


@pytest.mark.few(1)
@needs_nvrtc
@pytest.mark.parametrize(
    ("nodes", "shape", "kind"),
    [
        (held_to_the_end(100), (64, 96), "element-wise"),
        (held_to_the_end(48, softmax=True), (64, 4096), "row reduction"),
        (added_up(100), (64, 96), "element-wise"),
    ],
    ids=["narrower vectors", "loops that stay loops", "as data flows"],
)
def test_crowded_groups_do_not_spill(nodes: list[Node], shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    graph = loaded(tmp_path, nodes, shape)
    plan = engine.fuse(graph, fixed=whole(graph))
    assert groups_of(plan) == [{op.name for op in graph.operators}] and plan.groups[0].kind == kind
    assert spilled(engine.compile(plan.groups[0])) == 0
