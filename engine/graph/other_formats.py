"""Files of other tools that are not read: what they are, and how their graph becomes one that is.

Told apart by their first bytes and, of archives, by the names inside; nothing in them is unpacked or run.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from io import BytesIO

_EXPORTED = ("serialized_exported_program.json", "archive_format")
_PICKLED = ("data.pkl", "constants.pkl")
_MLIR = re.compile(rb"^\s*(?://[^\n]*\n\s*)*(?:#\w+ = [^\n]*\n\s*)*module\b")
_DIALECTS = ("stablehlo", "mhlo", "vhlo", "torch", "tosa", "linalg")


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A format that is not read."""

    name: str
    """ "a program of torch.export (.pt2)"."""
    way: str
    """How to convert it."""


EXPORTED_PROGRAM = OtherFormat(
    "a program of torch.export (.pt2) as PyTorch before 2.9 wrote it, and PyTorch runs what is pickled in it when it "
    "is loaded",
    "where you trust it, save it again with PyTorch 2.9 or later: torch.export.save(torch.export.load(FILE), NEW)",
)
PICKLED_MODULE = OtherFormat(
    "a module or weights of PyTorch, which are unpickled to be read",
    "export the module: torch.onnx.export(module.eval(), (example,), 'model.onnx', dynamo=True)",
)
STABLEHLO = OtherFormat(
    "a module of MLIR, such as StableHLO",
    "export the model as ONNX where it is built: JAX by jax2onnx, TensorFlow by tf2onnx, PyTorch by torch.onnx.export",
)
KERAS = OtherFormat("a model of Keras", "export it: model.export('model.onnx', format='onnx')")
SAFETENSORS = OtherFormat("a file of safetensors, which holds weights and no graph", "export the model as ONNX")
_BY_START = {
    b"ML\xefR": STABLEHLO,
    b"\x89HDF": KERAS,
    b"GGUF": OtherFormat("a GGUF file of llama.cpp, which holds weights and no graph", "export the model as ONNX"),
    b"\x80\x02": PICKLED_MODULE, b"\x80\x04": PICKLED_MODULE,
}  # fmt: skip
_TFLITE, _TFLITE_AT = b"TFL3", 4


def other_format(data: bytes) -> OtherFormat | None:
    """The format of a file that is no ONNX model; None for one that is not known."""
    if data.startswith(b"PK\x03\x04"):
        return _of_archive(data)
    if data[_TFLITE_AT : _TFLITE_AT + len(_TFLITE)] == _TFLITE:
        return OtherFormat("a model of TensorFlow Lite", "python -m tf2onnx.convert --tflite FILE --output model.onnx")
    start = next((found for start, found in _BY_START.items() if data.startswith(start)), None)
    if start is None and _MLIR.match(data[:4096]) and any(f"{word}.".encode() in data for word in _DIALECTS):
        return STABLEHLO
    return start or (SAFETENSORS if data[8:9] == b"{" and b'"dtype"' in data[:4096] else None)


def _of_archive(data: bytes) -> OtherFormat | None:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return None
    ends = {name.rpartition("/")[2] for name in names}
    if not ends.isdisjoint(_EXPORTED):
        return EXPORTED_PROGRAM
    if not ends.isdisjoint(_PICKLED):
        return PICKLED_MODULE
    return KERAS if "config.json" in ends else None
