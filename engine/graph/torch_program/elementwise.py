"""ATen operators that compute element by element, and those that reduce, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from engine.graph.torch_program.sketch import Call

Rule = Callable[[Call], object]


def comparison_type(call: Call) -> np.dtype[Any]:
    """The element type in which two operands are compared."""
    kinds = [call.kind_of(name).dtype for name in ("self", "other") if call.tensor(name)]
    if isinstance(call.value("other") if not call.tensor("other") else 0, float):
        kinds = [kind if kind.kind not in "bui" else np.dtype(np.float32) for kind in kinds]
    return max(kinds, key=lambda kind: ("bui".find(kind.kind) if kind.kind in "bui" else 3, kind.itemsize))


def _one(call: Call, kind: str, **attributes: Any) -> None:
    """One operand, in the result's type."""
    call.add(kind, [call.operand("self")], **attributes)


def _plain(call: Call, kind: str, unit: tuple[str, ...] = (), **attributes: tuple[str, float]) -> None:
    """One operand, and attributes by the arguments that they stand for and their defaults; those of `unit` are 1."""
    if any(call.value(name, 1) != 1 for name in unit):
        raise KeyError(f"{kind} with other than 1 for one of {', '.join(unit)}")
    _one(call, kind, **{name: float(call.value(*source)) for name, source in attributes.items()})


def _two(call: Call, kind: str) -> None:
    """Two operands in the result's type; the second times alpha."""
    other = call.operand("other")
    if call.has("alpha") and call.value("alpha") != 1:
        other = call.add("Mul", [other, call.operand("alpha")], "")
    call.add(kind, [call.operand("self"), other])


def _reverse_difference(call: Call) -> None:
    own = call.operand("self")
    if call.has("alpha") and call.value("alpha") != 1:
        own = call.add("Mul", [own, call.operand("alpha")], "")
    call.add("Sub", [call.operand("other"), own])


def _comparison(call: Call, kind: str, is_inverse: bool = False) -> None:
    wide = comparison_type(call)
    operands = [call.operand("self", wide), call.operand("other", wide)]
    if is_inverse:
        operands = [call.add(kind, operands, "")]
    call.add("Not" if is_inverse else kind, operands)


def _logic(call: Call, kind: str) -> None:
    boolean = np.dtype(np.bool_)
    operands = [call.operand(name, boolean) for name in ("self", "other") if call.has(name)]
    call.add(kind, operands)


def _bits(call: Call, kind: str) -> None:
    """On booleans, the operators of logic."""
    is_logic = call.kind.dtype == np.bool_
    name = kind if is_logic else f"Bitwise{kind}"
    call.add(name, [call.operand(one) for one in ("self", "other") if call.has(one)])


def _quotient(call: Call, default: str | None = None) -> None:
    mode, is_float = call.value("rounding_mode", default), call.kind.dtype.kind not in "bui"
    operands = [call.operand("self"), call.operand("other")]
    if mode is None or (mode == "trunc" and not is_float):
        call.add("Div", operands)
    elif mode == "floor" and is_float:
        call.add("Floor", [call.add("Div", operands, "")])
    elif mode == "floor":
        rest = call.add("Mod", operands, "")  # of the divisor's sign
        call.add("Div", [call.add("Sub", [operands[0], rest], ""), operands[1]])
    else:
        made = call.add("Div", operands, "")
        whole = call.add("Floor", [call.add("Abs", [made], "")], "")
        call.add("Mul", [call.add("Sign", [made], ""), whole])


def _remainder(call: Call) -> None:
    operands = [call.operand("self"), call.operand("other")]
    if call.kind.dtype.kind in "bui":
        call.add("Mod", operands)
        return
    times = call.add("Floor", [call.add("Div", operands, "")], "")
    call.add("Sub", [operands[0], call.add("Mul", [times, operands[1]], "")])


def _power(call: Call) -> None:
    names = {"self": call.operand("self"), "exponent": call.operand("exponent")}
    call.add("Pow", list(names.values()))


def _clamp(call: Call) -> None:
    made, bounds = call.operand("self"), [(k, w) for k, w in (("Max", "min"), ("Min", "max")) if call.has(w)]
    for number, (kind, word) in enumerate(bounds, 1):
        made = call.add(kind, [made, call.operand(word)], None if number == len(bounds) else "")
    if not bounds:
        call.add("Identity", [made])


def _hard_tanh(call: Call) -> None:
    bounds = [call.sketch.constant(call.value(*one), call.kind.dtype) for one in (("min_val", -1.0), ("max_val", 1.0))]
    call.add("Clip", [call.operand("self"), *bounds])


def _relu6(call: Call) -> None:
    call.add("Clip", [call.operand("self"), *(call.sketch.constant(one, call.kind.dtype) for one in (0, 6))])


def _times_sigmoid(call: Call) -> None:
    x = call.operand("self")
    call.add("Mul", [x, call.add("Sigmoid", [x], "")])


def _rsqrt(call: Call) -> None:
    call.add("Reciprocal", [call.add("Sqrt", [call.operand("self")], "")])


def _plus_one(call: Call, kind: str, sign: int) -> None:
    """log(1 + x) and exp(x) - 1, as they are written: near 0 they lose what the library's forms keep."""
    x, one = call.operand("self"), call.sketch.constant(1, call.kind.dtype)
    if sign > 0:
        call.add(kind, [call.add("Add", [x, one], "")])
    else:
        call.add("Sub", [call.add(kind, [x], ""), one])


def _where(call: Call) -> None:
    call.add("Where", [call.tensor("condition"), call.operand("self"), call.operand("other")])


def _masked_fill(call: Call) -> None:
    call.add("Where", [call.tensor("mask"), call.operand("value"), call.operand("self")])


def _cast(call: Call) -> None:
    call.sketch.cast(call.tensor("self"), call.kind.dtype, result=call.result)


def _identity(call: Call) -> None:
    call.add("Identity", [call.tensor("self") or call.tensor("input")])


def _dropout(call: Call) -> None:
    if call.value("train", False):
        raise KeyError("dropout of a training step")
    _identity(call)


def _reduction(call: Call, kind: str) -> None:
    axes = call.ints("dim")
    given = [call.sketch.constant(axes, np.int64)] if axes else []
    call.add(kind, [call.operand("self"), *given], keepdims=int(call.value("keepdim", False)))


def _any(call: Call, kind: str) -> None:
    axes = call.ints("dim")
    given = [call.sketch.constant(axes, np.int64)] if axes else []
    whole = call.sketch.cast(call.tensor("self"), np.dtype(np.bool_))
    number = call.add("Cast", [whole], "", to=6)
    made = call.add(kind, [number, *given], "", keepdims=int(call.value("keepdim", False)))
    call.add("Cast", [made], to=9)


def _arg(call: Call, kind: str) -> None:
    x, axis = call.tensor("self"), call.value("dim")
    if axis is None:
        x, axis = call.add("Reshape", [x, call.sketch.constant([-1], np.int64)], ""), 0
    call.add(kind, [x], axis=axis, keepdims=int(call.value("keepdim", False)))


def _extreme(call: Call, kind: str) -> None:
    """The larger of two, or the largest along an axis and its place, or of all; or the smallest."""
    if call.has("other"):
        _two(call, kind)
        return
    if not call.has("dim"):
        call.add(f"Reduce{kind}", [call.operand("self")], keepdims=0)
        return
    axis, keep, x = call.value("dim"), int(call.value("keepdim", False)), call.tensor("self")
    call.add(f"Reduce{kind}", [x, call.sketch.constant([axis], np.int64)], keepdims=keep)
    if len(call.node.outputs) > 1:
        call.add(f"Arg{kind}", [x], call.node.outputs[1], axis=axis, keepdims=keep)


def _variance(call: Call, has_root: bool) -> None:
    shape, axes = call.kind_of("self").shape, call.ints("dim") or list(range(call.rank()))
    count = float(np.prod([int(shape[axis]) for axis in axes]))  # ValueError where a size is open
    correction = call.value("correction", 1)
    correction = int(call.value("unbiased", True)) if call.has("unbiased") else correction
    where, x = call.sketch.constant(axes, np.int64), call.operand("self")
    apart = call.add("Sub", [x, call.add("ReduceMean", [x, where], "", keepdims=1)], "")
    squares = call.add("ReduceSum", [call.add("Mul", [apart, apart], ""), where], "",
                       keepdims=int(call.value("keepdim", False)))  # fmt: skip
    divisor = call.sketch.constant(max(0.0, count - float(correction)), call.kind.dtype)
    made = call.add("Div", [squares, divisor], "" if has_root else None)
    if has_root:
        call.add("Sqrt", [made])


def _norm(call: Call) -> None:
    order = call.value("ord", 2)
    if order not in (1, 2):
        raise KeyError(f"norms of order {order}")
    _reduction(call, f"ReduceL{int(order)}")


def _softmax(call: Call, kind: str) -> None:
    call.add(kind, [call.operand("self")], axis=call.value("dim"))


def _cumulative_sum(call: Call) -> None:
    call.add("CumSum", [call.operand("self"), call.sketch.constant(call.value("dim"), np.int64)])


def _top_k(call: Call) -> None:
    k = call.sketch.constant([call.value("k")], np.int64)
    options = {"axis": call.value("dim", -1), "largest": int(call.value("largest", True))}
    call.add("TopK", [call.tensor("self"), k], call.node.outputs, **options, sorted=int(call.value("sorted", True)))


_UNARY = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "neg": "Neg",
    "abs": "Abs", "erf": "Erf", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sin": "Sin", "cos": "Cos",
    "reciprocal": "Reciprocal", "sign": "Sign", "hardswish": "HardSwish", "mish": "Mish",
    "tan": "Tan", "atan": "Atan",
}  # fmt: skip
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "maximum": "Max", "minimum": "Min"}
_COMPARED = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
_BITS = {"bitwise_and": "And", "__and__": "And", "bitwise_or": "Or", "__or__": "Or", "bitwise_not": "Not"}
_REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}

RULES: Mapping[str, Rule] = {
    **{name: partial(_one, kind=kind) for name, kind in _UNARY.items()},
    **{name: partial(_two, kind=kind) for name, kind in _BINARY.items()},
    **{name: partial(_comparison, kind=kind) for name, kind in _COMPARED.items()},
    **{name: partial(_reduction, kind=kind) for name, kind in _REDUCED.items()},
    **{name: partial(_logic, kind=kind) for name, kind in _LOGIC.items()},
    **{name: partial(_bits, kind=kind) for name, kind in _BITS.items()},
    **dict.fromkeys(("clone", "contiguous", "detach", "alias", "lift_fresh_copy"), _identity), "dropout": _dropout,
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    "ne": partial(_comparison, kind="Equal", is_inverse=True), "rsub": _reverse_difference, "div": _quotient,
    "floor_divide": partial(_quotient, default="floor"), "true_divide": _quotient, "remainder": _remainder,
    "pow": _power, "clamp": _clamp,
    "clamp_min": _clamp, "clamp_max": _clamp, "hardtanh": _hard_tanh, "relu6": _relu6, "silu": _times_sigmoid,
    "rsqrt": _rsqrt, "log1p": partial(_plus_one, kind="Log", sign=1), "expm1": partial(_plus_one, kind="Exp", sign=-1),
    "gelu": lambda call: _one(call, "Gelu", approximate=call.value("approximate", "none")),
    "leaky_relu": partial(_plain, kind="LeakyRelu", alpha=("negative_slope", 0.01)),
    "softplus": partial(_plain, kind="Softplus", unit=("beta",)),
    "elu": partial(_plain, kind="Elu", unit=("scale", "input_scale"), alpha=("alpha", 1.0)),
    "hardsigmoid": lambda call: _one(call, "HardSigmoid", alpha=1 / 6, beta=0.5),
    "where": _where, "masked_fill": _masked_fill, "any": partial(_any, kind="ReduceMax"),
    "all": partial(_any, kind="ReduceMin"), "argmax": partial(_arg, kind="ArgMax"),
    "argmin": partial(_arg, kind="ArgMin"), "max": partial(_extreme, kind="Max"), "min": partial(_extreme, kind="Min"),
    "var": partial(_variance, has_root=False), "std": partial(_variance, has_root=True), "linalg_vector_norm": _norm,
    "softmax": partial(_softmax, kind="Softmax"), "_softmax": partial(_softmax, kind="Softmax"),
    "log_softmax": partial(_softmax, kind="LogSoftmax"), "_log_softmax": partial(_softmax, kind="LogSoftmax"),
    "cumsum": _cumulative_sum, "topk": _top_k,
}  # fmt: skip
"""Name of an ATen operator, without its overload -> what it is."""
