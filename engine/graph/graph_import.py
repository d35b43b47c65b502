"""One walk over the nodes of an ONNX model that infers shapes, folds constants and follows aliases."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import defs, shape_inference

from engine.graph.check import check_graph, duplicate_producers, in_order, unique_names
from engine.graph.control_flow import LOOPS, steps_of
from engine.graph.fold import Folder
from engine.graph.host import (
    ALWAYS_ON_HOST,
    BRANCHES,
    HostResults,
    Values,
    choice_of,
    chosen_results,
    counted_results,
)
from engine.graph.limits import STANDARD, ask_for_sizes, checked_opsets, checked_shape
from engine.graph.nodes import Constant, HostStep, Operator, OperatorGraph, Tensor, dtype_text
from engine.graph.own_results import own_results
from engine.graph.results import Inference, Result, static_result
from engine.graph.scopes import scope_of
from engine.graph.subgraphs import captured_tensors, has_subgraphs
from engine.graph.unroll import left_out
from engine.graph.weights import (
    attribute_value,
    constant_value,
    dtype_name,
    input_dtype_name,
    light_fills,
    tensor_value,
)
from engine.support.errors import BadInput

_REFUSALS = (onnx.checker.ValidationError, RuntimeError, ValueError, TypeError)
"""Exceptions of ONNX's library for damaged models."""


class GraphImport:
    """One walk over a model."""

    def __init__(self, model: onnx.ModelProto, path: Path, dimensions: Mapping[str, int]) -> None:
        self._model, self._path, self._dimensions = model, path, dimensions
        self._tensors: dict[str, Tensor] = {}
        self._values: dict[str, np.ndarray] = {}
        self._constants: dict[str, Constant] = {}
        self._alias: dict[str, str] = {}
        self._unsupported: dict[str, str] = {}
        self._host: dict[str, HostStep] = {}
        self._symbols: set[str] = set()
        """Dimensions that the caller may give sizes."""
        self._dequantized: dict[str, onnx.NodeProto] = {}
        """Weight -> the node that makes it of constant codes."""
        self._origin: dict[str, str] = {}
        """Tensor of unknown shape -> the operator that first made shapes unknown."""
        self._opsets = checked_opsets(str(path), model)
        self._inference = Inference(model, self._values)
        self._folder = Folder(self._opsets, self._inference)
        self._makers: dict[str, onnx.NodeProto] = {}
        self._fills = light_fills(model)
        self._outputs = tuple(output.name for output in model.graph.output)
        self._public = frozenset(self._outputs)
        self._declared = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self._opsets.get("", 1)

    def value_of(self, name: str) -> np.ndarray | None:
        """The value of a tensor that is known once the graph was read."""
        return self._values.get(self._alias.get(name, name))

    def run(self) -> OperatorGraph:
        """The graph.  Raises BadInput also for sizes of what is no dimension."""
        inputs, kept = self.walk()
        self._check_dimensions()
        return self._graph(inputs, kept)

    def walk(self) -> tuple[tuple[str, ...], list[Operator]]:
        """The graph's inputs, and the operators that run."""
        for proto in self._model.graph.initializer:
            self._constant(proto.name, tensor_value(proto, self._path.parent))
        inputs = self._inputs()
        kept = []
        for op, node in self._nodes(inputs):
            kept += self._operator(op, node)
        return inputs, kept

    def _check_dimensions(self) -> None:
        """BadInput for a size of what is no dimension of the graph, and for one that the data cannot make."""
        decided = {decision.name: decision for step in self._host.values() for decision in step.decisions}
        unknown = sorted(set(self._dimensions) - self._symbols - decided.keys())
        if unknown:
            known = ", ".join(sorted({*self._symbols, *decided})) or "none"
            raise BadInput("graph", str(self._path), f"has no dimension {unknown[0]}", f"its open dimensions: {known}")
        for name, size in self._dimensions.items():
            if name in decided and size != decided[name].assumed:
                possible = f"the data can make it 0 to {decided[name].largest}"
                raise BadInput("graph", f"dimension {name}", f"is {size}", possible)

    def _inputs(self) -> tuple[str, ...]:
        """Declare the graph's inputs with their sizes bound."""
        names = []
        for value in self._model.graph.input:
            # Before IR version 4 initializers are listed among the inputs, too.
            if value.name in self._constants:
                continue
            subject = f"input {value.name}"
            if value.name in names:
                raise BadInput("graph", subject, "stands twice among the inputs", "export the model again")
            if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
                raise BadInput("graph", subject, "is no tensor with a known rank", "export it with an example input")
            shape = []
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                # An open dimension without a name can still be bound, by a name made from its place.
                symbol = dim.dim_param or f"{value.name}.{axis}"
                if dim.HasField("dim_value"):
                    shape.append(dim.dim_value)
                    continue
                self._symbols.add(symbol)
                if symbol not in self._dimensions:
                    asked = ask_for_sizes(self._model.graph.input, self._dimensions)
                    raise BadInput("graph", subject, f"dimension {symbol} has no size", asked)
                if (size := self._dimensions[symbol]) < 1:
                    raise BadInput("graph", subject, f"dimension {symbol} is {size}", "give it at least one element")
                shape.append(size)
            element = input_dtype_name(subject, value.type.tensor_type.elem_type)
            self._declare(Tensor(value.name, checked_shape(subject, shape), element))
            names.append(value.name)
        return tuple(names)

    def _nodes(self, inputs: tuple[str, ...]) -> list[tuple[Operator, onnx.NodeProto]]:
        """The nodes as named operators in topological order; BadInput for duplicates, cycles and undefined tensors."""
        nodes = list(self._model.graph.node)
        operators = unique_names(self._describe(node) for node in nodes)
        sources = {*inputs, *self._constants}
        problems = duplicate_producers(operators, sources)
        if problems:
            raise BadInput("graph", str(self._path), problems[0], "export it again")
        known = sources.union(*(op.outputs for op in operators)) if operators else sources
        for op in operators:
            for name in op.inputs:
                if name and name not in known:
                    raise BadInput("graph", op.name, f"reads {name}, which nothing writes", "export it again")
        for name in self._outputs:
            if name not in known:
                raise BadInput("graph", f"output {name}", "nothing writes it", "export it again")
        order, cycle = in_order(operators)
        if cycle:
            raise BadInput("graph", str(self._path), f"its operators form a cycle: {' -> '.join(cycle)}")
        node_of = {op.name: node for op, node in zip(operators, nodes, strict=True)}
        wanted = {name for op in operators for name in op.inputs}.union(self._outputs)
        return [(self._without_unread_outputs(op, wanted), node_of[op.name]) for op in order]

    def _without_unread_outputs(self, op: Operator, wanted: Collection[str]) -> Operator:
        """The operator without optional outputs that are never read; exporters declare them all."""
        opset = self._opsets.get("", 1)
        if len(op.outputs) < 2 or not defs.has(op.kind, opset, ""):
            return op
        declared = defs.get_schema(op.kind, opset).outputs
        optional = [place.option == defs.OpSchema.FormalParameterOption.Optional for place in declared]
        kept = (
            "" if at < len(optional) and optional[at] and name not in wanted else name
            for at, name in enumerate(op.outputs)
        )
        return replace(op, outputs=tuple(kept))

    def _describe(self, node: onnx.NodeProto) -> Operator:
        standard = node.domain in STANDARD
        return Operator(
            name=node.name,
            kind=node.op_type if standard else f"{node.domain}::{node.op_type}",
            inputs=(*node.input, *captured_tensors(node)),
            outputs=tuple(node.output),
            attributes={a.name: attribute_value(a, self._path.parent) for a in node.attribute},
            opset=self._opsets.get("" if standard else node.domain, 1),
            scope=scope_of(node.name, [(entry.key, str(entry.value)) for entry in node.metadata_props]),
        )

    def _operator(self, op: Operator, node: onnx.NodeProto) -> list[Operator]:
        """Add one operator: as a constant, as an alias of its input, or as an operator that runs."""
        inputs = tuple(self._alias.get(name, name) for name in op.inputs)
        public = not self._public.isdisjoint(op.outputs)
        # Light models replace a weight by a ConstantOfShape of the same size.
        if op.kind == "ConstantOfShape" and not self._fills.keys().isdisjoint(op.outputs) and not public:
            self._light(op, node, inputs)
            return []
        if inputs != op.inputs:
            # Tensors captured by subgraphs follow the node's own operands and stay in its subgraphs.
            own = inputs[: len(node.input)]
            del node.input[:]
            node.input.extend(own)
            op = replace(op, inputs=inputs)
        if _is_copy(op) and any(inputs[:1]) and op.outputs and not public:
            self._alias[op.outputs[0]] = inputs[0]
            return []
        self._makers.update(dict.fromkeys(node.output, node))
        results = self._fold(node) if op.kind != "Constant" else constant_value(op.attributes)
        if results is not None:
            return self._enter_constants(op, results)
        choice = choice_of(node)
        if choice and self._infer_choice(op, choice):
            branches = [tuple(self._alias.get(name, name) for name in names) for names in choice]
            return [replace(op, attributes=dict(zip(BRANCHES, branches, strict=True)))]
        self._infer(op, node)
        return [op]

    def _infer_choice(self, op: Operator, choice: Sequence[Sequence[str]]) -> bool:
        """Declare the results of an If that chooses between tensors, where all of them have known shapes."""
        branches = [[self._tensors.get(self._alias.get(name, name)) for name in names] for names in choice]
        known = [[tensor for tensor in tensors if tensor] for tensors in branches]
        condition = self._tensors.get(op.inputs[0])
        if known != branches or {*map(len, known)} != {len(op.outputs)} or not condition or condition.elements != 1:
            return False
        found = chosen_results(op.name, op.inputs[0], known, self._dimensions)
        self._enter_host(op, found)
        return True

    def _count_results(self, op: Operator, node: onnx.NodeProto) -> bool:
        """Declare results whose number the data decide: as the file declares, else the largest that it can be."""
        operands = [self._tensors[name] if name else None for name in node.input]
        values, sizes = Values(self._values, self._makers, self._tensors), dict(self._dimensions)
        found = counted_results(node, op.name, operands, values, sizes)
        for one in found.step.decisions if isinstance(found, HostResults) else ():
            declared = static_result(self._declared.get(one.tensor))
            if declared and one.axis is not None and one.name not in sizes:
                size = declared[1][one.axis]
                sizes[one.name] = size if one.largest is None else min(size, one.largest)
                found = counted_results(node, op.name, operands, values, sizes)
        if isinstance(found, str):
            why = self._refusal(op)
            self._unsupported[op.name] = f"the shape of {op.outputs[0]} {why}; {found}" if why else found
        elif found:
            self._enter_host(op, found)
        return isinstance(found, HostResults)

    def _refusal(self, op: Operator) -> str:
        """Why an operand whose own operands are known has no value; "" if none is so."""
        return next((f"is not known: {self._folder.refused[n]}" for n in op.inputs if n in self._folder.refused), "")

    def _enter_host(self, op: Operator, found: HostResults) -> None:
        """Declare what the host makes."""
        self._host[op.name] = found.step
        for name, (dtype, shape) in zip(op.outputs, found.results, strict=False):
            if name:
                self._declare(Tensor(name, checked_shape(f"tensor {name}", shape, least=0), dtype))

    def _fold(self, node: onnx.NodeProto) -> list[np.ndarray] | None:
        """The value of a node that has one.

        Dequantised weights have none, so that products take their codes; but those that are quantised again have.
        """
        values: Mapping[str, np.ndarray] = self._values
        if node.op_type == "DequantizeLinear" and all(name in values for name in node.input if name):
            self._dequantized[node.output[0]] = node
        elif node.op_type == "QuantizeLinear" and node.input and node.input[0] in self._dequantized:
            weight = self._folder.evaluate(self._dequantized[node.input[0]], values)
            values = values if weight is None else ChainMap({node.input[0]: weight[0]}, self._values)
        return self._folder.fold(node, values, self._tensors)

    def _enter_constants(self, op: Operator, results: Sequence[np.ndarray]) -> list[Operator]:
        """Add folded results as constants.  A graph output becomes a copy of a constant, because it needs a writer."""
        copies: list[Operator] = []
        for name, value in zip(op.outputs, results, strict=False):
            # An empty output needs no kernel; it stays a constant.
            if name in self._outputs and value.size:
                source = self._fresh_name(f"{name}.value")
                self._constant(source, value)
                self._declare(Tensor(name, tuple(value.shape), dtype_text(value.dtype)))
                self._values[name] = value
                suffix = f"#{len(copies) + 1}" if copies else ""
                copies.append(replace(op, name=op.name + suffix, kind="Identity", inputs=(source,), outputs=(name,)))
            elif name:
                self._constant(name, value)
        return copies

    def _fresh_name(self, name: str) -> str:
        """An unused tensor name derived from `name`."""
        while name in self._tensors or name in self._declared:
            name += "_"
        return name

    def _light(self, op: Operator, node: onnx.NodeProto, inputs: tuple[str, ...]) -> None:
        """Record a weight that a light model omits: opaque, although the file has a placeholder value."""
        if not inputs or inputs[0] not in self._values:
            raise BadInput("graph", op.name, "a light weight must have a constant shape")
        name = op.outputs[0]
        shape = checked_shape(f"weight {name}", [int(size) for size in self._values[inputs[0]].reshape(-1)])
        value = next((a.t.data_type for a in node.attribute if a.name == "value"), int(onnx.TensorProto.FLOAT))
        self._declare(Tensor(name, shape, dtype_name(f"weight {name}", value)))
        self._constants[name] = Constant(name, fill=self._fills[name])

    def _constant(self, name: str, value: np.ndarray) -> None:
        if name in self._constants:
            raise BadInput("graph", f"constant {name}", "stands twice in the file")
        self._constants[name] = Constant(name, value=value)
        self._values[name] = value
        self._declare(Tensor(name, tuple(value.shape), dtype_text(value.dtype)))

    def _declare(self, tensor: Tensor) -> None:
        self._tensors[tensor.name] = tensor

    def _infer(self, op: Operator, node: onnx.NodeProto) -> None:
        """Find the shapes of an operator's outputs, or note why it is unsupported."""
        unknown = [name for name in op.inputs if name and self._alias.get(name, name) not in self._tensors]
        results: Sequence[Result] = [None] * len(op.outputs)
        origin = self._origin[self._alias.get(unknown[0], unknown[0])] if unknown else ""
        if not unknown and (found := own_results(op, [self._tensors.get(name) for name in op.inputs])):
            for name, (dtype, shape) in zip(op.outputs, found, strict=True):
                self._declare(Tensor(name, checked_shape(f"tensor {name}", shape, least=0), dtype))
            return
        if not defs.has(node.op_type, self._opsets.get(node.domain, 1), node.domain):
            self._unsupported[op.name] = f"{op.kind} is no operator of ONNX's operator set {op.opset}"
        elif unknown:
            self._unsupported[op.name] = f"the shape of {unknown[0]} is not known, because of {origin}"
        else:
            results = self._infer_results(op, node)
            named = [(name, result) for name, result in zip(op.outputs, results, strict=True) if name]
            open_ = [name for name, result in named if not result and not static_result(self._declared.get(name))]
            if (open_ or (op.kind in ALWAYS_ON_HOST and None in results)) and self._count_results(op, node):
                return
        if op.kind == "Loop":
            self._unsupported[op.name] = LOOPS.format(steps_of(node))
        if op.kind == "Scan":
            types = {name: self._inference.type_of(self._tensors[name]) for name in node.input if name in self._tensors}
            self._unsupported[op.name] = left_out(node, types)
        for name, inferred in zip(op.outputs, results, strict=True):
            result = inferred or static_result(self._declared.get(name))
            if name and result:
                subject, (element, shape) = f"tensor {name}", result
                shape = checked_shape(subject, shape, least=0)
                self._declare(Tensor(name, shape, dtype_name(subject, element)))
            elif name:
                why = self._refusal(op) or "depends on the data"
                self._unsupported.setdefault(op.name, f"the shape of {name} {why}")
                self._origin[name] = origin or f"{op.name} ({op.kind})"

    def _infer_results(self, op: Operator, node: onnx.NodeProto) -> Sequence[Result]:
        schema = defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
        try:
            return self._inference.of(node, schema, self._tensors)
        except (*_REFUSALS, shape_inference.InferenceError) as error:
            if has_subgraphs(node):  # no kernel is made of it, and inference looks into graphs that leave types open
                self._unsupported[op.name] = f"{op.kind} has results of no known shape: {_last_line(error)}"
                return [None] * len(op.outputs)
            shapes = ", ".join(str(self._tensors[name]) for name in dict.fromkeys(filter(None, node.input)))
            reason = f"{op.kind} does not accept {shapes}: {_last_line(error)}"
            raise BadInput("graph", f"operator {op.name}", reason, "export the model again") from None

    def _graph(self, inputs: tuple[str, ...], operators: list[Operator]) -> OperatorGraph:
        """The finished graph, without operators that no output depends on, and without outputs of unknown shape."""
        needed = set(self._outputs)
        kept = []
        for op in reversed(operators):
            if not needed.isdisjoint(op.outputs):
                needed.update(op.inputs)
                kept.append(op)
        kept.reverse()
        names = needed.union(inputs, *(op.outputs for op in kept))
        lost = {name for op in kept if op.name in self._unsupported for name in op.outputs} - self._tensors.keys()
        for name in self._outputs:
            if name not in self._tensors and name not in lost:
                raise BadInput("graph", f"output {name}", "its shape is not known", "declare it in the file")
        graph = OperatorGraph(
            name=self._path.stem,
            operators=tuple(kept),
            tensors={name: tensor for name, tensor in self._tensors.items() if name in names},
            inputs=inputs,
            outputs=tuple(dict.fromkeys(name for name in self._outputs if name not in lost)),
            constants={name: constant for name, constant in self._constants.items() if name in needed},
            unsupported={op.name: self._unsupported[op.name] for op in kept if op.name in self._unsupported},
            host={op.name: self._host[op.name] for op in kept if op.name in self._host},
            source=self._path,
            dimensions=dict(self._dimensions),
        )
        violations = check_graph(graph)
        if violations:
            raise BadInput("graph", str(self._path), violations[0])
        return graph


def _is_copy(op: Operator) -> bool:
    """Identity, and Dropout outside training when nobody asks for its mask."""
    training = op.kind == "Dropout" and len(op.inputs) > 2 and op.inputs[2] != ""
    return op.kind == "Identity" or (op.kind == "Dropout" and not training and not any(op.outputs[1:]))


def _last_line(error: Exception) -> str:
    """The message of ONNX's inference without its C++ source positions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rpartition("] ")[2] if lines else "it gives no reason"
