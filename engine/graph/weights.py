"""Values of ONNX tensors: inside the message, in a file beside it, or left out of light models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

import numpy as np
import onnx

from engine.graph.limits import checked_shape
from engine.graph.nodes import DTYPES, Fill
from engine.support.errors import BadInput, Unsupported

LONGEST_NAME = 255
"""Bytes of a file's or a folder's name on Linux."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest magnitude of a number in a light model's notes."""


_ELEMENTS: Mapping[int, str] = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
_OTHERWISE = {"float": "float32", "double": "float64"}
"""Element types that ONNX has another name for."""


def dtype_name(subject: str, element: int) -> str:
    """Our name of an ONNX element type; Unsupported where no array of ours can hold it."""
    if element not in _ELEMENTS or element == onnx.TensorProto.UNDEFINED:
        raise BadInput("graph", subject, f"element type {element} does not exist", "the file may be damaged")
    name = _OTHERWISE.get(_ELEMENTS[element], _ELEMENTS[element])
    if name not in DTYPES:
        raise Unsupported("graph", subject, f"holds {name} elements", "float32 and float16 are compiled")
    return name


def tensor_value(proto: onnx.TensorProto, folder: Path) -> np.ndarray:
    """The array of a stored tensor.  External data is mapped, not read, and only from inside `folder`."""
    subject = f"tensor {proto.name}" if proto.name else "a constant"
    dtype = dtype_name(subject, proto.data_type)
    shape = tuple(proto.dims)
    if 0 not in shape:
        checked_shape(subject, shape)
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return _mapped(proto, subject, dtype, shape, folder)
    try:
        return np.asarray(onnx.numpy_helper.to_array(proto))
    except (ValueError, TypeError) as error:
        raise BadInput("graph", subject, f"its data do not fill {list(shape)}: {error}", "the file is cut") from None


def _mapped(proto: onnx.TensorProto, subject: str, dtype: str, shape: tuple[int, ...], folder: Path) -> np.ndarray:
    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _inside(subject, entries.get("location", ""), folder)
    elements = int(np.prod(shape, dtype=np.int64))
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", elements * DTYPES[dtype]))
    except ValueError:
        raise BadInput("graph", subject, "the offset or length of its external data is no number") from None
    needed, size = elements * DTYPES[dtype], path.stat().st_size
    if offset < 0 or length < needed or offset + needed > size:
        reason = f"needs bytes {offset} to {offset + needed} of {path.name}, which has {size}"
        raise BadInput("graph", subject, reason, "the weights file is cut or belongs to another model")
    if elements == 0:
        return np.zeros(shape, dtype)
    return np.memmap(path, np.dtype(dtype).newbyteorder("<"), "r", offset, shape)


def _inside(subject: str, location: str, folder: Path) -> Path:
    """The weights file, which must lie in the model's folder: a model may not read the rest of the machine."""
    if "\0" in location or any(len(part.encode()) > LONGEST_NAME for part in Path(location).parts):
        reason = f"its weights file {location[:40]!r} is no file name"
        raise BadInput("graph", subject, reason, "the file may be damaged")
    root = folder.resolve()
    path = (root / location).resolve()
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
    for entry in model.metadata_props:
        if entry.key == key:
            try:
                value = json.loads(entry.value)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict):
                raise BadInput("graph", f"metadata {key}", "is no JSON object")
            return value
    return {}


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
