"""Values of ONNX tensors: inside the message, in a file beside it, or left out of light models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeGuard

import numpy as np
import onnx

from engine.graph.limits import checked_shape
from engine.graph.nodes import COMPILED_DTYPES, DTYPES, INPUT_DTYPES, AttributeValue, Fill, dtype_text
from engine.graph.subgraphs import subgraphs
from engine.support.budgets import MAX_COMPUTED
from engine.support.errors import BadInput, Unsupported
from engine.support.files import parse_json

LONGEST_NAME = 255
"""Bytes of a file's or a folder's name on Linux."""
LARGEST = float(np.finfo(np.float32).max)
"""Largest magnitude of a number in the metadata of a light model."""


_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
"""Bits of the element types that files store packed."""


def dtype_name(subject: str, element: int) -> str:
    """Our name of an ONNX element type; BadInput where there is no such type."""
    name = _dtype_names().get(element)
    if name is None:
        raise BadInput("graph", subject, f"element type {element} does not exist", "the file may be damaged")
    return name


@cache
def _dtype_names() -> Mapping[int, str]:
    """ONNX element type -> our name of it."""
    elements = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    return {element: dtype_text(onnx.helper.tensor_dtype_to_np_dtype(element)) for element in elements}


def input_dtype_name(subject: str, element: int) -> str:
    """`dtype_name` of a graph's input; Unsupported where no values can be fed."""
    name = dtype_name(subject, element)
    if name not in INPUT_DTYPES:
        raise Unsupported("graph", subject, f"holds {name} elements", f"{', '.join(COMPILED_DTYPES)} are compiled")
    return name


def element_of(dtype: str) -> int:
    """The ONNX element type that we have a name for."""
    if dtype == "string":
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def tensor_value(proto: onnx.TensorProto, folder: Path) -> np.ndarray:
    """The array of a stored tensor.  External data is mapped, not read, and only from inside `folder`."""
    subject = f"tensor {proto.name}" if proto.name else "a constant"
    dtype = dtype_name(subject, proto.data_type)
    shape = tuple(proto.dims)
    checked_shape(subject, shape, least=0 if 0 in shape else 1)
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return _map_file(proto, subject, dtype, shape, folder)
    return _read_stored(proto, subject)


def read_inner_tensors(model: onnx.ModelProto, folder: Path) -> None:
    """Bring external data of attributes, subgraphs and functions into the message.

    ONNX's library, which evaluates these, would look for the files in the working directory.
    Raises BadInput as `tensor_value` does, and for more than `MAX_COMPUTED` elements.
    """
    of_functions = (_inner_tensors(function.node, is_inner=True) for function in model.functions)
    for tensor in chain(_inner_tensors(model.graph.node, is_inner=False), *of_functions):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            if math.prod(tensor.dims) > MAX_COMPUTED:
                reason = f"has {math.prod(tensor.dims)} elements in a file, and stands in an attribute or a subgraph"
                raise BadInput("graph", f"tensor {tensor.name}", reason, f"at most {MAX_COMPUTED} are read there")
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(tensor_value(tensor, folder)), tensor.name))


def _inner_tensors(nodes: Iterable[onnx.NodeProto], is_inner: bool) -> Iterator[onnx.TensorProto]:
    """Tensors of subgraphs and of attributes, but for the values of a graph's own Constant nodes."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t") and (is_inner or node.op_type != "Constant"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
        for graph in subgraphs(node):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            yield from _inner_tensors(graph.node, is_inner=True)


def _read_stored(proto: onnx.TensorProto, subject: str) -> np.ndarray:
    """The array of a tensor whose data is inside the message."""
    try:
        return np.asarray(onnx.numpy_helper.to_array(proto))
    except (ValueError, TypeError) as error:
        reason = f"its data do not fill {list(proto.dims)}: {error}"
        raise BadInput("graph", subject, reason, "the file is cut") from None


def _map_file(proto: onnx.TensorProto, subject: str, dtype: str, shape: tuple[int, ...], folder: Path) -> np.ndarray:
    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _inside(subject, entries.get("location", ""), folder)
    elements = int(np.prod(shape, dtype=np.int64))
    # Rounded up to whole bytes: packed types share the last byte.
    needed, size = -(-elements * _BITS.get(dtype, DTYPES[dtype] * 8) // 8), path.stat().st_size
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", needed))
    except ValueError:
        raise BadInput("graph", subject, "the offset or length of its external data is no number") from None
    if length < needed:
        reason = f"its external data have a length of {length} bytes; {elements} {dtype} elements need {needed}"
        raise BadInput("graph", subject, reason, "export the model again")
    if offset < 0 or offset + needed > size:
        reason = f"needs bytes {offset} to {offset + needed} of {path.name}, which has {size}"
        raise BadInput("graph", subject, reason, "the weights file is cut or belongs to another model")
    if elements == 0:
        return np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
    if dtype in _BITS:
        packed = np.fromfile(path, np.uint8, needed, offset=offset).tobytes()
        return _read_stored(onnx.TensorProto(data_type=proto.data_type, dims=shape, raw_data=packed), subject)
    if dtype == "string":
        raise BadInput("graph", subject, "texts cannot lie outside the model", "export the model again")
    # Mapped: weights may be larger than memory.  ONNX stores them in little-endian order.
    return np.memmap(path, np.dtype(dtype).newbyteorder("<"), "r", offset, shape)


def _inside(subject: str, location: str | bytes, folder: Path) -> Path:
    """The path of a weights file.  It must lie in the model's folder: a model must not read other files of the
    machine.
    """
    # Protocol buffers hand out damaged UTF-8 as bytes.
    is_name = isinstance(location, str) and "\0" not in location
    if not is_name or any(len(part.encode()) > LONGEST_NAME for part in Path(str(location)).parts):
        reason = f"its weights file {location[:40]!r} is no file name"
        raise BadInput("graph", subject, reason, "the file may be damaged")
    location = str(location)
    root = folder.resolve()
    try:
        path = (root / location).resolve()
    except (OSError, RuntimeError):  # what links that lead to each other raise, by version
        reason = f"its weights file {location!r} is a link that leads nowhere"
        raise BadInput("graph", subject, reason, f"put the file itself into {folder}") from None
    if not location or Path(location).is_absolute() or ".." in Path(location).parts or not path.is_relative_to(root):
        reason = f"its weights file {location!r} is outside the model's folder"
        raise BadInput("graph", subject, reason, f"put it into {folder}")
    if not path.is_file():
        raise BadInput("graph", subject, f"its weights file {location} is missing", f"put it into {folder}")
    return path


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value of a model's metadata is a number that float32 can hold."""
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST


def metadata(model: onnx.ModelProto, key: str) -> dict[str, object]:
    """A JSON object of the model's metadata, {} where there is none."""
    text = next((entry.value for entry in model.metadata_props if entry.key == key), "{}")
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadInput("graph", f"metadata {key}", "is no JSON object")
    return value


def light_fills(model: onnx.ModelProto) -> Mapping[str, Fill]:
    """The weights that a light model leaves out: tensor -> the distribution that stands for its values."""
    fills = {}
    for name, entry in metadata(model, "light.weights").items():
        match entry:
            case [("normal" | "uniform") as distribution, a, b] if is_number(a) and is_number(b):
                fills[name] = Fill(distribution, float(a), float(b))
            case _:
                raise BadInput("graph", f"metadata light.weights, {name}", f"{entry!r} is no [distribution, a, b]")
    return fills


def attribute_value(attribute: onnx.AttributeProto, folder: Path) -> AttributeValue:
    """What an attribute of a node holds.  folder: of the file, for values that lie beside it."""
    match attribute.type:
        case onnx.AttributeProto.TENSOR:
            return tensor_value(attribute.t, folder)
        case onnx.AttributeProto.STRING:
            return str(attribute.s, "utf-8", "replace")
        case onnx.AttributeProto.STRINGS:
            return tuple(str(text, "utf-8", "replace") for text in attribute.strings)
        case onnx.AttributeProto.INT:
            return int(attribute.i)
        case onnx.AttributeProto.FLOAT:
            return float(attribute.f)
        case onnx.AttributeProto.INTS:
            return tuple(attribute.ints)
        case onnx.AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case _:  # graphs, sparse tensors, types: no operator that has one is compiled
            return f"({onnx.AttributeProto.AttributeType.Name(attribute.type).lower()})"


def constant_value(attributes: Mapping[str, AttributeValue]) -> list[np.ndarray] | None:
    """The value of a Constant node, whichever of its attributes holds it."""
    for name, value in attributes.items():
        if isinstance(value, np.ndarray) and name == "value":
            return [value]
        if name in ("value_float", "value_floats"):
            return [np.asarray(value, np.float32)]
        if name in ("value_int", "value_ints"):
            return [np.asarray(value, np.int64)]
    return None
