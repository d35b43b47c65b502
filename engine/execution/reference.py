"""Inputs of a graph and its expected results, from an independent implementation.

ONNX files run in ONNX Runtime as they were written, with the wanted intermediate tensors exposed as outputs.  AKG
files, which no other tool runs, are evaluated operator by operator with NumPy in float64, each tensor rounded to its
declared type.  Everything is seeded by name, so that any subset of tensors has the same values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from engine.execution.domains import positive_inputs
from engine.execution.noise import Noise
from engine.execution.runtime_session import RUNTIME_IR, feed_weights, replace_all, run_session, tensor_info
from engine.graph.model_file import read_model
from engine.graph.nodes import INPUT_DTYPES, Fill, Operator, OperatorGraph, Tensor, is_float
from engine.graph.onnx import model_of
from engine.graph.subgraphs import captured_tensors
from engine.graph.weights import is_number, metadata
from engine.support.budgets import MAX_REFERENCE_BYTES
from engine.support.errors import BadInput, OverBudget, Unsupported
from engine.tensor.operators import rule_of
from engine.tensor.operators.attributes import integer

Values = dict[str, np.ndarray]

MAX_NONFINITE = 0.01
"""Share of infinities and NaNs above which a comparison with a kernel is meaningless."""

_PIECE = 2**22
"""Elements of a tensor that are drawn at a time."""

_POSITIVE_DOMAIN = ("Sqrt", "Rsqrt", "Log", "Pow")
_INDEX_INPUTS = {"Gather": 1, "GatherND": 1, "GatherElements": 1, "OneHot": 0}


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution that the values of an input are drawn from."""

    kind: str
    """"normal" (standard), "uniform", "positive" (uniform too), "integers" (`high` is not among them) or "true"."""
    low: float = 0.0
    high: float = 0.0


def input_values(graph: OperatorGraph, seed: int = 0) -> Values:
    """The value before the run of every graph input and constant, in its declared type.

    Light weights follow their recorded distribution, inputs the file's `light.inputs` ranges; other floats are standard
    normal, index inputs in range, booleans random.  Inputs whose sign decides whether a root or a logarithm is defined
    are positive; where an AKG graph is outside such a domain for another reason, all that lead there are.
    """
    values = _draw_all(graph, seed, always_positive(graph))
    suspects = domain_inputs(graph)
    if suspects and check_finite(_evaluate_operators(graph, values), _masks(graph)):
        values = _draw_all(graph, seed, suspects)
    return values


def reference_values(
    graph: OperatorGraph, seed: int = 0, wanted: Collection[str] | None = None, noise: Noise | None = None
) -> Values:
    """The value after the run of every wanted tensor (by default all), from the inputs of `input_values`.

    noise: what is put on the results of operators.

    A tensor that the graph updates in place has its new contents.  Raises BadInput when a tensor has more than 1 % of
    values that are not finite, OverBudget when the values need more than 5 GiB, Unsupported when the reference
    lacks an operator.
    """
    names = list(graph.tensors) if wanted is None else [name for name in dict.fromkeys(wanted) if name]
    for name in names:
        if name not in graph.tensors:
            raise BadInput("reference", f"tensor {name}", "is not in the graph")
    size = sum(graph.tensors[name].bytes for name in names)
    if size > MAX_REFERENCE_BYTES:
        reason = f"the values of {len(names)} tensors are {size / 2**30:.1f} GiB"
        raise OverBudget("reference", graph.name, reason, "ask for fewer tensors at a time")
    given = input_values(graph, seed)
    by_runtime = graph.dialect == "onnx" and graph.source is not None
    if by_runtime:
        computed = _from_runtime(graph, given, names, seed, noise)
    else:
        computed = _evaluate_operators(graph, given, noise)
    values = {**given, **computed}
    values.update({update.target: values[update.value].astype(values[update.target].dtype) for update in graph.updates})
    result = {name: values[name] for name in names}
    broken = check_finite({name: result[name] for name in names if name not in graph.constants}, _masks(graph))
    if broken and noise is None:
        raise BadInput("reference", graph.name, broken[0], "its inputs need other ranges (metadata light.inputs)")
    return result


def _masks(graph: OperatorGraph) -> bool:
    """Whether a constant holds -inf, as what masks scores does."""
    values = (constant.value for constant in graph.constants.values() if constant.value is not None)
    return any(is_float(value.dtype) and bool(np.isneginf(value).any()) for value in values)


def check_finite(values: Mapping[str, np.ndarray], masks: bool = False) -> tuple[str, ...]:
    """Tensors of which more than 1 % is infinite or NaN, in words.

    masks: whether -inf is meant; other masks use the lowest finite number instead.
    """
    found = []
    for name, value in values.items():
        if is_float(value.dtype) and value.size:
            sound = np.isfinite(value) | np.isneginf(value) if masks else np.isfinite(value)
            broken = value.size - np.count_nonzero(sound)
            if broken > MAX_NONFINITE * value.size:
                found.append(f"{broken / value.size:.0%} of {name} is not finite")
    return tuple(found)


def operator_values(graph: OperatorGraph, op: Operator, known: Mapping[str, np.ndarray]) -> Values:
    """The results of one operator of an ONNX file, from values of what it reads: for operators without a kernel.

    Raises Unsupported when the runtime lacks it, or when it reads a tensor that `known` lacks.
    """
    assert graph.source is not None
    model = model_of(graph)
    node = next(node for node in model.graph.node if set(filter(None, op.outputs)) <= set(node.output))
    feeds = dict(zip((*node.input, *captured_tensors(node)), op.inputs, strict=True))
    given = {own: known[name] for own, name in feeds.items() if name and name in known}
    lacking = [name for name in feeds.values() if name and name not in known]
    if lacking:
        raise Unsupported("reference", f"operator {op.name}", f"reads {lacking[0]}, which has no value")
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
    ]
    outputs = [name for name in node.output if name and name in op.outputs]
    single = helper.make_graph([node], op.name, inputs, [onnx.ValueInfoProto(name=name) for name in outputs])
    alone = helper.make_model(single, opset_imports=model.opset_import, ir_version=min(model.ir_version, RUNTIME_IR))
    return run_session(alone, graph.name, given, outputs)


def decided_sizes(graph: OperatorGraph, seed: int = 0) -> dict[str, int]:
    """The dimensions of a graph that its data decide, as the inputs of `input_values` make them.

    Raises Unsupported where ONNX Runtime does not run the file.
    """
    decisions = [one for step in graph.host.values() for one in step.decisions if not one.is_limit]
    if not decisions:
        return {}
    given = input_values(graph, seed)
    told = sorted({decision.tensor for decision in decisions})
    found = {**given, **_run(model_of(graph), graph, given, told, None)}
    return {
        one.name: int(found[one.tensor].reshape(-1)[0]) if one.axis is None else found[one.tensor].shape[one.axis]
        for one in decisions
    }


# -- seeded values


def _random_stream(seed: int, name: str) -> np.random.RandomState:
    """The stream of one tensor: RandomState, whose output NumPy keeps frozen, seeded by the name's checksum."""
    return np.random.RandomState(zlib.crc32(f"{seed}:{name}".encode()) & 0x7FFFFFFF)


def weight_values(tensor: Tensor, fill: Fill, seed: int = 0) -> np.ndarray:
    """The value of an opaque weight: its distribution in float32, rounded to its type."""
    stream = _random_stream(seed, tensor.name)
    if fill.distribution == "normal":
        return _in_pieces(tensor, lambda count: (stream.standard_normal(count) * fill.b + fill.a).astype(np.float32))
    return _in_pieces(tensor, lambda count: stream.uniform(fill.a, fill.b, count).astype(np.float32))


def _in_pieces(tensor: Tensor, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """A tensor of the next numbers that `draw` gives, rounded to its type piece by piece: streams give 8 bytes each."""
    values = np.empty(tensor.elements, tensor.dtype)
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        piece[:] = draw(piece.size).astype(tensor.dtype)
    return values.reshape(tensor.shape)


def _draw_all(graph: OperatorGraph, seed: int, positive: Collection[str]) -> Values:
    values = {
        name: _input(graph, name, seed, drawn) for name, drawn in distributions(graph, graph.inputs, positive).items()
    }
    return {**values, **constant_values(graph, seed)}


def constant_values(graph: OperatorGraph, seed: int = 0, names: Collection[str] | None = None) -> Values:
    """The value of every constant (or of those in `names`): the file's, or drawn where the file leaves it out."""
    values = {}
    for name in graph.constants if names is None else names:
        constant = graph.constants[name]
        if constant.value is None and constant.of:
            whole = constant_values(graph, seed, (constant.of,)).get(constant.of)
            if whole is not None:
                values[name] = whole.transpose(constant.order)
            continue
        if constant.fill is not None:
            values[name] = weight_values(graph.tensors[name], constant.fill, seed)
        elif constant.value is not None:
            values[name] = constant.value
    return values


def _ranges(graph: OperatorGraph) -> dict[str, object]:
    if graph.source is None or graph.dialect != "onnx":
        return {}
    return metadata(read_model(graph.source), "light.inputs")


def distributions(graph: OperatorGraph, names: Iterable[str], positive: Collection[str]) -> dict[str, Distribution]:
    """Input tensor -> what its values are drawn from; positive: those without a given range that shall be above 0."""
    ranges = _ranges(graph)
    return {name: _distribution(graph, name, ranges, name in positive) for name in names}


def always_positive(graph: OperatorGraph) -> frozenset[str]:
    """Inputs without a given range whose sign decides whether a root or a logarithm is defined."""
    ranges = _ranges(graph)
    return positive_inputs(graph, [name for name in graph.inputs if name not in ranges])


def domain_inputs(graph: OperatorGraph) -> frozenset[str]:
    """Inputs without a given range from which a root or a logarithm is computed."""
    is_without_ranges = graph.dialect == "akg" or graph.source is None
    return _inputs_leading_to(graph, _POSITIVE_DOMAIN) if is_without_ranges else frozenset()


def _input(graph: OperatorGraph, name: str, seed: int, drawn: Distribution) -> np.ndarray:
    tensor, stream = graph.tensors[name], _random_stream(seed, f"input:{name}")
    match drawn.kind:
        case "true":
            return np.ones(tensor.shape, bool)
        case "integers":
            return _in_pieces(tensor, lambda count: np.asarray(stream.randint(int(drawn.low), int(drawn.high), count)))
        case "uniform":
            return _in_pieces(tensor, lambda count: stream.uniform(drawn.low, drawn.high, count))
        case "positive":
            return _in_pieces(tensor, lambda count: stream.uniform(drawn.low, drawn.high, count).astype(np.float32))
        case _:
            return _in_pieces(tensor, lambda count: stream.standard_normal(count).astype(np.float32))


def _distribution(graph: OperatorGraph, name: str, ranges: Mapping[str, object], positive: bool) -> Distribution:
    tensor = graph.tensors[name]
    low, high = _range(name, ranges)
    if tensor.dtype == "bool":
        return Distribution("true") if ranges else Distribution("integers", 0, 2)
    if "int" in tensor.dtype:
        limits = np.iinfo(tensor.dtype)
        if tensor.dtype in ("int8", "uint8") and name not in ranges:  # codes of quantised numbers
            return Distribution("integers", limits.min, limits.max + 1)
        first, end = (int(low), int(high)) if name in ranges else (0, _index_bound(graph, name) or 2)
        if not limits.min <= first < end <= limits.max:
            raise BadInput("reference", f"metadata light.inputs, {name}", f"[{first}, {end}] holds no {tensor.dtype}")
        return Distribution("integers", first, end)
    if name in ranges:
        return Distribution("uniform", low, high)
    return Distribution("positive", 0.5, 1.5) if positive else Distribution("normal")


def _range(name: str, ranges: Mapping[str, object]) -> tuple[float, float]:
    match ranges.get(name, [0, 2]):
        case [low, high] if is_number(low) and is_number(high) and low < high:
            return low, high
        case other:
            raise BadInput("reference", f"metadata light.inputs, {name}", f"{other!r} is no [low, high]")


def _index_bound(graph: OperatorGraph, name: str) -> int:
    """The smallest axis that the elements of an integer input index, also through casts and reshapes; 0 if none."""
    aliases, bounds = {name}, []
    for op in graph.operators:
        if any(tensor and tensor not in graph.tensors for tensor in (*op.inputs, *op.outputs)):
            continue  # behind an operator whose results have no known shape
        at = _INDEX_INPUTS.get(op.kind)
        if at is not None and len(op.inputs) > at and op.inputs[at] in aliases:
            bounds += _indexed_sizes(op, graph)
        elif op.inputs and op.inputs[0] in aliases and graph.tensors[op.outputs[0]].dtype in ("int64", "int32"):
            aliases.update(op.outputs)
    return min(bounds, default=0)


def _indexed_sizes(op: Operator, graph: OperatorGraph) -> list[int]:
    if op.kind == "OneHot":
        return [graph.tensors[op.outputs[0]].shape[integer(op, "axis", -1)]]
    shape = graph.tensors[op.inputs[0]].shape
    if op.kind == "GatherND":
        batch = integer(op, "batch_dims", 0)
        return list(shape[batch : batch + graph.tensors[op.inputs[1]].shape[-1]])
    return [shape[integer(op, "axis", 0)]]


def _inputs_leading_to(graph: OperatorGraph, kinds: Iterable[str]) -> frozenset[str]:
    """Graph inputs that operators of these kinds depend on."""
    needed: set[str] = set()
    for op in reversed(graph.operators):
        if op.kind in kinds or not needed.isdisjoint(op.outputs):
            needed.update(op.inputs)
    return frozenset(needed.intersection(graph.inputs))


# -- AKG: operator by operator in float64


def _evaluate_operators(graph: OperatorGraph, given: Values, noise: Noise | None = None) -> Values:
    """The value of every tensor that operators write, each rounded to its declared type."""
    values = dict(given)
    computed: Values = {}
    for op in graph.operators:
        rule = rule_of(op)
        if rule is None:
            raise Unsupported("reference", f"operator {op.name}", f"{op.kind} has no meaning here")
        operands = [_as_float64(values[name]) if name else np.empty(0) for name in op.inputs]
        operands = noise.on_operands(op, operands) if noise else operands
        try:
            with np.errstate(all="ignore"):
                results = rule.meaning(op, operands)
                for name, result in zip(op.outputs, results, strict=False):
                    if name:
                        own = graph.tensors[name]
                        result = noise.on_result(name, result) if noise else result
                        computed[name] = values[name] = np.asarray(result).astype(own.dtype).reshape(own.shape)
        except (IndexError, ValueError, TypeError, ZeroDivisionError) as error:  # attributes that do not fit
            shapes = ", ".join(str(list(operand.shape)) for operand in operands)
            reason = f"{op.kind} of {shapes or 'nothing'} has no value: {error}"
            raise BadInput("reference", f"operator {op.name}", reason, "its attributes may be wrong") from error
    return computed


def _as_float64(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64) if is_float(value.dtype) else value


# -- ONNX: the original file in ONNX Runtime


def _from_runtime(
    graph: OperatorGraph, given: Values, names: list[str], seed: int, noise: Noise | None
) -> Values:
    """Run the file with `names` as its outputs.

    Where the runtime refuses a file with operators that we do not support either, or where the data decide otherwise
    than the graph's shapes assume, it runs the rest: what those operators would make is drawn like an input.
    """
    assert graph.source is not None
    model = model_of(graph)
    lost = {op.name for op in graph.operators if op.name in graph.unsupported}
    decided = {n for n, step in graph.host.items() if any(not one.is_limit for one in step.decisions)}
    try:
        found = _run(model, graph, given, names, noise)
        if not decided or all(value.shape == graph.tensors[name].shape for name, value in found.items()):
            return found
        lost = decided
    except Unsupported:
        lost |= decided
        if not lost:
            raise
    unknown = {name for op in graph.operators if op.name in lost for name in op.outputs if name}
    known = [name for name in sorted(unknown) if name in graph.tensors and graph.tensors[name].dtype in INPUT_DTYPES]
    drawn = {name: _input(graph, name, seed, how) for name, how in distributions(graph, known, ()).items()}
    rest = model_of(graph)
    _leave_out(rest, unknown, graph, names)
    return {**drawn, **_run(rest, graph, {**given, **drawn}, names, noise)}


def _leave_out(model: onnx.ModelProto, unknown: Collection[str], graph: OperatorGraph, names: Iterable[str]) -> None:
    """Drop the nodes that make `unknown` tensors, which become inputs, and those that no tensor of `names` needs."""
    needed = set(names)
    kept = []
    for node in reversed([n for n in model.graph.node if not any(name in unknown for name in n.output)]):
        if not needed.isdisjoint(node.output):
            needed.update((*node.input, *captured_tensors(node)))
            kept.append(node)
    replace_all(model.graph.node, kept[::-1])
    model.graph.input.extend(tensor_info(graph.tensors[name]) for name in sorted(unknown) if name in graph.tensors)


def _run(
    model: onnx.ModelProto, graph: OperatorGraph, given: Values, names: list[str], noise: Noise | None
) -> Values:
    """Run a model, which is changed on the way, with those of `names` as outputs that have no value yet."""
    produced = {output for node in model.graph.node for output in node.output}
    outputs = [name for name in names if name in produced and name not in given]
    if not outputs:
        return {}
    feed_weights(model, graph)
    model.ir_version = min(model.ir_version, RUNTIME_IR)
    replace_all(model.graph.output, (onnx.ValueInfoProto(name=name) for name in outputs))
    drawn = noise.add_to(model) if noise else {}
    return run_session(model, graph.name, {**given, **drawn}, outputs)
