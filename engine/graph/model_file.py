"""ONNX files and programs of torch.export as ONNX messages: parsed, checked by their header, functions and scans
written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from engine.graph.functions import write_out
from engine.graph.limits import checked_name
from engine.graph.other_formats import other_format
from engine.graph.torch_program.convert import model_of_torch_program
from engine.graph.torch_program.program import is_torch_program
from engine.graph.weights import read_inner_tensors
from engine.support.budgets import MAX_FILE_BYTES, MAX_OPERATORS
from engine.support.errors import BadInput
from engine.support.files import read_bytes

_HINT = "give an .onnx, a .pt2 or an AKG .json file, or `example`"


def read_model(path: Path) -> onnx.ModelProto:
    """Parse the file, check its header, and inline functions."""
    data = read_bytes(path, "graph", _HINT, MAX_FILE_BYTES)
    try:
        is_program = is_torch_program(data)
        model = model_of_torch_program(path, data) if is_program else onnx.load_model_from_string(data)
    except (DecodeError, ValueError, RuntimeError):
        _refuse_other(path, data)
        raise BadInput("graph", str(path), "is no ONNX model, or a damaged one", "export it again") from None
    if not model.HasField("graph") or not model.opset_import:
        _refuse_other(path, data)
        raise BadInput("graph", str(path), "is no ONNX model: it has no graph or no operator set", "export it again")
    if len(model.graph.node) > MAX_OPERATORS:
        raise BadInput("graph", str(path), f"has {len(model.graph.node)} nodes", f"at most {MAX_OPERATORS}")
    for name in dict.fromkeys(_names(model)):
        checked_name(str(path), name)
    read_inner_tensors(model, path.parent)
    return write_out(model, str(path))


def _refuse_other(path: Path, data: bytes) -> None:
    """BadInput for a format that is known, and how to convert it."""
    found = other_format(data)
    if found is not None:
        raise BadInput("graph", str(path), f"is {found.name}; that is not read", found.way) from None


def _names(model: onnx.ModelProto) -> Iterator[str]:
    """Every name in the model that is used later."""
    graph = model.graph
    yield from (opset.domain for opset in model.opset_import)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
