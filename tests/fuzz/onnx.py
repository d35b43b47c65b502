"""Broken ONNX files: `python -m tests.fuzz.onnx --seed N --count 10000 [--jobs 2]`.

A random network, or an operator test of the onnx package, is edited where its structure says that it can be broken:
fields, attributes, values, wires, subgraphs, functions, external data, growth.  Then it is loaded, fused and compiled.
It shares nothing with `tests.graph.mutations`, which breaks other files in other ways.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random

import onnx
from google.protobuf.message import DecodeError

import engine
from engine.graph.load import symbolic_dimensions
from engine.support.errors import Unsupported
from tests.fuzz.onnx_edits import EDITS, prepare_outside
from tests.fuzz.onnx_models import operator_tests, random_network
from tests.fuzz.processes import Case, command

GROUPS = 8
"""Kernels compiled of one file."""
MOST_EDITS = 3


def mutant(seed: int, number: int, made_only: bool = False) -> bytes:
    """File `number` of a seed.  made_only: of random networks alone, which need no five seconds to be made."""
    random = Random(f"onnx {seed} {number}")
    if made_only or random.random() < 0.5:
        model = random_network(random)
    else:
        model = onnx.ModelProto.FromString(random.choice(operator_tests()).SerializeToString())
    for edit in random.choices(EDITS, k=random.randint(1, MOST_EDITS)):
        with suppress(DecodeError):  # an edit cannot copy what is nested deeper than protocol buffers go
            edit(model, random)
    data = bytearray(model.SerializeToString())
    if random.random() < 0.03:
        _break_text(data, model, random)
    return bytes(data)


def _break_text(data: bytearray, model: onnx.ModelProto, random: Random) -> None:
    """Make one name no UTF-8; the library writes no such text."""
    names = [name.encode() for node in model.graph.node for name in (node.name, node.op_type, *node.output) if name]
    place = data.find(random.choice(names)) if names else -1
    if place >= 0:
        data[place] = 0xFF


def cases(seed: int, made_only: bool = False) -> Case:
    """The cases of a seed."""

    def case(number: int, folder: Path) -> None:
        prepare_outside(folder)
        path = folder / "model.onnx"
        path.write_bytes(mutant(seed, number, made_only))
        use(path)

    return case


def use(path: Path) -> None:
    """Load, fuse and compile; what no kernel follows is no obstacle to the next group."""
    sizes = dict.fromkeys(symbolic_dimensions(path), 3)
    plan = engine.fuse(engine.load(path, sizes))
    for group in plan.groups[:GROUPS]:
        try:
            engine.compile(group)
        except Unsupported:
            continue


def warm_up() -> None:
    """Import what a case needs, before cases are forked."""
    for name in ("highspy", "islpy", "onnx.reference"):
        import_module(name)


def main() -> int:
    warm_up()
    operator_tests()
    return command("tests.fuzz.onnx", (__doc__ or "").splitlines()[0], cases, use)


if __name__ == "__main__":
    raise SystemExit(main())
