"""What the arrays of a group hold before and after its kernel runs, by the reference implementation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import numpy as np

from engine.execution.reference import input_values, reference_values
from engine.fusion.nodes import FusionGroup
from engine.fusion.operator_folding import Folded
from engine.fusion.plan import fold_program
from engine.fusion.split_reductions import in_parts
from engine.graph.nodes import DTYPES, OperatorGraph
from engine.support.budgets import MAX_REFERENCE_BYTES
from engine.support.errors import BadInput, Unsupported
from engine.tensor.evaluate import temporaries
from engine.tensor.lower import lower_supported
from engine.tensor.nodes import TensorProgram
from engine.tensor.terms import HALVES

KEPT_BYTES = 2**30
"""Of a graph's tensors, up to which the reference keeps all of them: other plans of the same graph need others."""


def group_values(group: FusionGroup, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(expected, before) values of the arrays of a group's first instance, from the reference, in the group's shapes.

    Who reads a buffer that the graph updates reads its old contents: these are in `before`.  Raises BadInput for a
    group that comes from no graph, Unsupported where its values do not fit into memory.
    """
    if group.graph is None:
        raise BadInput("check", group.name, "does not come from a graph", "take the group from a fusion plan")
    arrays = group.instances[0].arrays
    outside = {*group.program.inputs, *group.program.outputs}
    if bytes_of_values(group) > MAX_REFERENCE_BYTES:
        raise refusal(group)
    expected_all, before_all = _reference(group.graph, seed, frozenset(_outside_tensors(group)))
    missing = {arrays[name] for name in outside} - expected_all.keys()
    left_out = missing & group.graph.tensors.keys()
    if left_out:
        expected_all = {**expected_all, **reference_values(group.graph, seed, left_out)}
    if missing := missing - left_out:
        lowered, _ = lowering(group.graph)
        expected_all = {**expected_all, **temporaries(lowered, expected_all, missing & lowered.arrays.keys())}
        if missing := missing - expected_all.keys():  # of reductions in parts
            folded = _program_in_parts(group.graph)
            known = {n: v.transpose(folded.orders[n]) if n in folded.orders else v for n, v in expected_all.items()}
            expected_all = {**expected_all, **temporaries(folded.program, known, missing)}
    instance, declared = group.instances[0], group.program.arrays

    def own(name: str, tensors: dict[str, np.ndarray]) -> np.ndarray:
        return instance.view(declared[name], instance.in_storage(name, tensors[arrays[name]]))

    expected = {name: own(name, expected_all) for name in arrays if name in outside}
    updated = {update.target for update in group.graph.updates}
    before = {name: own(name, before_all) for name in group.program.inputs if arrays[name] in updated}
    return expected, before


def bytes_of_values(group: FusionGroup) -> int:
    """Bytes of a graph's inputs, all of which are drawn, and of the arrays that a check of a group needs.

    Floats of 16 bits count with the float32 copy that ONNX Runtime computes with.
    """
    graph = group.graph
    assert graph is not None
    needed = [graph.tensors[name] for name in {*graph.inputs, *_outside_tensors(group)} & graph.tensors.keys()]
    return sum(one.bytes + (DTYPES["float32"] * one.elements if one.dtype in HALVES else 0) for one in needed)


def refusal(group: FusionGroup, because: str = "") -> Unsupported:
    """That a group's values do not fit.  because: why no smaller size stands for it."""
    needed, limit = bytes_of_values(group) / 2**30, MAX_REFERENCE_BYTES / 2**30
    reason = f"its values take {needed:.1f} GiB; the reference computes {limit:.0f}{because}"
    return Unsupported("check", group.name, reason, "check the same operators at a smaller size")


def _outside_tensors(group: FusionGroup) -> Collection[str]:
    """The tensors of the reference's that are looked at."""
    arrays = group.instances[0].arrays
    return group.beside or {arrays[name] for name in (*group.program.inputs, *group.program.outputs)}


@lru_cache(maxsize=2)
def _reference(
    graph: OperatorGraph, seed: int, kept: frozenset[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Reference values of the tensors of a graph, and of those it updates before the run; the last two are kept.

    Of a graph with larger tensors, those in `kept`.
    """
    wanted = None
    if sum(tensor.bytes for tensor in graph.tensors.values()) > KEPT_BYTES:
        wanted = sorted(kept & graph.tensors.keys())
    updated = {update.target for update in graph.updates}
    before = {name: value for name, value in input_values(graph, seed).items() if name in updated} if updated else {}
    return reference_values(graph, seed, wanted), before


@lru_cache(maxsize=1)
def lowering(graph: OperatorGraph) -> tuple[TensorProgram, dict[str, str]]:
    """The last graph's program, and its operators without one with the reason: checks need again what was fused."""
    return lower_supported(graph)


@lru_cache(maxsize=1)
def _program_in_parts(graph: OperatorGraph) -> Folded:
    """The graph's program with the arrays of reductions in parts."""
    folded = fold_program(lowering(graph)[0], graph)
    return replace(folded, program=in_parts(folded.program))
