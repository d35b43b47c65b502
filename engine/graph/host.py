"""Operators that a host program runs between kernels, because the data decide what they give.

    NonZero(x: [4, 8])                         ->    [2, NAME.count], at most 32
    If(c) {Identity(a)} else {Identity(b)}     ->    a where NAME.branch is 1, else b

Shapes are static all the same: a number that the data decide is a dimension, of its largest size unless the caller
gives another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from engine.graph.nodes import HostDecision, HostStep, Tensor
from engine.graph.weights import dtype_name
from engine.support.errors import BadInput

BRANCHES = ("then_branch", "else_branch")
COUNTS = "gives as many results as the data ask for"
ENDS = "the loop has ended by then: no steps beyond are written out"
CHOOSES = "takes the results of one branch, which the data choose"

COUNT = "count"
"""The number of results, after the operator's name."""

Shape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Results of which the data decide how many there are."""

    results: tuple[tuple[str, Shape], ...]
    """Element type and shape of each result; words stand for what the data decide."""
    largest: Mapping[str, int | None]
    """Of each word; None where nothing bounds it, and for what the others decide together with `elements`."""
    elements: int | None = None
    """Of the first result, where the data do not decide that: one size follows from the others."""


def up_to(largest: int, *results: tuple[str, Shape]) -> Counted:
    """As many results as the data ask for, up to a largest number."""
    return Counted(results, {COUNT: largest})


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of tensors before they are computed."""

    constants: Mapping[str, np.ndarray]
    makers: Mapping[str, onnx.NodeProto]
    """Tensor -> the node that makes it."""
    tensors: Mapping[str, Tensor]

    def get(self, name: str) -> np.ndarray | None:
        """The value of a constant."""
        return self.constants.get(name)

    def vector(self, name: str) -> list[int | None] | None:
        """The elements of a row of integers, None for those that the data decide; None where their number is open."""
        value, maker, tensor = self.constants.get(name), self.makers.get(name), self.tensors.get(name)
        if value is not None:
            return [int(one) for one in value.reshape(-1)] if value.ndim == 1 else None
        if maker is not None and maker.op_type == "Concat":
            parts = [self.vector(part) for part in maker.input]
            return None if None in parts else [one for part in parts if part is not None for one in part]
        return [None] * tensor.shape[0] if tensor is not None and len(tensor.shape) == 1 else None


Count = Callable[[onnx.NodeProto, Sequence[Tensor | None], Values], Counted | None]


@dataclass(frozen=True, slots=True)
class HostResults:
    """What is known of an operator that the host runs."""

    step: HostStep
    results: tuple[tuple[str, tuple[int, ...]], ...]
    """Element type and shape of each result."""


def counted_results(
    node: onnx.NodeProto, name: str, operands: Sequence[Tensor | None], values: Values, sizes: Mapping[str, int]
) -> HostResults | str | None:
    """The results of an operator whose data decide how many there are, or why they are not known; None for another.

    name: the operator's.  sizes: of dimensions.
    """
    count = _COUNTS.get(node.op_type)
    given = [*operands, None, None, None]  # a damaged file may lack operands
    found = count(node, given, values) if count and node.domain in ("", "ai.onnx") else None
    if found is None or len(node.output) > len(found.results):
        return None
    results = [(each, node.output[at]) for at, each in enumerate(found.results[: len(node.output)])]
    places = {word: (out, axis) for (_, shape), out in reversed(results) if out
              for axis, word in enumerate(shape) if isinstance(word, str)}  # fmt: skip
    known = _known_sizes(name, found, sizes)
    if isinstance(known, str):
        return f"{node.op_type} {COUNTS}: {known}"
    decisions = tuple(
        HostDecision(f"{name}.{word}", known[word], found.largest[word], *place) for word, place in places.items()
    )
    shapes = [tuple(known[size] if isinstance(size, str) else size for size in shape) for (_, shape), _ in results]
    made = tuple((dtype, shape) for ((dtype, _), _), shape in zip(results, shapes, strict=True))
    return HostResults(HostStep(f"{node.op_type} {COUNTS}", decisions), made) if places else None


def _known_sizes(name: str, found: Counted, given: Mapping[str, int]) -> dict[str, int] | str:
    """The sizes that the data decide: as the caller gave them, the largest, or what the others leave; or what is
    lacking.  Raises BadInput for sizes that cannot be together."""
    sizes = {word: given[f"{name}.{word}"] for word in found.largest if f"{name}.{word}" in given}
    if found.elements is None:
        sizes |= {word: most for word, most in found.largest.items() if most is not None and word not in sizes}
    lacking = [word for word in found.largest if word not in sizes]
    shape = found.results[0][1]
    if found.elements is not None and len(lacking) == 1:
        others = math.prod(sizes.get(size, 1) if isinstance(size, str) else size for size in shape)
        sizes[lacking.pop()] = found.elements // others if others else 0
    if lacking:
        asked = " ".join(f"--dim {name}.{word}=8" for word in (lacking if found.elements is None else lacking[:-1]))
        return f"nothing says how many at most; give it: {asked}"
    if found.elements is not None:
        made = [sizes[size] if isinstance(size, str) else size for size in shape]
        if math.prod(made) != found.elements:
            told = f"{' x '.join(map(str, made))} are not the {found.elements} elements that there are"
            raise BadInput("graph", f"operator {name}", told, "give sizes that multiply to them")
    limits = found.largest.items()
    return {word: min(max(sizes[word], 0), sizes[word] if most is None else most) for word, most in limits}


def chosen_results(
    name: str, condition: str, branches: Sequence[Sequence[Tensor]], given: Mapping[str, int]
) -> HostResults:
    """The results of a choice between tensors, those of the branch that is taken first; as `counted_results`.

    Where both branches are the same tensors, the condition says that a loop goes on after the steps that are written
    out, whose largest number the caller gave as the size of `name`.
    """
    if tuple(branches[0]) == tuple(branches[1]):
        limit = HostDecision(name, given.get(name, 0), None, condition, None, is_limit=True)
        return HostResults(HostStep(ENDS, (limit,)), tuple((one.dtype, one.shape) for one in branches[0]))
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
    return (*shape[:axis], COUNT, *shape[axis + 1 :])


def _non_zero(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    return up_to(x.elements, ("int64", (len(x.shape), COUNT))) if x and x.shape else None


def _unique(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    if x is None:
        return None
    axis, whole = _axis(node, x), _attribute(node, "axis") is None
    if axis is None and not whole:
        return None
    number = x.elements if axis is None else x.shape[axis]
    kept = (COUNT,) if axis is None else _put(x.shape, axis)
    indices: Shape = (COUNT,)
    return up_to(number, (x.dtype, kept), ("int64", indices), ("int64", (number,)), ("int64", indices))


def _non_max_suppression(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    boxes, scores = operands[:2]
    if boxes is None or scores is None or len(boxes.shape) != 3 or len(scores.shape) != 3:
        return None
    most = values.get(node.input[2]) if len(node.input) > 2 else np.array(0)  # without a number, nothing is selected
    number = scores.shape[2] if most is None or most.size != 1 else max(0, int(most.reshape(-1)[0]))
    return up_to(scores.shape[0] * scores.shape[1] * min(number, scores.shape[2]), ("int64", (COUNT, 3)))


def _compress(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x, condition = operands[:2]
    if x is None or condition is None:
        return None
    axis = _axis(node, x)
    if axis is None:
        return None if _attribute(node, "axis") is not None else up_to(condition.elements, (x.dtype, (COUNT,)))
    return up_to(min(condition.elements, x.shape[axis]), (x.dtype, _put(x.shape, axis)))


def _top_k(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x = operands[0]
    axis = _axis(node, x, -1) if x else None
    if x is None or axis is None or len(node.input) < 2:
        return None
    kept = _put(x.shape, axis)
    return up_to(x.shape[axis], (x.dtype, kept), ("int64", kept))


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
    return up_to(x.shape[axis % rank], (x.dtype, _put(x.shape, axis % rank)))


def _word(axis: int) -> str:
    """The size of an axis, after the operator's name."""
    return f"axis{axis}"


def _range(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    start = operands[0]
    return Counted(((start.dtype, (COUNT,)),), {COUNT: None}) if start else None


def _reshape(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    """A shape of which some sizes are known; as many elements as before."""
    x, asked = operands[0], values.vector(node.input[1]) if len(node.input) > 1 else None
    if x is None or asked is None:
        return None
    if not _attribute(node, "allowzero"):
        asked = [x.shape[at] if size == 0 and at < len(x.shape) else size for at, size in enumerate(asked)]
    shape = tuple(_word(at) if size in (None, -1) else size for at, size in enumerate(asked))
    known = math.prod(size for size in shape if isinstance(size, int))
    most = x.elements // known if known else 0
    return Counted(((x.dtype, shape),), {word: most for word in shape if isinstance(word, str)}, x.elements)


def _expand(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    """Along axes of one element alone the data can ask for more."""
    x, asked = operands[0], values.vector(node.input[1]) if len(node.input) > 1 else None
    if x is None or asked is None:
        return None
    rank = max(len(asked), len(x.shape))
    own = [*[1] * (rank - len(x.shape)), *x.shape]
    wanted = [*[1] * (rank - len(asked)), *asked]
    pairs = enumerate(zip(own, wanted, strict=True))
    shape = tuple(size if size > 1 else _word(at) if to is None else to for at, (size, to) in pairs)
    return Counted(((x.dtype, shape),), {word: None for word in shape if isinstance(word, str)})


def _tile(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    x, times = operands[0], values.vector(node.input[1]) if len(node.input) > 1 else None
    if x is None or times is None or len(times) != len(x.shape):
        return None
    shape = tuple(_word(at) if n is None else n * size for at, (n, size) in enumerate(zip(times, x.shape, strict=True)))
    return Counted(((x.dtype, shape),), {word: None for word in shape if isinstance(word, str)})


def _constant_of_shape(node: onnx.NodeProto, operands: Sequence[Tensor | None], values: Values) -> Counted | None:
    asked = values.vector(node.input[0]) if node.input else None
    if asked is None:
        return None
    value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    dtype = "float32" if value is None else dtype_name(f"operator {node.name}", value.data_type)
    shape = tuple(_word(at) if size is None else size for at, size in enumerate(asked))
    return Counted(((dtype, shape),), {word: None for word in shape if isinstance(word, str)})


ALWAYS_ON_HOST = ("NonZero", "NonMaxSuppression", "Unique")
"""Operators that no kernel can be even where the file declares how many results there are."""

_COUNTS: Mapping[str, Count] = {
    "NonZero": _non_zero, "Unique": _unique, "NonMaxSuppression": _non_max_suppression, "Compress": _compress,
    "TopK": _top_k, "Slice": _slice, "Range": _range, "Reshape": _reshape, "Expand": _expand, "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
}  # fmt: skip
