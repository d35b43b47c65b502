"""Exported programs of PyTorch as graphs, by way of ONNX."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from engine.graph.load import load
from engine.graph.nodes import OperatorGraph
from engine.support.errors import BadInput, Unsupported
from engine.support.leftovers import process_folder

_numbers = itertools.count()


def load_exported(program: Any, dims: Mapping[str, int] | None = None) -> OperatorGraph:
    """The graph of an exported program.  Raises what `write_onnx` does."""
    return load(write_onnx(program)[0], dims)


def write_onnx(program: Any) -> tuple[Path, Any]:
    """(an ONNX file of an exported program, in a folder of this process; the program with the operators it came from).

    Raises BadInput for what is no program, or what the exporter cannot translate, Unsupported for a program that
    updates tensors in place: the file would have its results alone.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        hint = "torch.export.export(module.eval(), (example inputs,))"
        raise BadInput("torch", type(program).__name__, "is no torch.export.ExportedProgram", hint)
    path = process_folder() / f"exported_{next(_numbers)}.onnx"
    with _quiet():
        try:
            written = torch.onnx.export(program, dynamo=True, verbose=False)
        except (torch.onnx.errors.OnnxExporterError, NotImplementedError) as error:
            reason = f"PyTorch's exporter does not write it as ONNX: {_first_cause(error)}"
            raise BadInput("torch", "the exported program", reason) from error
        signature = written.exported_program.graph_signature
        for name in (*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()):
            hint = "statistics of a normalization are updated in training only: export model.eval()"
            raise Unsupported("torch", name, "is updated in place, which no operator here does", hint)
        written.save(str(path))
    return path, written.exported_program


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what the exporter's parts say of each other, such as that torchvision is not installed."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _first_cause(error: BaseException) -> str:
    """The first line of what went wrong in the exporter: the errors around it only say in which step."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0]
