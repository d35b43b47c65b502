"""The built-in model: what `example` means wherever a file is asked for."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = "example"
MODEL = Path(__file__).resolve().parent.parent / "resources" / "models" / "bert_tiny.onnx"


def path_of(file: str) -> Path:
    """The path behind a FILE argument: its own, or the built-in model's."""
    return MODEL if file == EXAMPLE else Path(file)
