"""Operators that a host program runs between kernels, because the data decide what they give.

    NonZero(x: [4, 8])                         ->    [2, NAME.count], at most 32
    If(c) {Identity(a)} else {Identity(b)}     ->    a where NAME.branch is 1, else b

Shapes are static all the same: a number that the data decide is a dimension, of its largest size unless the caller
gives another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from engine.graph.nodes import HostDecision, HostStep, Tensor

BRANCHES = ("then_branch", "else_branch")
COUNTS = "gives as many results as the data ask for"
CHOOSES = "takes the results of one branch, which the data choose"

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Results of which the data decide how many there are."""

    largest: int
    results: tuple[tuple[str, Shape], ...]
    """Element type and shape of each result; None stands for their number."""


Values = Mapping[str, np.ndarray]
Count = Callable[[onnx.NodeProto, Sequence[Tensor | None], Values], Counted | None]


@dataclass(frozen=True, slots=True)
class HostResults:
    """What is known of an operator that the host runs."""

    step: HostStep
    results: tuple[tuple[str, tuple[int, ...]], ...]
    """Element type and shape of each result."""


def counted_results(
    node: onnx.NodeProto, name: str, operands: Sequence[Tensor | None], values: Values, sizes: Mapping[str, int]
) -> HostResults | None:
    """The results of an operator whose data decide how many there are; None for another, or without a largest number.

    name: the operator's.  values: constants.  sizes: of dimensions.
    """
    count = _COUNTS.get(node.op_type)
    given = [*operands, None, None]  # a damaged file may lack operands
    found = count(node, given, values) if count and node.domain in ("", "ai.onnx") else None
    if found is None or len(node.output) > len(found.results):
        return None
    results = [(each, node.output[at]) for at, each in enumerate(found.results[: len(node.output)])]
    told = next(((out, shape.index(None)) for (_, shape), out in results if out and None in shape), None)
    if told is None:
        return None
    tensor, axis = told
    decision = _decision(f"{name}.count", found.largest, tensor, axis, sizes)
    shapes = tuple(
        (dtype, tuple(decision.assumed if size is None else size for size in shape)) for (dtype, shape), _ in results
    )
    return HostResults(HostStep(f"{node.op_type} {COUNTS}", (decision,)), shapes)


def chosen_results(
    name: str, condition: str, branches: Sequence[Sequence[Tensor]], given: Mapping[str, int]
) -> HostResults:
    """The results of a choice between tensors, those of the branch that is taken first; as `counted_results`."""
    alike = [(a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(*branches, strict=True)]
    decisions = () if all(alike) else (_decision(f"{name}.branch", 1, condition, None, given),)
    taken = branches[0 if not decisions or decisions[0].assumed else 1]
    step = HostStep(f"If {CHOOSES}", decisions)
    return HostResults(step, tuple((tensor.dtype, tensor.shape) for tensor in taken))


def _decision(name: str, largest: int, tensor: str, axis: int | None, given: Mapping[str, int]) -> HostDecision:
    """With what the caller gave, as far as the data can make it so; who gave it is told of what they cannot later."""
    return HostDecision(name, min(max(given.get(name, largest), 0), largest), largest, tensor, axis)


def choice_of(node: onnx.NodeProto) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The tensors that an If chooses between, those for a true condition first; None where it computes any."""
    if node.op_type != "If":
        return None
    found = {}
    for attribute in node.attribute:
        body = attribute.g
        copies = [inner for inner in body.node if inner.op_type == "Identity" and len(inner.input) == 1]
        sources = {inner.output[0]: inner.input[0] for inner in copies if len(inner.output) == 1}
        names = tuple(value.name for value in body.output)
        if len(sources) != len(body.node) or not set(names) <= sources.keys() - set(sources.values()):
            return None
        found[attribute.name] = tuple(sources[name] for name in names)
    return (found[BRANCHES[0]], found[BRANCHES[1]]) if found.keys() == set(BRANCHES) else None


def make_choice(
    name: str, condition: str, outputs: Sequence[str], then: Sequence[str], other: Sequence[str]
) -> onnx.NodeProto:
    """An If that computes nothing: its results are tensors from outside."""
    bodies = {}
    for branch, sources in zip(BRANCHES, (then, other), strict=True):
        inner = [f"{name}/{branch}/{at}" for at in range(len(outputs))]
        copies = [helper.make_node("Identity", [a], [b]) for a, b in zip(sources, inner, strict=True)]
        bodies[branch] = helper.make_graph(copies, branch, [], [onnx.ValueInfoProto(name=each) for each in inner])
    return helper.make_node("If", [condition], list(outputs), name=name, **bodies)


def _attribute(node: onnx.NodeProto, name: str) -> int | None:
    """An integer attribute; None where it is absent."""
    return next((int(a.i) for a in node.attribute if a.name == name), None)


def _axis(node: onnx.NodeProto, tensor: Tensor, otherwise: int | None = None) -> int | None:
    """The axis that an operator works along, from the front; None for all, or where there is no such axis."""
    axis, rank = _attribute(node, "axis"), len(tensor.shape)
    axis = otherwise if axis is None else axis
    return None if axis is None or not -rank <= axis < rank else axis % rank


def _put(shape: Sequence[int], axis: int) -> Shape:
    return (*shape[:axis], None, *shape[axis + 1 :])


def _non_zero(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    return Counted(x.elements, (("int64", (len(x.shape), None)),)) if x and x.shape else None


def _unique(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    if x is None:
        return None
    axis, whole = _axis(node, x), _attribute(node, "axis") is None
    if axis is None and not whole:
        return None
    number = x.elements if axis is None else x.shape[axis]
    kept = (None,) if axis is None else _put(x.shape, axis)
    indices: Shape = (None,)
    return Counted(number, ((x.dtype, kept), ("int64", indices), ("int64", (number,)), ("int64", indices)))


def _non_max_suppression(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    boxes, scores = operands[:2]
    if boxes is None or scores is None or len(boxes.shape) != 3 or len(scores.shape) != 3:
        return None
    most = values.get(node.input[2]) if len(node.input) > 2 else np.array(0)  # without a number, nothing is selected
    number = scores.shape[2] if most is None or most.size != 1 else max(0, int(most.reshape(-1)[0]))
    return Counted(scores.shape[0] * scores.shape[1] * min(number, scores.shape[2]), (("int64", (None, 3)),))


def _compress(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x, condition = operands[:2]
    if x is None or condition is None:
        return None
    axis = _axis(node, x)
    if axis is None:
        return None if _attribute(node, "axis") is not None else Counted(condition.elements, ((x.dtype, (None,)),))
    return Counted(min(condition.elements, x.shape[axis]), ((x.dtype, _put(x.shape, axis)),))


def _top_k(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    axis = _axis(node, x, -1) if x else None
    if x is None or axis is None or len(node.input) < 2:
        return None
    kept = _put(x.shape, axis)
    return Counted(x.shape[axis], ((x.dtype, kept), ("int64", kept)))


def _slice(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    """Slices along one axis, which is known, between places that are not."""
    x = operands[0]
    axes = values.get(node.input[3]) if len(node.input) > 3 and node.input[3] else np.array([0])
    starts = operands[1]
    if x is None or starts is None or starts.elements != 1 or axes is None or axes.size != 1:
        return None
    axis, rank = int(axes.reshape(-1)[0]), len(x.shape)
    if not -rank <= axis < rank:
        return None
    return Counted(x.shape[axis % rank], ((x.dtype, _put(x.shape, axis % rank)),))


ALWAYS_ON_HOST = ("NonZero", "NonMaxSuppression", "Unique")
"""Operators that no kernel can be even where the file declares how many results there are."""

_COUNTS: Mapping[str, Count] = {
    "NonZero": _non_zero, "Unique": _unique, "NonMaxSuppression": _non_max_suppression, "Compress": _compress,
    "TopK": _top_k, "Slice": _slice,
}  # fmt: skip
