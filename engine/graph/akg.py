"""AKG operator descriptions (MindSpore's fused operators as JSON) as operator graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.graph.check import check_graph, duplicate_producers, in_order, unique_names
from engine.graph.limits import checked_name, checked_shape
from engine.graph.nodes import INPUT_DTYPES, AttributeValue, Constant, Operator, OperatorGraph, Tensor, Update
from engine.support.budgets import MAX_COMPUTED, MAX_OPERATORS
from engine.support.errors import BadInput, Unsupported
from engine.support.files import read_json

_HINT = "the format is AKG's composite description"

IN_PLACE = ("InplaceAssign", "Assign")
"""Operators that write input 1 into the buffer of input 0."""

_SHAPED = ("Reshape", "BroadcastTo")
"""Operators whose attribute `shape` is their output's: files may leave it out."""

_OPERANDS: dict[str, tuple[int, int]] = {
    **dict.fromkeys("Neg Abs Exp Log Sqrt Rsqrt Reciprocal Tanh Square IsNan IsInf LogicalNot Cast".split(), (1, 1)),
    **dict.fromkeys("ReduceSum ReduceMax ReduceMin ReduceProd ElemAny BroadcastTo Reshape".split(), (1, 1)),
    **dict.fromkeys("Erf Floor Ceil Round Sign Sin Cos Asin Acos Atan Asinh Acosh IsFinite".split(), (1, 1)),
    **dict.fromkeys("Transpose PadAkg UnPadAkg CReal CImag ExpandDims Squeeze Argmax Argmin".split(), (1, 1)),
    **dict.fromkeys("Tile CumSum CumProd".split(), (1, 2)),
    **dict.fromkeys("Add Sub Mul RealDiv Maximum Minimum Pow TensorAdd LogicalAnd LogicalOr".split(), (2, 2)),
    **dict.fromkeys("Equal NotEqual Less LessEqual Greater GreaterEqual Gather Complex".split(), (2, 2)),
    **dict.fromkeys("Div FloorDiv FloorMod Mod Atan2".split(), (2, 2)),
    "StridedSlice": (1, 4),
    **dict.fromkeys("MatMul BatchMatMul Conv2D Assign InplaceAssign".split(), (2, 3)),
    **dict.fromkeys("Select OneHot".split(), (3, 3)),
    **dict.fromkeys("AddN Concat".split(), (1, 1024)),
}
"""The vocabulary, as far as MindSpore's graph kernels use it on GPUs, with the number of operands."""


def load_akg(path: Path) -> OperatorGraph:
    """Read one fused operator.  Scalar inputs with a value are constants; in-place writes become `updates`.

    Operators that stand behind an update and read its buffer read the new value.  The placeholder outputs of in-place
    operators with `fake_output` are no outputs of the graph.  Raises BadInput for text that is no such description, and
    Unsupported for element types that no array of ours can hold.
    """
    return _AkgReader(path).graph()


class _AkgReader:
    """Reads one file; every complaint names the part of it that is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors: dict[str, Tensor] = {}
        self._constants: dict[str, Constant] = {}

    def graph(self) -> OperatorGraph:
        document = self._document()
        inputs = self._tensors_of(document, "input_desc", "text")
        nodes = document.get("op_desc")
        if not isinstance(nodes, list) or not nodes:
            raise self._bad("op_desc", "holds no operators")
        if len(nodes) > MAX_OPERATORS:
            raise self._bad("op_desc", f"holds {len(nodes)} operators, at most {MAX_OPERATORS} are read")
        operators = unique_names(self._operator(node, f"op_desc[{at}]") for at, node in enumerate(nodes))
        outputs = self._tensors_of(document, "output_desc", "text")
        order, cycle = in_order(operators)
        if cycle:
            raise self._bad("op_desc", f"its operators form a cycle: {' -> '.join(cycle)}")
        # In-place updates follow the order of the file; a file that is out of order does not define it.
        if order == operators:
            order = tuple(self._after_updates(order))
        placeholders = {op.outputs[0] for op in operators if op.kind in IN_PLACE and op.attributes.get("fake_output")}
        graph = OperatorGraph(
            name=self._path.stem,
            operators=order,
            tensors=self._tensors,
            inputs=tuple(dict.fromkeys(name for name in inputs if name not in self._constants)),
            outputs=tuple(dict.fromkeys(name for name in outputs if name not in placeholders)),
            constants=self._constants,
            updates=tuple(Update(op.inputs[0], op.inputs[1]) for op in order if op.kind in IN_PLACE),
            unsupported={op.name: f"{op.kind} is no operator of AKG" for op in order if op.kind not in _OPERANDS},
            source=self._path,
            dialect="akg",
        )
        problems = duplicate_producers(operators, {*graph.inputs, *graph.constants}) or check_graph(graph)
        if problems:
            raise self._bad("op_desc", problems[0])
        return graph

    def _bad(self, where: str, reason: str) -> BadInput:
        return BadInput("graph", f"{self._path}, {where}", reason, _HINT)

    def _document(self) -> dict[str, Any]:
        document = read_json(self._path, "graph", _HINT)
        if not isinstance(document, dict) or "op_desc" not in document:
            raise self._bad("text", "is no operator description: it has no op_desc")
        return document

    def _tensors_of(self, holder: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
        """The tensors of a description: a list of lists, a flat list, or null for none."""
        lists = holder.get(key)
        if not isinstance(lists, list | None):
            raise self._bad(where, f"{key} {_short(lists)} is no list")
        flat = (tensor for entry in lists or () for tensor in (entry if isinstance(entry, list) else [entry]))
        return tuple(self._tensor(tensor, f"{where} {key}") for tensor in flat)

    def _tensor(self, entry: object, where: str) -> str:
        """Declare a tensor (and its value if it has one); the same name must always have the same shape and type."""
        if not isinstance(entry, dict):
            raise self._bad(where, f"{_short(entry)} is no tensor")
        name, shape, dtype = entry.get("tensor_name"), entry.get("shape"), entry.get("data_type")
        if not isinstance(name, str) or not name:
            raise self._bad(where, "a tensor has no tensor_name")
        where = f"{where}, tensor {checked_name(str(self._path), name)}"
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise self._bad(where, f"its shape {_short(shape)} is no list of integers")
        if not isinstance(dtype, str):
            raise self._bad(where, f"its data_type {_short(dtype)} is no text")
        if dtype not in INPUT_DTYPES:
            raise Unsupported("graph", f"{self._path}, {where}", f"holds {dtype} elements", "use float32 or float16")
        tensor = Tensor(name, checked_shape(f"{self._path}, {where}", shape), dtype)
        if self._tensors.setdefault(name, tensor) != tensor:
            raise self._bad(where, f"is {tensor} here and {self._tensors[name]} elsewhere")
        if "value" in entry:
            self._value(tensor, entry["value"], where)
        return name

    def _value(self, tensor: Tensor, value: object, where: str) -> None:
        """A constant operand: one number, or a list of as many as the tensor has elements."""
        try:
            # Parsed wide first, so that values out of range are noticed or become infinity, and not wrap.
            array = np.array(value, dtype=np.float64 if tensor.dtype.startswith("float") else np.int64)
        except (ValueError, TypeError, OverflowError):
            raise self._bad(where, f"its value {_short(value)} is no number") from None
        if array.size not in (1, tensor.elements):
            raise self._bad(where, f"its value has {array.size} numbers for {tensor.elements} elements")
        if tensor.elements > MAX_COMPUTED:
            raise self._bad(where, f"its value fills {tensor.elements} elements, at most {MAX_COMPUTED} are computed")
        with np.errstate(over="ignore"):
            array = array.astype(tensor.dtype)
        shaped = array.reshape(tensor.shape) if array.size == tensor.elements else np.full(tensor.shape, array)
        self._constants[tensor.name] = Constant(tensor.name, value=shaped)

    def _operator(self, node: object, where: str) -> Operator:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise self._bad(where, "is no operator with a name")
        where = f"{where} {node['name']}"
        outputs = self._tensors_of(node, "output_desc", where)
        if not outputs:
            raise self._bad(where, "has no output")
        attributes = self._attributes(node.get("attr"), where)
        if node["name"] in _SHAPED:
            attributes.setdefault("shape", self._tensors[outputs[0]].shape)
        inputs = self._tensors_of(node, "input_desc", where)
        least, most = _OPERANDS.get(node["name"], (0, 1024))
        if not least <= len(inputs) <= most:
            raise self._bad(where, f"has {len(inputs)} operands, it takes {least} to {most}")
        return Operator("", node["name"], inputs, outputs, attributes, "akg")

    def _after_updates(self, operators: Iterable[Operator]) -> Iterator[Operator]:
        """Operators in an order to run, with every read of a buffer after its update made a read of the new value.

        A read of an update's target then always means the old contents.
        """
        newest: dict[str, str] = {}
        for op in operators:
            kept = 1 if op.kind in IN_PLACE else 0  # the buffer that an update writes into stays that buffer
            yield replace(op, inputs=(*op.inputs[:kept], *(newest.get(name, name) for name in op.inputs[kept:])))
            if kept:
                target, value = self._tensors[op.inputs[0]], self._tensors[op.inputs[1]]
                if (target.shape, target.dtype) == (value.shape, value.dtype):
                    newest[target.name] = newest.get(value.name, value.name)

    def _attributes(self, entries: object, where: str) -> dict[str, AttributeValue]:
        if entries is None:
            return {}
        if not isinstance(entries, list):
            raise self._bad(where, f"attr {_short(entries)} is no list")
        attributes: dict[str, AttributeValue] = {}
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise self._bad(where, f"attribute {_short(entry)} has no name")
            value = entry.get("value")
            if isinstance(value, list) and all(isinstance(v, int | float | str) for v in value):
                attributes[entry["name"]] = tuple(value)
            elif isinstance(value, bool | int | float | str):
                attributes[entry["name"]] = value
            elif value is not None:
                raise self._bad(where, f"attribute {entry['name']} has the value {_short(value)}")
        return attributes


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
