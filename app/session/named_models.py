"""What stands for a model without being a path: `example`, the built-in one, `suite:NAME/ROW`, `-` for a piped one."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from engine.suite import is_reference
from engine.support.budgets import MAX_FILE_BYTES
from engine.support.errors import BadInput
from engine.support.leftovers import process_folder

EXAMPLE = "example"
MODEL = Path(__file__).resolve().parents[2] / "resources" / "models" / "bert_tiny.onnx"


def is_name(file: str) -> bool:
    """Whether a FILE argument names a model wherever it is asked for, as no path does."""
    return file == EXAMPLE or is_reference(file)


def path_of(file: str) -> Path:
    """What the engine opens for a FILE argument: its own path or row of a suite, the built-in model's path, or that of
    a copy of standard input.
    """
    if file == "-":
        return copy_of_standard_input()
    return MODEL if file == EXAMPLE else Path(file)


@cache
def copy_of_standard_input() -> Path:
    """A file with what is piped in, an AKG description where it begins with a brace, else an ONNX model."""
    if sys.stdin is None:
        raise BadInput("graph", "standard input", "is closed", "pipe a file into it, or name one")
    data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    path = process_folder() / f"standard-input{'.json' if data.lstrip()[:1] == b'{' else '.onnx'}"
    path.write_bytes(data)
    return path
