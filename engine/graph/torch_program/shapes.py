"""ATen operators that move elements or make them from sizes alone, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from engine.graph.torch_program.sketch import Call

MOST_CONSTANT = 2**20
"""Elements up to which a filled tensor is a constant of the model."""


def _reshape(call: Call, word: str) -> None:
    sizes = call.sizes(word)
    is_zero = 0 in call.kind.shape
    call.add("Reshape", [call.tensor("self"), sizes], allowzero=1 if is_zero else None)


def _to_result_shape(call: Call) -> None:
    """Reshape to the sizes that the result is declared to have, of which one may be open."""
    sizes = [size if isinstance(size, int) else -1 for size in call.kind.shape]
    if sizes.count(-1) > 1:
        raise KeyError("several open sizes")
    call.add("Reshape", [call.tensor("self"), call.sketch.constant(sizes, np.int64)])


def _permute(call: Call) -> None:
    rank = call.rank()
    call.add("Transpose", [call.tensor("self")], perm=[axis % rank for axis in call.ints("dims")])


def _transpose(call: Call) -> None:
    rank = call.rank()
    axes = list(range(rank))
    a, b = (call.value(name, default) % rank for name, default in (("dim0", 0), ("dim1", 1))) if rank > 1 else (0, 0)
    axes[a], axes[b] = axes[b], axes[a]
    call.add("Transpose", [call.tensor("self")], perm=axes)


def _unsqueeze(call: Call) -> None:
    call.add("Unsqueeze", [call.tensor("self"), call.sketch.constant([call.value("dim")], np.int64)])


def _squeeze(call: Call) -> None:
    shape = call.kind_of("self").shape
    asked = call.ints("dim", range(len(shape)))
    axes = [axis for axis in asked if shape[axis] == 1]
    call.add("Squeeze", [call.tensor("self"), call.sketch.constant(axes, np.int64)]) if axes else call.add(
        "Identity", [call.tensor("self")]
    )


def _expand(call: Call) -> None:
    form, value = call.argument("size")
    if form == "as_sym_ints" and any("as_name" in one for one in value):
        call.add("Expand", [call.tensor("self"), call.sizes("size")])
        return
    sizes = [1 if size == -1 else size for size in call.ints("size")]  # which keeps an axis as it is
    call.add("Expand", [call.tensor("self"), call.sketch.constant(sizes, np.int64)])


def _concatenation(call: Call) -> None:
    operands = [call.sketch.cast(name, call.kind.dtype) for name in call.tensors("tensors")]
    call.add("Concat", operands, axis=call.value("dim", 0))


def _stack(call: Call) -> None:
    axis = call.value("dim", 0)
    where = call.sketch.constant([axis], np.int64)
    call.add("Concat", [call.add("Unsqueeze", [one, where], "") for one in call.tensors("tensors")], axis=axis)


def _split(call: Call) -> None:
    """Parts of the sizes that the results are declared to have."""
    axis, results = call.value("dim", 0), call.node.outputs
    sizes = [int(call.sketch.tensors[name].shape[axis]) for name in results]
    call.add("Split", [call.tensor("self"), call.sketch.constant(sizes, np.int64)], results, axis=axis)


def _unbind(call: Call) -> None:
    axis, results = call.value("dim", 0), call.node.outputs
    ones = call.sketch.constant([1] * len(results), np.int64)
    parts = [call.sketch.fresh_name("part") for _ in results]
    call.add("Split", [call.tensor("self"), ones], parts, axis=axis)
    for part, result in zip(parts, results, strict=True):
        call.add("Squeeze", [part, call.sketch.constant([axis], np.int64)], result)


def _slice(call: Call) -> None:
    def place(name: str, default: int) -> str:
        form, value = call.argument(name)
        if form == "as_sym_int" and "as_name" in value:
            return str(value["as_name"])
        return call.sketch.constant([call.value(name, default)], np.int64)

    axis = call.sketch.constant([call.value("dim", 0)], np.int64)
    step = call.sketch.constant([call.value("step", 1)], np.int64)
    call.add("Slice", [call.tensor("self"), place("start", 0), place("end", 2**63 - 1), axis, step])


def _narrow(call: Call) -> None:
    start, axis = call.value("start"), call.sketch.constant([call.value("dim")], np.int64)
    places = [call.sketch.constant([place], np.int64) for place in (start, start + call.value("length"))]
    call.add("Slice", [call.tensor("self"), *places, axis])


def _select(call: Call) -> None:
    index = call.sketch.constant(call.value("index"), np.int64)
    call.add("Gather", [call.tensor("self"), index], axis=call.value("dim"))


def _embedding(call: Call) -> None:
    call.add("Gather", [call.tensor("weight"), call.tensor("indices")], axis=0)


def _index_select(call: Call) -> None:
    call.add("Gather", [call.tensor("self"), call.tensor("index")], axis=call.value("dim"))


def _gather(call: Call) -> None:
    call.add("GatherElements", [call.tensor("self"), call.tensor("index")], axis=call.value("dim"))


def _scatter(call: Call, reduction: str | None) -> None:
    source = call.tensor("src")
    if not source:
        raise KeyError("a number is scattered")
    operands = [call.tensor("self"), call.tensor("index"), source]
    call.add("ScatterElements", operands, axis=call.value("dim"), reduction=reduction)


def _index(call: Call) -> None:
    """Indices of one axis, or of several first ones together."""
    indices = call.tensors("indices")
    places = [at for at, name in enumerate(indices) if name]
    if any(call.sketch.tensors[indices[at]].dtype == np.bool_ for at in places):
        raise KeyError("a mask as an index")
    if len(places) == 1:
        call.add("Gather", [call.tensor("self"), indices[places[0]]], axis=places[0])
        return
    if places != list(range(len(places))):
        raise KeyError("indices of several axes that are not the first")
    rest = call.rank() - len(places)
    common = call.sketch.constant([int(n) for n in call.kind.shape[: len(call.kind.shape) - rest]], np.int64)
    last = call.sketch.constant([-1], np.int64)
    wide = [call.add("Expand", [call.sketch.cast(indices[at], np.dtype(np.int64)), common], "") for at in places]
    together = call.add("Concat", [call.add("Unsqueeze", [one, last], "") for one in wide], "", axis=-1)
    call.add("GatherND", [call.tensor("self"), together])


def _fill(call: Call, value: float | None) -> None:
    """One number everywhere, in the sizes that the result is declared to have."""
    number = call.value("fill_value" if call.has("fill_value") else "s", 0) if value is None else value
    shape = tuple(int(size) for size in call.kind.shape)
    if np.prod(shape, dtype=np.int64) <= MOST_CONSTANT:
        call.sketch.constants[call.result] = np.full(shape, number, call.kind.dtype)
        return
    scalar = call.sketch.constant(number, call.kind.dtype)
    call.add("Expand", [scalar, call.sketch.constant(shape, np.int64)])


def _arange(call: Call) -> None:
    ends = call.value("start", 0), call.value("end"), call.value("step", 1)
    call.sketch.constants[call.result] = np.arange(*ends).astype(call.kind.dtype)


def _triangle(call: Call, upper: int) -> None:
    k = call.sketch.constant(call.value("diagonal", 0), np.int64)
    call.add("Trilu", [call.tensor("self"), k], upper=upper)


def _repeat(call: Call) -> None:
    times = call.ints("repeats")
    x, lead = call.tensor("self"), len(times) - call.rank()
    if lead:
        x = call.add("Unsqueeze", [x, call.sketch.constant(list(range(lead)), np.int64)], "")
    call.add("Tile", [x, call.sketch.constant(times, np.int64)])


def _padding(call: Call) -> None:
    amounts, mode = call.ints("pad"), call.value("mode", "constant")
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    axes = [-1 - at for at in range(len(amounts) // 2)]
    given = [call.sketch.constant([*amounts[::2], *amounts[1::2]], np.int64)]
    value = call.sketch.constant(call.value("value", 0), call.kind.dtype) if mode == "constant" else ""
    where = call.sketch.constant([axis % call.rank() for axis in axes], np.int64)
    call.add("Pad", [call.tensor("self"), *given, value, where], mode=modes[mode])


def _size_of(call: Call) -> None:
    axis = call.value("dim") % call.rank()
    call.add("Shape", [call.tensor("self")], start=axis, end=axis + 1)


def _sizes_together(call: Call, kind: str) -> None:
    """Arithmetic of sizes, which are vectors of one integer."""

    def operand(name: str) -> str:
        form, value = call.argument(name)
        if form == "as_sym_int" and "as_name" in value:
            return str(value["as_name"])
        return call.sketch.constant([value["as_int"] if isinstance(value, dict) else value], np.int64)

    call.add(kind, [operand(name) for name in list(call.node.arguments)[:2]])


RULES: Mapping[str, Callable[[Call], object]] = {
    "view": partial(_reshape, word="size"), "reshape": partial(_reshape, word="shape"),
    "_unsafe_view": partial(_reshape, word="size"), "flatten": _to_result_shape, "unflatten": _to_result_shape,
    "permute": _permute, "transpose": _transpose, "t": _transpose, "numpy_T": _transpose, "unsqueeze": _unsqueeze,
    "squeeze": _squeeze, "expand": _expand, "cat": _concatenation, "stack": _stack, "split": _split,
    "split_with_sizes": _split, "chunk": _split, "tensor_split": _split, "unbind": _unbind, "slice": _slice,
    "narrow": _narrow, "select": _select, "embedding": _embedding, "index_select": _index_select, "gather": _gather,
    "scatter": partial(_scatter, reduction=None), "scatter_add": partial(_scatter, reduction="add"), "index": _index,
    **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor"), partial(_fill, value=None)),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), partial(_fill, value=0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), partial(_fill, value=1)), "arange": _arange,
    "tril": partial(_triangle, upper=0), "triu": partial(_triangle, upper=1), "repeat": _repeat, "pad": _padding,
    "constant_pad_nd": _padding, "sym_size": _size_of, "_operator.mul": partial(_sizes_together, kind="Mul"),
    "_operator.add": partial(_sizes_together, kind="Add"), "_operator.sub": partial(_sizes_together, kind="Sub"),
    "_operator.floordiv": partial(_sizes_together, kind="Div"),
}  # fmt: skip
"""Name of an ATen operator, without its overload -> what it is."""
