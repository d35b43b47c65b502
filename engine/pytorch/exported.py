"""Exported programs of PyTorch as graphs, by way of ONNX."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from engine.graph.load import load
from engine.graph.nodes import OperatorGraph
from engine.support.errors import BadInput
from engine.support.leftovers import process_folder

_numbers = itertools.count()


def load_exported(program: Any, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """The graph of an exported program.  Raises BadInput for what is none, or what the exporter cannot translate."""
    return load(write_onnx(program), dims)


def write_onnx(program: Any) -> Path:
    """An ONNX file of an exported program, in a folder of this process."""
    if not isinstance(program, torch.export.ExportedProgram):
        hint = "torch.export.export(module.eval(), (example inputs,))"
        raise BadInput("torch", type(program).__name__, "is no torch.export.ExportedProgram", hint)
    path = process_folder() / f"exported_{next(_numbers)}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own parts, about PyTorch's
        try:
            torch.onnx.export(program, dynamo=True, verbose=False).save(str(path))
        except (torch.onnx.errors.OnnxExporterError, NotImplementedError) as error:
            reason = f"PyTorch's exporter does not write it as ONNX: {_first_cause(error)}"
            raise BadInput("torch", "the exported program", reason) from error
    return path


def _first_cause(error: BaseException) -> str:
    """The first line of what went wrong in the exporter: the errors around it only say in which step."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0]
