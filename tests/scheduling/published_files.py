"""The published advice files, and a small operator with advice of its own for tests that need no other file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine

ADVICE = Path(__file__).parents[3] / "shared" / "akg" / "advice"
needs_advice = pytest.mark.skipif(not ADVICE.is_dir(), reason=f"{ADVICE} is absent: published files are not shipped")

ADAM = "Fused_Cast_RealDiv_Reshape_FusedAdamWeightDecay_fusion_"
LEGAL = {
    "Fused_AddN_fusion_9584919353229493170": (768, 1024, 4),
    "Fused_Cast_BiasAdd_Gelu_fusion_7719078727474100806": (4096, 768, 4),
    "Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882": (640, 192, 4),
    "Fused_Cast_BiasAdd_GkDropout_tuple_getitem_TensorAdd_fusion_13282325956852925231": (4096, 192, 4),
    f"{ADAM}1039082044534023692": (576, 1024, 4),
    f"{ADAM}1976850843332086880": (576, 1024, 4),
    "Fused_Cast_Reshape_BiasAdd_GkDropout_tuple_getitem_TensorAdd_fusion_3191929972328038399": (4096, 192, 4),
    "Fused_GkDropout_2353362030752466006": (1536, 1024, 4),
    "Fused_Sub_Mul_Mul_split_9258187064108063363": (49152, 32, 4),
}
"""Operator -> (blocks, threads of a block, elements of an access) that its advice asks for, worked out by hand."""

TRANSPOSE = "Fused_Transpose_split_18185609042134105765"
TWO_ITERATORS = f"{ADAM}1545859458890067484"


def operator(name: str) -> Path:
    return ADVICE / "operators" / f"{name}.json"


def trick(name: str) -> Path:
    return ADVICE / "tricks" / f"{name}.json"


def corrected(name: str) -> str:
    """The text of a contradictory file with the contradiction taken out."""
    data = json.loads(trick(name).read_text())
    if name == TRANSPOSE:
        data["gpu"]["blocks"] = [0, 1, 2]
    for wish in data["soft constraints"] if name == TWO_ITERATORS else ():
        wish["meta"] = [1, 0]
    return json.dumps(data)


def group_of(path: Path) -> engine.FusionGroup:
    (group,) = engine.fuse(engine.load(path)).groups
    return group


def adding(folder: Path, shape: tuple[int, ...], bias: bool = False) -> engine.FusionGroup:
    """z = x + y over a shape; with `bias`, y has only the last axis."""

    def tensor(name: str, sizes: tuple[int, ...]) -> dict[str, Any]:
        return {"data_type": "float32", "format": "DefaultFormat", "shape": list(sizes), "tensor_name": name}

    inputs = [[tensor("x", shape)], [tensor("y", shape[-1:] if bias else shape)]]
    add = {"attr": None, "impl_path": "", "name": "Add", "input_desc": inputs, "output_desc": [tensor("z", shape)]}
    named = [[{**one, "name": f"input_{k}"}] for k, (one,) in enumerate(inputs)]
    op = {**add, "input_desc": named, "output_desc": [{**tensor("z", shape), "name": "output_0"}]}
    data = {
        "composite": True, "composite_graph": "1.1", "id": 1, "op": "Fused_Add", "platform": "AKG", "process": "cuda",
        "input_desc": inputs, "op_desc": [op], "output_desc": add["output_desc"],
    }  # fmt: skip
    path = folder / "add.json"
    path.write_text(json.dumps(data))
    return group_of(path)


def file_for(shape: tuple[int, ...], rows: list[str], statements: int = 1, **gpu: list[int]) -> dict[str, Any]:
    """Advice with the same rows for every statement of a pattern over a shape."""
    names = [f"a{k}" for k in range(len(shape))]
    bounds = " and ".join(f"0 <= {n} <= {size - 1}" for n, size in zip(names, shape, strict=True))
    points = [f"S_{k}[{', '.join(names)}]" for k in range(statements)]
    return {
        "name": "made",
        "domain": f"{{ {'; '.join(f'{point} : {bounds}' for point in points)} }}",
        "soft constraints": [
            {"statement": f"S_{k}", "meta": [len(shape), 0], "coefficients": rows} for k in range(statements)
        ],
        "gpu": gpu,
    }
