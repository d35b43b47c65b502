"""Every real file beside the repository, by part: networks, other exporters' graphs, training steps, AKG's operators;
and the rows of the suites, which are shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.suite import model_file, read_suite, suite_names

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODELS, EXPORTS, TRAINING, AKG, SUITES = "models", "exports", "training", "akg", "suites"
_FOLDERS = {
    MODELS: ("models/*.onnx",), EXPORTS: ("exports/*.onnx", "exports/minimal/*"), TRAINING: ("training/*.onnx",),
    AKG: ("akg/*.json", "akg/stitch/*.json", "akg/advice/operators/*.json"),
}  # fmt: skip
PARTS = (*_FOLDERS, SUITES)
SIZES: Mapping[str, Mapping[str, int]] = {"roberta_ts11": {"batch": 2, "seq": 16}, "shape_idiom_11": {"b": 2, "n": 8}}
"""Sizes of the symbolic dimensions that a file leaves open, by its stem."""
COMPLEX = "complex__complex_add"
"""The stem of the one file that `engine.load` refuses: its numbers are complex, and there is no such element type.
`tests.verify.test_fused_operators` holds the refusal."""


def files(only: str = "") -> Iterator[tuple[str, Path]]:
    """(part, file) of every file whose part is `only` or whose name contains it; of all without it."""
    for part, path in _every():
        if only in ("", part) or only in path.name:
            yield part, path


def _every() -> Iterator[tuple[str, Path]]:
    for part, patterns in _FOLDERS.items():
        yield from ((part, path) for pattern in patterns for path in sorted(SHARED.glob(pattern)))
    for suite in map(read_suite, suite_names()):
        yield from ((SUITES, model_file(suite.reference(row))) for row in suite.rows)
