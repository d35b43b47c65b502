"""Broken AKG operator descriptions: `python -m tests.fuzz.akg --seed N --count 10000 [--jobs 2]`.

A random fused operator, or a published one where ../shared/akg has them, is edited as JSON.  Then it is loaded, fused
and compiled.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import engine
from engine.support.errors import Unsupported
from tests.fuzz.json_edits import broken
from tests.fuzz.processes import REFUSALS, Case, command
from tests.support.commands import ROOT

PUBLISHED = ROOT.parent / "shared" / "akg"
MOST_EDITS = 3
GROUPS = 8
"""Kernels compiled of one file."""
UNARY = "Neg Abs Exp Log Sqrt Rsqrt Reciprocal Tanh Square Erf Floor Ceil Round Sign Sin Cos".split()
BINARY = "Add Sub Mul RealDiv Maximum Minimum Pow".split()
REDUCTIONS = "ReduceSum ReduceMax ReduceMin ReduceProd".split()
OTHERS = """Cast Select OneHot Gather Concat AddN Tile CumSum CumProd Transpose Reshape BroadcastTo ExpandDims Squeeze
StridedSlice MatMul BatchMatMul Conv2D PadAkg UnPadAkg Argmax ElemAny InplaceAssign Assign Equal LogicalAnd IsNan CReal
Complex NoSuchOp""".split()
WORDS: tuple[Any, ...] = (
    *UNARY, *BINARY, *REDUCTIONS, *OTHERS, "float16", "float32", "float64", "bfloat16", "int32", "int64", "bool",
    "complex64", "value", "axis", "keep_dims", "perm", "shape", "transpose_a", "pad", "stride", "fake_output", "x", "y",
    [4, 6], [6, 4], [1, 6], [24], [1], [-1], [65536, 65536], [2] * 9, [2**31, 2**31], [0], [-1, 6],
    {"name": "axis", "value": [0, 0]}, {"name": "axis", "value": -9}, {"name": "perm", "value": [1, 1]},
    {"name": "shape", "value": [-1, -1]}, {"name": "multiples", "value": [2**20, 2**20]},
    {"name": "begin", "value": [9, -9]}, {"name": "strides", "value": [0, -1]}, {"name": "fake_output", "value": True},
)  # fmt: skip


def _tensor(name: str, shape: list[int], element: str = "float32") -> dict[str, Any]:
    return {"tensor_name": name, "shape": shape, "data_type": element, "format": "DefaultFormat"}


def _attribute(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": value}


def _operator(random: Random, known: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """One more operator on tensors that there are."""
    x = random.choice(known)
    shape, attributes, inputs = list(x["shape"]), [], [x]
    match random.randrange(6):
        case 0 | 1:
            kind = random.choice(UNARY)
        case 2:
            kind = random.choice(BINARY)
            alike = [other for other in known if other["shape"] == shape]
            scalar = {**_tensor(f"{name}_s", [1]), "value": random.choice((0.5, 2, -1))}
            inputs = [x, random.choice((*alike, scalar))]
        case 3 if shape:
            kind, axis = random.choice(REDUCTIONS), random.randrange(len(shape))
            shape[axis] = 1
            attributes = [_attribute("axis", [axis]), _attribute("keep_dims", True)]
        case 4 if shape:
            kind, order = "Transpose", random.sample(range(len(shape)), len(shape))
            shape = [shape[axis] for axis in order]
            attributes = [_attribute("perm", order)]
        case _:
            kind, size = "Reshape", 1
            for extent in shape:
                size *= extent
            shape = random.choice(([size], [1, size], [size, 1], shape[::-1]))
            attributes = [_attribute("shape", shape)]
    output = _tensor(name, shape)
    known.append(output)
    return {"name": kind, "attr": attributes or None, "input_desc": [[each] for each in inputs],
            "output_desc": [output]}  # fmt: skip


def made(random: Random) -> dict[str, Any]:
    """A sound description of up to eight operators."""
    shape = random.choice(([4, 6], [96, 33], [2, 3, 16], [1], [128], [5, 1, 7]))
    known = [_tensor("x", shape), _tensor("y", shape)]
    operators = [_operator(random, known, f"t{number}") for number in range(random.randint(1, 8))]
    used = {each["tensor_name"] for op in operators for (each,) in op["input_desc"]}
    inputs = [[each] for each in known[:2] if each["tensor_name"] in used]
    results = [op["output_desc"][0] for op in operators if op["output_desc"][0]["tensor_name"] not in used]
    return {"composite": True, "op": "Fused", "platform": "AKG", "process": "cuda", "input_desc": inputs,
            "op_desc": operators, "output_desc": results}  # fmt: skip


@lru_cache(maxsize=1)
def published() -> list[dict[str, Any]]:
    """The published descriptions that are small; none where they are absent."""
    files = sorted(PUBLISHED.glob("*.json"))
    return [json.loads(file.read_text()) for file in files if file.stat().st_size < 30_000]


def mutant(seed: int, number: int, made_only: bool = False) -> bytes:
    """File `number` of a seed.  made_only: of random operators alone."""
    random = Random(f"akg {seed} {number}")
    bases = [] if made_only else published()
    base = random.choice(bases) if bases and random.random() < 0.4 else made(random)
    return broken(base, WORDS, random, MOST_EDITS)


def cases(seed: int, made_only: bool = False) -> Case:
    """The cases of a seed."""

    def case(number: int, folder: Path) -> None:
        path = folder / "fused.json"
        path.write_bytes(mutant(seed, number, made_only))
        use(path)

    return case


def use(path: Path) -> None:
    """Load, fuse and compile; what no kernel follows is no obstacle to the next group."""
    plan = engine.fuse(engine.load(path))
    for group in plan.groups[:GROUPS]:
        try:
            engine.compile(group)
        except Unsupported:
            continue


def warm_up() -> None:
    """Read the published files and compile once, before cases are forked."""
    published()
    group = engine.fuse(engine.load("suite:alcop/MM_RN50_FC")).groups[0]
    engine.compile(group)


def main() -> int:
    warm_up()
    return command("tests.fuzz.akg", (__doc__ or "").splitlines()[0], cases, use, REFUSALS)


if __name__ == "__main__":
    raise SystemExit(main())
