"""The ONNX model that a program becomes, while it grows: nodes, constants, and the arguments of the call at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.torch_program.program import DTYPES, TensorType, TorchNode

OPSET = 20
"""ONNX's operator set of the nodes: the first with Gelu."""
OTHERS = "pytorch.aten"
"""Domain of operators that have no form here: they are refused by name where the graph is read."""


class OnnxSketch:
    """Nodes and constants of one model."""

    def __init__(self, tensors: Mapping[str, TensorType], weights: Mapping[str, np.ndarray]) -> None:
        self.tensors = tensors
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._kept: dict[tuple[str, str, tuple[int, ...], bytes], str] = {}
        self._used: set[str] = set()
        self.call = ""
        """The call at hand, after which what it needs on the way is named."""

    def add(self, kind: str, operands: Iterable[str], results: str | Sequence[str] = "", **attributes: Any) -> str:
        """Add a node; the name of its first result, a new one unless `results` names it."""
        names = [results] if isinstance(results, str) else list(results)
        names[0] = names[0] or self.fresh_name(kind.lower())
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(operands), names, name=f"node_{names[0]}", **given))
        return names[0]

    def fresh_name(self, word: str) -> str:
        """A name that no tensor has: "linear_3.matmul"."""
        name = stem = f"{self.call}.{word}".lstrip(".")
        number = 1
        while name in self._used or name in self.tensors:
            number += 1
            name = f"{stem}.{number}"
        self._used.add(name)
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant; equal ones are one."""
        array = np.asarray(value, dtype)
        key = (array.dtype.name, "", array.shape, array.tobytes())
        if key not in self._kept:
            self._kept[key] = self.fresh_name("constant")
            self.constants[self._kept[key]] = array
        return self._kept[key]

    def transposed_weight(self, name: str) -> str:
        """The transpose of a matrix: of a weight another weight, else a node."""
        weight = self.weights.get(name)
        if weight is None:
            return self.add("Transpose", [name], perm=[1, 0])
        turned = f"{name}.transposed"
        self.constants[turned] = np.ascontiguousarray(weight.T)
        return turned

    def cast(self, name: str, dtype: np.dtype[Any], now: np.dtype[Any] | None = None, result: str = "") -> str:
        """A tensor in another element type; itself where it has it already and needs no new name."""
        if (now or self.tensors[name].dtype) == dtype:
            return self.add("Identity", [name], result) if result else name
        return self.add("Cast", [name], result, to=helper.np_dtype_to_tensor_dtype(dtype))

    def value_infos(self, names: Iterable[str]) -> list[onnx.ValueInfoProto]:
        """Declarations of tensors; those whose sizes are formulas of symbols say their rank alone."""
        found = []
        for name in names:
            kind = self.tensors[name]
            shape = [size if isinstance(size, int) or size.isidentifier() else None for size in kind.shape]
            found.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind.dtype), shape))
        return found

    def initializers(self, names: Mapping[str, np.ndarray]) -> list[onnx.TensorProto]:
        """The constants, and those of `names` that a node reads."""
        read = {name for node in self.nodes for name in node.input}
        every = {**names, **self.constants}
        return [numpy_helper.from_array(value, name) for name, value in every.items() if name in read]


class Call:
    """One call of an ATen operator: its arguments by name, its results."""

    def __init__(self, sketch: OnnxSketch, node: TorchNode) -> None:
        self.sketch, self.node = sketch, node
        self.result = node.outputs[0] if node.outputs else ""

    @property
    def kind(self) -> TensorType:
        """Of the first result."""
        return self.sketch.tensors[self.result]

    def argument(self, name: str) -> Any:
        """(form, value) of an argument, (None, None) where it is left out or None."""
        found = self.node.arguments.get(name)
        if not found or "as_none" in found:
            return None, None
        ((form, value),) = found.items()
        return form, value

    def has(self, name: str) -> bool:
        """Whether an argument is given."""
        return self.argument(name)[0] is not None

    def value(self, name: str, default: Any = None) -> Any:
        """A number, a flag, a text or a list of them."""
        form, value = self.argument(name)
        if form is None:
            return default
        if form in ("as_sym_int", "as_sym_ints"):
            many = [value] if form == "as_sym_int" else value
            plain = [one["as_int"] for one in many]  # KeyError for a symbol, which no static attribute can be
            return plain[0] if form == "as_sym_int" else plain
        return value

    def ints(self, name: str, default: Sequence[int] = (), count: int = 0) -> list[int]:
        """A list of integers; one alone stands for `count` equal ones."""
        found = self.value(name, list(default))
        found = [found] if isinstance(found, int) else list(found)
        return found * count if count and len(found) == 1 else found

    def tensor(self, name: str) -> str:
        """The name of an operand; "" where there is none."""
        form, value = self.argument(name)
        return str(value["name"]) if form == "as_tensor" else ""

    def tensors(self, name: str) -> list[str]:
        """The names of a list of operands, "" for those left out."""
        _, value = self.argument(name)
        flat = [one.get("as_tensor", one) if "as_none" not in one else {"name": ""} for one in value or []]
        return [str(one["name"]) for one in flat]

    def kind_of(self, name: str) -> TensorType:
        """Element type and sizes of an operand."""
        return self.sketch.tensors[self.tensor(name)]

    def rank(self, name: str = "self") -> int:
        """Axes of an operand."""
        return len(self.kind_of(name).shape)

    def operand(self, name: str, dtype: np.dtype[Any] | None = None) -> str:
        """A tensor or a number as a tensor, in an element type (that of the result)."""
        wanted = dtype or self.kind.dtype
        form, value = self.argument(name)
        if form == "as_tensor":
            return self.sketch.cast(self.tensor(name), wanted)
        if form == "as_sym_int" and "as_name" in value:
            return self.sketch.cast(value["as_name"], wanted, np.dtype(np.int64))
        number = value["as_int"] if form == "as_sym_int" else value
        return self.sketch.constant(number, wanted)

    def sizes(self, name: str) -> str:
        """A list of sizes, symbols among them, as a vector of integers."""
        form, value = self.argument(name)
        if form != "as_sym_ints" or all("as_int" in one for one in value):
            return self.sketch.constant(self.ints(name), np.int64)
        known = [None if "as_name" in one else self.sketch.constant([one["as_int"]], np.int64) for one in value]
        parts = [one["as_name"] if name is None else name for one, name in zip(value, known, strict=True)]
        return self.sketch.add("Concat", parts, axis=0)

    def add(
        self, kind: str, operands: Iterable[str], results: str | Sequence[str] | None = None, **attributes: Any
    ) -> str:
        """Add a node that makes the first result, or `results`; "" for a new name."""
        return self.sketch.add(kind, operands, self.result if results is None else results, **attributes)

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """An element type that the call names."""
        form, value = self.argument(name)
        return DTYPES[value] if form == "as_scalar_type" else None
