"""A program of torch.export as an ONNX model.

    torch.ops.aten.linear.default(x, weight, bias)    ->    u = MatMul(x, weight.transposed); y = Add(u, bias)

Operators stand by the names of their results.  One without a form here keeps its name in a domain of its own, so that
the reader of the graph refuses it alone and plans the others.  An operator that writes its operand is one that makes
a new tensor, read by all later calls instead; refused where another tensor might be a view of what it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from engine.graph.torch_program import elementwise, layers, shapes
from engine.graph.torch_program.program import TorchNode, TorchProgram, read_torch_program
from engine.graph.torch_program.sketch import OPSET, OTHERS, Call, OnnxSketch

RULES = {**elementwise.RULES, **shapes.RULES, **layers.RULES}
_VIEWS = frozenset("view reshape permute transpose t unsqueeze squeeze expand split split_with_sizes chunk unbind slice"
                   " select narrow detach alias flatten contiguous to".split())  # fmt: skip
_WITHOUT_RESULT = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range", "_assert_async")
_REFUSALS = (KeyError, ValueError, TypeError, IndexError)
"""What a rule raises for arguments that it does not know."""


def model_of_torch_program(path: Path, data: bytes) -> onnx.ModelProto:
    """The ONNX model of an exported program.  Raises BadInput as `read_torch_program`."""
    program = read_torch_program(path, data)
    sketch = OnnxSketch(program.tensors, program.weights)
    written: dict[str, str] = {}
    viewed: set[str] = set()
    for node in program.nodes:
        _convert(sketch, _with_written(node, written), program, written, viewed)
    outputs = [written.get(name, name) for name in program.outputs]
    for name in dict.fromkeys(one for one in outputs if one in sketch.constants or one in program.weights):
        outputs = [sketch.add("Identity", [name]) if one == name else one for one in outputs]
    made = {name for node in sketch.nodes for name in node.output}
    inner = [name for name in program.tensors if name in made and name not in outputs]
    graph = helper.make_graph(
        sketch.nodes,
        path.stem,
        sketch.value_infos(program.inputs),
        [_output(sketch, name) for name in outputs],
        sketch.initializers(program.weights),
        value_info=sketch.value_infos(inner),
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OTHERS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="torch.export")


def _output(sketch: OnnxSketch, name: str) -> onnx.ValueInfoProto:
    return sketch.value_infos([name])[0] if name in sketch.tensors else onnx.ValueInfoProto(name=name)


def _with_written(node: TorchNode, written: Mapping[str, str]) -> TorchNode:
    """The call on what its operands hold now."""

    def now(argument: Any) -> Any:
        if isinstance(argument, list):
            return [now(one) for one in argument]
        if isinstance(argument, dict):
            return {key: now(written.get(one, one) if key == "name" else one) for key, one in argument.items()}
        return argument

    return replace(node, arguments=now(dict(node.arguments))) if written else node


def _convert(
    sketch: OnnxSketch, node: TorchNode, program: TorchProgram, written: dict[str, str], viewed: set[str]
) -> None:
    """Add the nodes of a call, or one that is refused by its name."""
    name = node.target.removeprefix("torch.ops.aten.").split(".")[0]
    name = node.target if node.target.startswith("_operator.") else name
    if name in _WITHOUT_RESULT or not node.outputs:
        return
    call, count = Call(sketch, node), len(sketch.nodes)
    sketch.call = call.result
    operand = call.tensor("self") or call.tensor("input")
    writes = name.endswith("_") and not name.startswith("__")
    plain = name.rstrip("_") if writes else name
    is_known = node.target.startswith(("torch.ops.aten.", "_operator."))
    try:
        if not is_known or (writes and (operand in viewed or operand in program.inputs or operand in program.weights)):
            raise KeyError(plain)
        RULES[plain](call)
    except _REFUSALS:
        del sketch.nodes[count:]
        read = [one for argument in node.arguments.values() for one in _names_in(argument) if one in sketch.tensors]
        results = list(filter(None, node.outputs))
        sketch.nodes.append(helper.make_node(name, read, results, name=node.name, domain=OTHERS))
    if plain in _VIEWS:
        viewed.update([operand, *node.outputs])
    if writes:
        written[operand] = node.outputs[0]


def _names_in(argument: Any) -> list[str]:
    """Every name of a tensor in an argument."""
    if isinstance(argument, list):
        return [name for one in argument for name in _names_in(one)]
    if isinstance(argument, dict):
        own = [argument["name"]] if isinstance(argument.get("name"), str) else []
        return own + [name for one in argument.values() for name in _names_in(one)]
    return []
