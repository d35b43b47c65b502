"""Read a program of torch.export (.pt2) without PyTorch: JSON and raw weights out of an archive, nothing is unpickled.

    model/models/model.json                       the graph: nodes with the arguments of ATen operators by name
    model/data/weights/model_weights_config.json  parameter -> file, element type, sizes and strides
    model/data/weights/weight_0                   the bytes

As PyTorch 2.9 and later write it (`torch.export.save`).
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from engine.support.budgets import MAX_FILE_BYTES
from engine.support.errors import BadInput
from engine.support.files import parse_json

DTYPES: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(kind)
    for number, kind in {
        1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float16, 7: np.float32, 8: np.float64,
        12: np.bool_, 13: ml_dtypes.bfloat16, 28: np.uint16, 29: ml_dtypes.float8_e4m3fn, 30: ml_dtypes.float8_e5m2,
    }.items()
}  # fmt: skip
"""Element types by their number in the file (torch/_export/serde/schema.py, ScalarType)."""
_GRAPH = "models/model.json"
_PARTS = {"weights": "model_weights_config.json", "constants": "model_constants_config.json"}
_DAMAGES = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration, zipfile.BadZipFile, NotImplementedError,
    zlib.error, EOFError,
)  # fmt: skip
_AGAIN = "save the program again: torch.export.save(torch.export.export(module, args), FILE), with PyTorch 2.9 or later"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and sizes; a size that is open is its symbol."""

    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class TorchNode:
    """A call of an operator."""

    name: str
    target: str
    """ "torch.ops.aten.linear.default"."""
    arguments: Mapping[str, Any]
    """Name -> the argument as the file has it: {"as_tensor": {"name": "x"}}."""
    outputs: tuple[str, ...]
    """Names of its results, "" for those that are no tensors."""


@dataclass(frozen=True, slots=True)
class TorchProgram:
    """An exported program."""

    nodes: tuple[TorchNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, np.ndarray]
    """Parameters, buffers and constants by their names in the graph."""
    tensors: Mapping[str, TensorType]


def is_torch_program(data: bytes) -> bool:
    """Whether a file is an archive that holds a program as JSON."""
    if not data.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return any(name.endswith(f"/{_GRAPH}") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return False


def read_torch_program(path: Path, data: bytes) -> TorchProgram:
    """The program in an archive.  Raises BadInput for one that is damaged or holds pickled weights."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return _program(path, archive)
    except _DAMAGES as error:
        what = f"{type(error).__name__} {error}"
        reason = f"is a damaged program of torch.export, or one in another layout: {what[:120]}"
        raise BadInput("graph", str(path), reason, _AGAIN) from None


def _program(path: Path, archive: zipfile.ZipFile) -> TorchProgram:
    total = sum(member.file_size for member in archive.infolist())
    if total > MAX_FILE_BYTES:
        raise BadInput("graph", str(path), f"unpacks to {total} bytes", f"at most {MAX_FILE_BYTES}")
    name = next(one for one in archive.namelist() if one.endswith(f"/{_GRAPH}"))
    root = name.removesuffix(_GRAPH)
    module = _json(archive, name)["graph_module"]
    graph, signature = module["graph"], module["signature"]
    types = {
        key: TensorType(DTYPES[one["dtype"]], tuple(map(_size, one["sizes"])))
        for key, one in graph["tensor_values"].items()
    }
    inputs, weights = [], {}
    stored = {part: _json(archive, f"{root}data/{part}/{file}")["config"] for part, file in _PARTS.items()}
    for spec in signature["input_specs"]:
        ((kind, found),) = spec.items()
        if kind == "user_input":
            inputs += [found["arg"]["as_tensor"]["name"]] if "as_tensor" in found["arg"] else []
        elif kind in ("parameter", "buffer", "tensor_constant"):
            key = found[f"{kind}_name"]
            part = "weights" if key in stored["weights"] else "constants"
            weights[found["arg"]["name"]] = _weight(path, archive, f"{root}data/{part}/", key, stored[part][key])
    results = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
    outputs = [one["as_tensor"]["name"] for one in results if "as_tensor" in one]
    return TorchProgram(tuple(_nodes(graph["nodes"])), tuple(inputs), tuple(outputs), weights, types)


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    return parse_json(archive.read(name).decode())


def _size(size: Mapping[str, Any]) -> int | str:
    """A size, or the name of its symbol: "s77" of "Symbol('s77', positive=True, integer=True)"; else a formula."""
    if "as_int" in size:
        return int(size["as_int"])
    formula = str(size["as_expr"]["expr_str"])
    symbol = re.fullmatch(r"Symbol\('(\w+)'[^()]*\)", formula)
    return symbol[1] if symbol else formula


def _nodes(nodes: list[Any]) -> Iterator[TorchNode]:
    for number, node in enumerate(nodes):
        outputs: list[str] = []
        for result in node["outputs"]:
            many = result.get("as_tensors") or [result.get("as_tensor") or result.get("as_sym_int")]
            outputs += [one.get("name") or one.get("as_name") or "" if one else "" for one in many]
        arguments = {one["name"] or f"arg{at}": one["arg"] for at, one in enumerate(node["inputs"])}
        yield TorchNode(node.get("name") or f"node{number}", node["target"], arguments, tuple(outputs))


def _weight(path: Path, archive: zipfile.ZipFile, folder: str, key: str, stored: Mapping[str, Any]) -> np.ndarray:
    """A parameter: the elements that its strides reach in its bytes."""
    if stored["use_pickle"]:
        raise BadInput("graph", str(path), f"{key} is pickled, and nothing is unpickled here", _AGAIN)
    meta = stored["tensor_meta"]
    dtype, shape = DTYPES[meta["dtype"]], tuple(int(size["as_int"]) for size in meta["sizes"])
    strides, start = [int(one["as_int"]) for one in meta["strides"]], int(meta["storage_offset"]["as_int"])
    flat = np.frombuffer(archive.read(folder + stored["path_name"]), dtype)
    last = start + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if min(shape, default=1) < 0 or min(strides, default=0) < 0 or start < 0:
        raise ValueError(f"{key} has negative sizes")
    if math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    if last >= flat.size:
        raise ValueError(f"{key} reaches element {last} of {flat.size}")
    bytes_apart = [stride * dtype.itemsize for stride in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat[start:], shape, bytes_apart))
