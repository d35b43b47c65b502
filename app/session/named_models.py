"""What stands for a model without being a path: `example`, the built-in one, and `suite:NAME/ROW`."""

from __future__ import annotations

from pathlib import Path

from engine.suite import is_reference

EXAMPLE = "example"
MODEL = Path(__file__).resolve().parents[2] / "resources" / "models" / "bert_tiny.onnx"


def is_name(file: str) -> bool:
    """Whether a FILE argument names a model wherever it is asked for, as no path does."""
    return file == EXAMPLE or is_reference(file)


def path_of(file: str) -> Path:
    """What the engine opens for a FILE argument: its own path or row of a suite, or the built-in model's path."""
    return MODEL if file == EXAMPLE else Path(file)
