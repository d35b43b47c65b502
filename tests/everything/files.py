"""The real files beside the repository, by part: networks, and AKG's operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODELS, AKG = "models", "akg"
_FOLDERS = {MODELS: ("models/*.onnx",), AKG: ("akg/*.json", "akg/stitch/*.json", "akg/advice/operators/*.json")}


def files(only: str = "") -> Iterator[tuple[str, Path]]:
    """(part, file) of every file whose part is `only` or whose name contains it; of all without it."""
    for part, patterns in _FOLDERS.items():
        for path in (path for pattern in patterns for path in sorted(SHARED.glob(pattern))):
            if only in ("", part) or only in path.name:
                yield part, path
