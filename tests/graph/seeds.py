"""Small sound files of every kind that the program reads, to be broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import engine
from app.session.history import NO_STEP, HistoryRecord, HistoryStep
from app.session.loom_file import LoomFile, ModelReference, as_plain, write_loom
from engine.documents.model import Time
from engine.scheduling.text import to_text
from tests.graph.mutators import JSON, PROTOBUF, TEXT, Mutator
from tests.graph.networks import networks
from tests.scheduling import published_files

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "resources" / "models"
AKG = ROOT.parent / "shared" / "akg"
SHAPE = (64, 128)
"""Of the addition."""
LARGEST = 16_000
"""Bytes of a file that is small."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A sound file, what loads it, and how it is broken."""

    name: str
    loader: str
    """"graph", "recipe", "advice", "published" or "workspace"."""
    data: bytes
    mutators: tuple[Mutator, ...]
    suffix: str
    operator: Path | None = None
    """What published advice is for; None: the addition of `tests.scheduling.published_files`."""

    @property
    def kind(self) -> str:
        """Seeds of one kind are drawn as often as those of another."""
        return self.loader + self.suffix


def seeds(folder: Path) -> tuple[Seed, ...]:
    """Every seed; `folder` is used to write workspace files."""
    softmax = _group(MODELS / "softmax_96x512.onnx")
    return (
        *(Seed(name, "graph", proto.SerializeToString(), PROTOBUF, ".onnx") for name, proto in networks().items()),
        *(Seed(path.stem, "graph", path.read_bytes(), PROTOBUF, ".onnx") for path in _small(MODELS, "*.onnx")),
        *(Seed(path.stem[:40], "graph", path.read_bytes(), JSON, ".json") for path in _operators()),
        Seed("tanh", "graph", _tanh(), JSON, ".json"),
        Seed("recipe", "recipe", json.dumps(engine.default_recipe(softmax).to_json()).encode(), JSON, ".json"),
        Seed("advice", "advice", _advice(softmax), TEXT, ".txt"),
        *(Seed(path.stem[:40], "published", path.read_bytes(), JSON, ".json", _behind(path)) for path in _tricks()),
        Seed("published", "published", _published(), JSON, ".json"),
        *(Seed(f"workspace of {n}", "workspace", data, kinds, ".loom") for n, data, kinds in _workspaces(folder)),
    )


def _small(folder: Path, pattern: str = "*.json") -> list[Path]:
    return [path for path in sorted(folder.glob(pattern)) if path.stat().st_size <= LARGEST]


def _operators() -> Iterator[Path]:
    for folder in (AKG, AKG / "stitch"):
        yield from _small(folder)


def _group(path: Path) -> engine.FusionGroup:
    return engine.fuse(engine.load(path)).groups[0]


def _tanh() -> bytes:
    """y = tanh(x) as AKG describes it, written into a buffer in place."""
    x, y, z, out = (
        {"tensor_name": name, "shape": [4, 6], "data_type": "float32", "format": "DefaultFormat"}
        for name in ("x", "y", "z", "o")
    )
    tanh = {"name": "Tanh", "attr": None, "input_desc": [[x]], "output_desc": [y]}
    fake = [{"name": "fake_output", "data_type": "bool", "value": True}]
    update = {"name": "InplaceAssign", "attr": fake, "input_desc": [[z], [y], [y]], "output_desc": [out]}
    whole = {
        "op": "Fused",
        "input_desc": [[x], [z]],
        "op_desc": [tanh, update],
        "output_desc": [out],
        "process": "cuda",
    }
    return json.dumps(whole).encode()


def _advice(group: engine.FusionGroup) -> bytes:
    """What the advisers say of a softmax, and entries of every other kind."""
    more = (
        "advice user\n  required S1, S2 @ innermost: pin j  # because rows are contiguous\n"
        "  off S3 @ outermost: parallel true\n  all @ outermost: cut S0 S1 S2 | S3\n"
        '  either "first"\n    S0 @ i: split 4\n    all @ any: objective "proximity"\n  or\n    S0 @ j: mark vector 4\n'
        "    S1 @ i: terms (i, 1)\n    all @ j: equal S0, S1\n"
    )
    return (to_text(engine.default_recipe(group).groups[group.name]) + more).encode()


def _published() -> bytes:
    """Advice for the addition in AKG's form."""
    rows = ["[1, 0, ?]", "[0, 1, ?] (/4)", "[0, 1, ?] (%4)"]
    return json.dumps(published_files.file_for(SHAPE, rows, blocks=[0], threads=[1], swizzle=[2])).encode()


def _tricks() -> list[Path]:
    return [path for path in _small(AKG / "advice/tricks") if _behind(path).is_file()]


def _behind(trick: Path) -> Path:
    return AKG / "advice/operators" / trick.name


def _workspaces(folder: Path) -> Iterator[tuple[str, bytes, tuple[Mutator, ...]]]:
    """A workspace as text, and one that is large enough to be compressed."""
    steps = [HistoryStep("advice map\n", "As advised", NO_STEP, Time(3.5, "predicted", "uncalibrated"))]
    steps += [HistoryStep(f"advice map\n# {at}\n", f"step {at}", at - 1) for at in range(1, 4)]
    trail = HistoryRecord(tuple(steps), 1, 0, ((0, 1), (1, 2)), "advice nobody\n")
    content = LoomFile(
        ModelReference("softmax.onnx", "ab" * 32), "h100", {"batch": 4}, {"softmax_0": trail}, "softmax_0"
    )
    yield "text", json.dumps(as_plain(content)).encode(), JSON
    large = HistoryRecord((HistoryStep("x" * 1_200_000, "long", NO_STEP),))
    path = folder / "large.loom"
    write_loom(LoomFile(ModelReference("a.onnx"), "h200", groups={"g": large}), path)
    yield "archive", path.read_bytes(), JSON[:3]
