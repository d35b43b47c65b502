"""Operators that a host program runs between kernels, in NumPy: they give as many results as the data ask for.

Results are in the order of the operator's outputs.  `attributes` are ONNX's; absent ones have ONNX's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]


def run(kind: str, operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """The results of an operator.  operands: an absent one is an array of no elements.  KeyError for another kind."""
    return OPERATORS[kind](operands, attributes)


def non_zero(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Places of elements that are not 0: [rank, count]."""
    return (np.stack(np.nonzero(operands[0])).astype(np.int64),)


def compress(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Slices where a condition holds, or elements without an axis; a condition may be shorter than the axis."""
    x, condition = operands
    axis = attributes.get("axis")
    return (np.compress(condition.reshape(-1).astype(bool), x, None if axis is None else int(axis)),)


def unique(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Unique values, the place of the first of each, the value's number for each place, how many there are of each."""
    axis = attributes.get("axis")
    axis = None if axis is None else int(axis)
    values, first, numbers, counts = np.unique(operands[0], True, True, True, axis)
    numbers = numbers.reshape(-1)
    if not attributes.get("sorted", 1):  # in the order in which they first stand
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        numbers = np.argsort(order)[numbers]
    return values, first.astype(np.int64), numbers.astype(np.int64), counts.astype(np.int64)


def top_k(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """The largest (or smallest) elements along an axis and their places; of equal ones the first."""
    x, axis = operands[0], int(attributes.get("axis", -1))
    count, largest = int(operands[1].reshape(-1)[0]), bool(attributes.get("largest", 1))
    places = np.flip(np.arange(x.shape[axis])) if largest else np.arange(x.shape[axis])
    ordered = np.argsort(np.take(x, places, axis), axis, kind="stable")
    order = places[np.flip(ordered, axis) if largest else ordered]
    chosen = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


def slice_one(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """A slice along one axis."""
    x, start, end = operands[:3]
    axis = int(operands[3].reshape(-1)[0]) if len(operands) > 3 and operands[3].size else 0
    step = int(operands[4].reshape(-1)[0]) if len(operands) > 4 and operands[4].size else 1
    size, first, last = x.shape[axis], int(start.reshape(-1)[0]), int(end.reshape(-1)[0])
    first, last = (place + size if place < 0 else place for place in (first, last))
    first = min(max(first, 0), size if step > 0 else size - 1)
    last = min(max(last, 0 if step > 0 else -1), size)
    return (np.take(x, np.arange(first, last, step), axis),)


def range_of(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Numbers from one on in steps, up to another that is left out."""
    start, limit, step = (one.reshape(-1)[0] for one in operands)
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(step))))
    return ((start + np.arange(count).astype(start.dtype) * step).astype(start.dtype),)


def reshape(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """The same elements; 0 keeps the size of an axis, -1 takes what is left."""
    x, asked = operands[0], [int(size) for size in operands[1].reshape(-1)]
    if not attributes.get("allowzero", 0):
        asked = [x.shape[at] if size == 0 else size for at, size in enumerate(asked)]
    return (x.reshape(asked),)


def expand(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Axes of one element repeated; an axis that has more stays."""
    x, asked = operands[0], tuple(int(size) for size in operands[1].reshape(-1))
    return (np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, asked))),)


def tile(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """All of a tensor, several times along each axis."""
    return (np.tile(operands[0], [int(times) for times in operands[1].reshape(-1)]),)


def constant_of_shape(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """One number everywhere."""
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32)))
    return (np.full([int(size) for size in operands[0].reshape(-1)], value.reshape(-1)[0]),)


def non_max_suppression(operands: Arrays, attributes: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Boxes that no better one of their class overlaps by more than a threshold: rows of batch, class, box."""
    boxes, scores, *rest = operands
    most, overlap, least = (float(rest[at].reshape(-1)[0]) if len(rest) > at and rest[at].size else None
                            for at in range(3))  # fmt: skip
    corners = _corners(boxes, int(attributes.get("center_point_box", 0)))
    found = []
    for batch, klass in np.ndindex(*scores.shape[:2]):
        row = scores[batch, klass]
        kept: list[int] = []
        for box in np.argsort(-row, kind="stable"):
            if len(kept) >= int(most or 0) or (least is not None and not row[box] > least):
                break
            if all(_overlap(corners[batch, box], corners[batch, other]) <= (overlap or 0.0) for other in kept):
                kept.append(int(box))
        found += [(batch, klass, box) for box in kept]
    return (np.array(found, np.int64).reshape(-1, 3),)


def _corners(boxes: np.ndarray, has_center: int) -> np.ndarray:
    """Boxes as their lowest and highest corner."""
    a, b = boxes[..., :2], boxes[..., 2:]
    low, high = (a - b / 2, a + b / 2) if has_center else (np.minimum(a, b), np.maximum(a, b))
    return np.concatenate((low, high), -1)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The area that two boxes share, of what they cover together."""
    both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    whole = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both
    return float(both / whole) if whole > 0 else 0.0


OPERATORS: Mapping[str, Callable[[Arrays, Mapping[str, Any]], tuple[np.ndarray, ...]]] = {
    "Compress": compress, "ConstantOfShape": constant_of_shape, "Expand": expand,
    "NonMaxSuppression": non_max_suppression, "NonZero": non_zero, "Range": range_of, "Reshape": reshape,
    "Slice": slice_one, "Tile": tile, "TopK": top_k, "Unique": unique,
}  # fmt: skip
