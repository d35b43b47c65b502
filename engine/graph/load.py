"""Open a graph file of either kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path

from engine.graph.akg import load_akg
from engine.graph.convolution_weights import with_ordered_weights
from engine.graph.nodes import OperatorGraph
from engine.graph.onnx import load_onnx
from engine.graph.onnx import symbolic_dimensions as onnx_dimensions
from engine.graph.quantized_weights import with_prepared_weights
from engine.support.errors import BadInput


def load(path: str | Path, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """Read an ONNX model, a program of torch.export or an AKG operator description, told apart by their first bytes.

    dims: sizes for the symbolic dimensions of an ONNX model.  Raises BadInput for a file that is neither, is damaged,
    or leaves a dimension open, and Unsupported for element types that no kernel could hold.
    """
    path = Path(path)
    if not _is_json(path):
        sizes = {name: _size(name, size) for name, size in (dims or {}).items()}
        return with_ordered_weights(with_prepared_weights(load_onnx(path, sizes)))
    if dims:
        raise BadInput("graph", str(path), f"has no dimension {sorted(dims)[0]}", "AKG files have fixed shapes")
    return load_akg(path)


def _size(name: str, size: object) -> int:
    """A size of a dimension; one of another library's types, as NumPy's, as an int."""
    if isinstance(size, Integral) and not isinstance(size, bool):
        return int(size)
    raise BadInput("graph", f"dimension {name}", f"is {size!r}, which is no whole number", "give it a size, such as 8")


def symbolic_dimensions(path: Path) -> dict[str, list[str]]:
    """Name of every dimension of a file that has to be given a size -> where it is used.  BadInput as `load`."""
    return onnx_dimensions(path) if os.path.isfile(path) and not _is_json(path) else {}


def _is_json(path: Path) -> bool:
    """Whether the text starts like a JSON document; ONNX files start with a protocol buffer tag."""
    if not os.path.isfile(path):  # also a pipe, which would keep the reader waiting; the loader refuses it
        return False
    try:
        with path.open("rb") as file:
            start = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    except OSError:
        return False
    return start in (b"{", b"[") or (path.suffix.lower() == ".json" and start != b"\x08")
