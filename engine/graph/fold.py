"""Constant folding: exporters compute shapes, axes and scale factors in the graph; here they become constants.

The arithmetic is ONNX's own reference implementation at the model's operator set, so that folding adds no second
opinion on what operators mean.  What it would cost is known before anything is computed: the sizes of results come from
ONNX's inference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from engine.graph.limits import checked_shape
from engine.graph.nodes import Tensor
from engine.graph.results import Inference, Result
from engine.graph.subgraphs import has_subgraphs
from engine.support.budgets import MAX_COMPUTED, MAX_PRODUCTS, MAX_READ, MAX_WEIGHT
from engine.support.errors import BadInput

_NEVER = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
    "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv", "Col2Im", "Det", "DFT", "STFT",
    "AveragePool", "MaxPool", "LpPool", "MaxRoiPool", "MaxUnpool", "RoiAlign", "GridSample", "LRN", "GRU", "LSTM",
    "RNN", "NonMaxSuppression", "ImageDecoder", "TfIdfVectorizer",
)  # fmt: skip
"""Never folded: random operators, and operators whose work does not follow from the sizes of their operands."""
_PRODUCTS = ("MatMul", "MatMulInteger", "Gemm", "Einsum", "QLinearMatMul")
"""Operators that multiply their operands' elements with each other."""
_AT_MOST_OPERANDS = ("NonZero", "Unique", "Compress")
"""Operators whose result size is unknown before they run but at most that of their operands."""
_ON_WEIGHTS = ("QuantizeLinear",)
"""Operators that exporters leave on whole weights."""
_IGNORED = ("consumed_inputs",)
"""Attributes that affect memory use, not results."""
REFUSALS = (
    NotImplementedError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, NameError, AssertionError,
    ArithmeticError, MemoryError, onnx.checker.ValidationError, shape_inference.InferenceError,
)  # fmt: skip
"""Exceptions of ONNX's reference implementation for what it cannot compute."""


class Folder:
    """Evaluates operators whose operands are known; equal operators share one evaluator."""

    def __init__(self, opsets: Mapping[str, int], inference: Inference) -> None:
        self._opsets, self._inference = opsets, inference
        self._evaluators: dict[bytes, onnx.reference.ReferenceEvaluator] = {}
        self._versions: dict[str, tuple[int, str]] = {}
        self.refused: dict[str, str] = {}
        """Tensor that depends on constants alone -> why its value is unknown nevertheless."""

    def fold(
        self, node: onnx.NodeProto, values: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]
    ) -> list[np.ndarray] | None:
        """The node's results, or None where it has to run: an operand is unknown or large, or the node is random.

        values: the constants known so far; tensors: all that are known so far.  Raises BadInput for arithmetic that
        has no result.
        """
        kind = node.op_type
        # Needs the operand's shape, not its value.
        if kind in ("Shape", "Size") and node.input and node.input[0] in tensors:
            return [_shape(node, tensors[node.input[0]].shape)]
        unknown = [name for name in node.input if name and name not in values]
        # Depends on run-time data: it runs in a kernel, which is no refusal.
        if any(name not in self.refused for name in unknown):
            return None
        reason = self.refused[unknown[0]] if unknown else ""
        if not reason and kind == "ConstantOfShape" and node.input:
            return [_fill_shape(node, values.get(node.input[0]))]
        try:
            reason = reason or self._obstacle(node, values, tensors)
            if not reason:
                return self._run(node, [values.get(name) if name else None for name in node.input])
        except ZeroDivisionError as error:
            operands = ", ".join(str(values[name].tolist())[:40] for name in node.input if name)
            what = f"{kind} of {operands} has no result: {error}"
            raise BadInput("graph", f"operator {node.name or kind}", what, "export the model again") from None
        except REFUSALS as error:
            reason = f"{_node_label(node)} is not computed when the file is read: {_first_line(error)}"
        self.refused.update((name, reason) for name in node.output if name)
        return None

    def evaluate(self, node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        """The results of a node on whole weights, whose operands are all known; None where they are too large."""
        if sum(values[name].size for name in node.input if name) > 2 * MAX_WEIGHT or not self._version(node)[0]:
            return None
        try:
            return self._run(node, [values[name] if name else None for name in node.input])
        except REFUSALS:
            return None

    def _obstacle(self, node: onnx.NodeProto, values: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]) -> str:
        """Why a node is not evaluated, without evaluating it; "" if it can be.  Raises one of `REFUSALS`, too."""
        if node.op_type in _NEVER or has_subgraphs(node):
            return f"{_node_label(node)} is not computed when the file is read"
        operands = [values[name].size for name in node.input if name]
        most = MAX_WEIGHT if node.op_type in _ON_WEIGHTS else MAX_READ
        if max(operands, default=0) > most:
            return f"{_node_label(node)} reads {max(operands)} elements; values are computed from at most {most}"
        if node.op_type == "DequantizeLinear" and values[node.input[0]].ndim > 1:
            return f"{_node_label(node)} is multiplied as its codes"
        if not defs.has(node.op_type, self._opset(node), node.domain):
            return f"{_node_label(node)} is no operator of ONNX's operator set {self._opset(node)}"
        version, other = self._version(node)
        if not version:
            return f"{_node_label(node)} is not computed when the file is read: {other}"
        found = self._inference.of(node, defs.get_schema(node.op_type, self._opset(node), node.domain), tensors)
        results = [result for name, result in zip(node.output, found, strict=True) if name]
        size = sum(operands) if node.op_type in _AT_MOST_OPERANDS else _elements(results)
        if size is None:
            return f"{_node_label(node)} has results of unknown size"
        largest = max(most, MAX_COMPUTED)
        if size > largest:
            return f"{_node_label(node)} has {size} elements; values of at most {largest} are computed"
        if node.op_type in _PRODUCTS and math.prod(operands) > MAX_PRODUCTS:
            return f"{_node_label(node)} takes {math.prod(operands)} products; at most {MAX_PRODUCTS} are computed"
        return ""

    def _opset(self, node: onnx.NodeProto) -> int:
        return self._opsets.get(node.domain, 1)

    def _version(self, node: onnx.NodeProto) -> tuple[int, str]:
        """The operator set at which to evaluate a node; 0 and the reason if the reference lacks its form."""
        if node.domain:
            return self._opset(node), ""
        if node.op_type not in self._versions:
            self._versions[node.op_type] = _evaluated_at(node.op_type, self._opset(node))
        return self._versions[node.op_type]

    def _run(self, node: onnx.NodeProto, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Evaluate a node; raises one of `REFUSALS` where the reference lacks or refuses it."""
        from onnx.reference import ReferenceEvaluator  # a slow import that most files never need

        # Without tensor names, so that equal nodes share one evaluator.
        nameless = onnx.NodeProto()
        nameless.op_type, nameless.domain = node.op_type, node.domain
        nameless.input.extend(f"x{at}" if name else "" for at, name in enumerate(node.input))
        nameless.output.extend(f"y{at}" if name else "" for at, name in enumerate(node.output))
        nameless.attribute.extend(node.attribute)
        key = nameless.SerializeToString(deterministic=True)
        if key not in self._evaluators:
            # A graph, as a bare node would be evaluated at the newest operator set, whatever `opsets` says.
            sides = nameless.input, nameless.output
            given, made = ([onnx.ValueInfoProto(name=name) for name in names if name] for names in sides)
            graph = helper.make_graph([nameless], "folded", given, made)
            self._evaluators[key] = ReferenceEvaluator(graph, opsets={node.domain: self._version(node)[0]})
        feeds = {f"x{at}": value for at, value in enumerate(operands) if value is not None}
        # Overflow and division by zero mean in a folded value what they mean in a kernel: infinity or NaN.
        with np.errstate(all="ignore"):
            found = iter(self._evaluators[key].run(None, feeds))
        return [np.asarray(next(found)) if name else np.empty(0) for name in node.output]


def _evaluated_at(kind: str, opset: int) -> tuple[int, str]:
    """The operator set at which the reference implements what an operator means at `opset`; 0 and the reason if there
    is none."""
    from onnx.reference.ops import load_op

    newest = defs.onnx_opset_version()
    own, reason = defs.get_schema(kind, opset, ""), ""
    # Operators defined by a function body are evaluated through it, at their own operator set.
    if own.has_function:
        return opset, ""
    for version in range(opset, newest + 1):
        try:
            implementation = load_op("", kind, version)
        except REFUSALS as error:
            reason = reason or _first_line(error)
            continue
        # Named after the version that it is for (Squeeze_11), or made for the newest one.
        made_for = version if implementation.__name__ != kind else newest
        if made_for == opset:
            return opset, ""
        difference = _difference(own, defs.get_schema(kind, made_for, ""))
        return (0, difference) if difference else (version, "")
    return 0, reason


def _difference(old: defs.OpSchema, new: defs.OpSchema) -> str:
    """The first attribute or operand of an operator that a newer definition lacks; "" if none."""
    form = f"ONNX's reference lacks its form of operator set {old.since_version}"
    for name, attribute in old.attributes.items():
        now = new.attributes.get(name)
        if name not in _IGNORED and (now is None or now.default_value != attribute.default_value):
            return f"{form} (attribute {name})"
    operands, theirs = list(old.inputs), list(new.inputs)
    are_first = [place.name for place in operands] == [place.name for place in theirs[: len(operands)]]
    optional = defs.OpSchema.FormalParameterOption.Optional
    if are_first and all(place.option == optional for place in theirs[len(operands) :]):
        return ""
    return f"{form} (operands {', '.join(place.name for place in operands)})"


def _elements(results: Sequence[Result]) -> int | None:
    """Elements of the largest result; None where the size of one is open."""
    shapes = [result[1] if result is not None else None for result in results]
    return None if None in shapes else max((math.prod(shape) for shape in shapes if shape is not None), default=0)


def _node_label(node: onnx.NodeProto) -> str:
    return f"{node.name or next(filter(None, node.output), '')} ({node.op_type})"


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _shape(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    if node.op_type == "Size":
        return np.array(int(np.prod(shape, dtype=np.int64)), np.int64)
    limits = {a.name: a.i for a in node.attribute}
    return np.array(shape[limits.get("start", 0) : limits.get("end", len(shape))], np.int64)


def _fill_shape(node: onnx.NodeProto, shape: np.ndarray | None) -> np.ndarray:
    """A constant array as a broadcast view, which needs no memory per element."""
    given = (onnx.numpy_helper.to_array(attribute.t) for attribute in node.attribute if attribute.name == "value")
    value = next(given, np.zeros(1, np.float32))
    sizes = [] if shape is None else [int(size) for size in shape.reshape(-1)]
    if value.size != 1:
        raise BadInput("graph", f"operator {node.name}", f"fills with {value.size} values", "one is allowed")
    dims = checked_shape(f"operator {node.name}", sizes, least=0 if 0 in sizes else 1)
    return np.broadcast_to(value.reshape(()), dims)
